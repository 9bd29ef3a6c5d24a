//! Products of bytes, forced on adapters that compute them without instructions for it.

use crate::adapters;
use crate::suite::check_cases;
use nino_dtype::DType;
use nino_gpu::{AdapterInfo, Gpu, GpuDevice, OpenOptions, Tier};
use nino_suite::{Case, CaseBuilder, Class, Rng, Tensor, compare, reference, variants};
use std::collections::BTreeMap;

/// Opens every adapter that has them at all.
fn devices() -> Vec<GpuDevice> {
    let adapters = adapters();
    let open = |info: &AdapterInfo| {
        let options = OpenOptions {
            adapter: info.index.to_string(),
            tier: Some(Tier::F16),
            dot_products: Some(true),
            ..OpenOptions::default()
        };
        GpuDevice::new(Gpu::open_in(&adapters, &options).unwrap())
    };
    let able = adapters.infos.iter().filter(|i| i.dot_products.is_some());
    able.map(open).collect()
}

#[test]
fn gpu_products_of_bytes_agree_with_the_reference() {
    let problems = ["linear weights", "scaled weights"];
    check_cases(
        devices(),
        |problem| problems.contains(&problem),
        |case| case.contains("q8_0"),
    );
}

fn product([m, n, k]: [usize; 3]) -> Case {
    let mut rng = Rng::new(23);
    let mut c = CaseBuilder::new(&mut rng);
    let x = c.input([m, k], DType::F32);
    let w = c.weight([n, k], DType::Q8_0);
    let bias = c.param([n], DType::F32, 0.0, 0.5);
    let out = c.g.linear(x, w, Some(bias));
    c.finish(format!("linear {m}x{n}x{k}"), out, Class::Int8)
}

/// Every 32 values as the nearest of 255 steps up to the largest, as the CPU rounds them.
fn rounded(x: &Tensor) -> Tensor {
    let blocks = x.values.as_chunks::<32>().0;
    let values = blocks.iter().flat_map(|block| {
        let peak = block.iter().fold(0.0, |m: f32, &v| m.max(v.abs() as f32));
        block.map(|v| {
            f64::from(peak / 127.0) * f64::from((v as f32 * (127.0 / peak)).round_ties_even())
        })
    });
    Tensor::new(x.shape, values.collect())
}

/// Of sizes for every tile, and more rows than are rounded at a time. With inputs that are not
/// rounded the difference is a million times larger.
#[test]
fn gpu_rows_are_rounded_as_on_the_cpu() {
    let devices = devices();
    for sizes in [
        [300, 132, 160],
        [520, 520, 96],
        [2900, 2900, 32],
        [4200, 60, 32],
    ] {
        let case = product(sizes);
        let inputs = case.inputs.iter().map(|(&node, x)| (node, rounded(x)));
        let expected = reference::eval(&case.graph, &inputs.collect(), &case.params).unwrap();
        for device in &devices {
            let whole = variants(device, &case)[0];
            let d = compare(device, &case, whole, &expected).unwrap();
            assert!(d.nmse < 1e-11 && d.not_finite == 0, "{}: {d}", case.name);
        }
    }
}

/// Rounding must not hide what tells that values have left their type's range.
#[test]
fn gpu_values_that_are_not_numbers_stay_so() {
    for bad in [f64::NAN, f64::INFINITY] {
        let mut case = product([300, 64, 64]);
        let x = case.inputs.values_mut().next().unwrap();
        x.values[7 * 64 + 3] = bad;
        let out = case.graph.outputs()[0];
        let finite = BTreeMap::from([(out, Tensor::zeros(case.graph.shape(out)))]);
        for device in devices() {
            let whole = variants(&device, &case)[0];
            let d = compare(&device, &case, whole, &finite).unwrap();
            // One row of 64 in each of two runs.
            assert_eq!(d.not_finite, 2 * 64, "a row of {bad}");
        }
    }
}
