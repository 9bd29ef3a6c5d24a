//! Values kept outside the arena or across its pages pass through windows of rows: same result as a
//! plan that fits.

use crate::devices;
use crate::waves::Waves;
use nino_dtype::DType;
use nino_gpu::GpuDevice;
use nino_graph::{Conv, Device, Epilogue, Graph, Node, Op};
use nino_graph::{Limits, Plan, RunOptions};
use std::sync::Arc;

/// Two convolutions with an activation between, from the first number of channels to the last.
fn graph([first, between, last]: [usize; 3]) -> (Graph, Node, Node) {
    let mut g = Graph::new();
    let x = g.input("x", [2, 21, 17, first], DType::F16);
    let mut h = x;
    for (name, cin, cout) in [("a", first, between), ("b", between, last)] {
        let w = g.param(name, [cout, 3, 3, cin], DType::F16);
        h = g.push(Op::Conv(Conv {
            x: h,
            w,
            stride: [1; 3],
            pad: [1; 4],
            dilation: [1, 1],
            upsample: 1,
            pre: None,
            epi: Epilogue::default(),
        }));
        h = g.silu(h);
    }
    g.output(h);
    (g.finish().unwrap(), x, h)
}

/// What a device makes of the graph under some limits.
fn run(
    device: &GpuDevice,
    (graph, x, out): &(Graph, Node, Node),
    limits: &Limits,
) -> (Vec<u8>, Arc<Plan>) {
    let plan = Arc::new(Plan::new(graph.clone(), limits).unwrap());
    let weights = device.load(&[&plan], Arc::new(Waves)).unwrap();
    let mut session = device.session(Arc::clone(&plan), &weights).unwrap();
    session.poison().unwrap();
    let values = (0..graph.shape(*x).numel()).map(|i| half::f16::from_f32((i as f32).cos()));
    let bytes: Vec<u8> = values.flat_map(half::f16::to_le_bytes).collect();
    session.write(*x, &bytes).unwrap();
    session.run(RunOptions::default()).unwrap();
    let mut found = vec![0; graph.bytes(*out)];
    session.read(*out, &mut found).unwrap();
    (found, plan)
}

/// Squares of Winograd's kernel begin at the same rows wherever a part does.
#[test]
fn gpu_convolutions_of_odd_parts_give_the_same_bits() {
    let graph = graph([16, 32, 24]);
    for device in devices(None) {
        let (whole, _) = run(&device, &graph, &device.limits());
        let three_rows = 3.0 * 17.0 * 9.0 * 2.0 * (16.0 * 32.0);
        let parts = Limits {
            max_step_flops: Some(three_rows),
            ..device.limits()
        };
        let (parts, plan) = run(&device, &graph, &parts);
        assert!(plan.steps().len() > 20, "{} steps", plan.steps().len());
        assert_eq!(whole, parts);
    }
}

#[test]
fn gpu_values_that_pass_through_the_arena_give_the_same_result() {
    // Rows that are no whole words.
    let graph = graph([3, 5, 3]);
    for device in devices(None) {
        let run = |limits: &Limits| run(&device, &graph, limits);
        let (whole, plan) = run(&device.limits());
        assert!(plan.host_bytes() == 0 && plan.pages_bytes() == 0);
        let on_host = Limits {
            host_above: 1,
            window: 1500,
            ..device.limits()
        };
        let (parts, plan) = run(&on_host);
        assert!(plan.host_bytes() > 0 && plan.steps().len() > 4);
        assert_eq!(whole, parts);
        // Three rows a step, which end within a word.
        let small = Limits {
            page: 768,
            max_binding: 768,
            ..device.limits()
        };
        let (parts, plan) = run(&small);
        assert!(plan.pages_bytes() > 3 * 768 && plan.steps().len() > 20);
        assert_eq!(whole, parts);
    }
}

/// Two terabytes beside the arena are refused before anything is made.
#[test]
fn gpu_what_the_host_cannot_hold_is_refused() {
    let mut g = Graph::new();
    let x = g.input("x", [1 << 20, 1 << 20], DType::F16);
    let out = g.silu(x);
    g.output(out);
    let graph = g.finish().unwrap();
    for device in devices(None) {
        let limits = Limits {
            host_above: 1 << 30,
            ..device.limits()
        };
        let plan = Arc::new(Plan::new(graph.clone(), &limits).unwrap());
        let weights = device.load(&[&plan], Arc::new(Waves)).unwrap();
        let error = device.session(plan, &weights).err().map(|e| e.to_string());
        let error = error.expect("no host has that much");
        assert!(error.contains("2097152 MiB"), "{error}");
    }
}
