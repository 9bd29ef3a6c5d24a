//! A convolution whose input is larger than the device binds at once: cut by rows, same result.

use crate::devices;
use nino_dtype::DType;
use nino_graph::{Device, Graph, ParamError, ParamSource, ParamSpec, Plan, RunOptions};
use std::sync::Arc;

const C: usize = 16;
const N: usize = 4;
const STRIDE: usize = 4;

struct Ramp;

fn weight(i: usize) -> f32 {
    (i * 7 % 23) as f32 / 23.0 - 0.5
}

fn pixel(i: usize) -> f32 {
    (i * 31 % 1009) as f32 / 1009.0 - 0.5
}

impl ParamSource for Ramp {
    fn read(&self, _: &ParamSpec, dst: &mut [u8]) -> Result<(), ParamError> {
        for (i, word) in dst.chunks_exact_mut(4).enumerate() {
            word.copy_from_slice(&weight(i).to_le_bytes());
        }
        Ok(())
    }
}

#[test]
fn gpu_conv_larger_than_a_binding_is_cut() {
    for device in devices(None) {
        let limit = device.gpu().info.max_binding_bytes as usize;
        // Only where a little more than the limit is a test of seconds.
        if limit > 256 << 20 {
            println!("skipped: {} binds {limit} bytes at once", device.name());
            continue;
        }
        let width = 1024;
        let height = limit / (width * C * 4) + 40;
        let mut g = Graph::new();
        let x = g.input("x", [1, height, width, C], DType::F32);
        let w = g.param("w", [N, 3, 3, C], DType::F32);
        let out = g.push(nino_graph::Op::Conv(nino_graph::Conv {
            x,
            w,
            stride: [1, STRIDE, STRIDE],
            pad: [1, 1, 1, 1],
            dilation: [1, 1],
            upsample: 1,
            pre: None,
            epi: nino_graph::Epilogue::default(),
        }));
        g.output(out);
        let plan = Arc::new(Plan::new(g.finish().unwrap(), &device.limits()).unwrap());
        assert!(plan.steps().len() > 1 && plan.largest_binding() <= limit);
        let weights = device.load(&[&plan], Arc::new(Ramp)).unwrap();
        let mut session = device.session(Arc::clone(&plan), &weights).unwrap();
        let input: Vec<u8> = (0..height * width * C)
            .flat_map(|i| pixel(i).to_le_bytes())
            .collect();
        session.write(x, &input).unwrap();
        session.run(RunOptions::default()).unwrap();
        let shape = plan.graph().shape(out);
        let mut bytes = vec![0; shape.numel() * 4];
        session.read(out, &mut bytes).unwrap();
        for i in (0..shape.numel())
            .step_by(997)
            .chain(shape.numel() - 64..shape.numel())
        {
            let found = f32::from_le_bytes(bytes[i * 4..i * 4 + 4].try_into().unwrap());
            let (n, ox, oy) = (i % N, i / N % shape[2], i / N / shape[2]);
            let mut sum = 0.0f32;
            for tap in 0..9 {
                let (y, x) = (oy * STRIDE + tap / 3, ox * STRIDE + tap % 3);
                if (1..=height).contains(&y) && (1..=width).contains(&x) {
                    let at = ((y - 1) * width + x - 1) * C;
                    sum += (0..C)
                        .map(|c| pixel(at + c) * weight((n * 9 + tap) * C + c))
                        .sum::<f32>();
                }
            }
            assert!(
                (found - sum).abs() < 1e-4,
                "value {i}: {found}, expected {sum}"
            );
        }
    }
}
