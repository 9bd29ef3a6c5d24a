//! bf16 products whose operands are written as f16 for matrix units.

use crate::adapters;
use crate::suite::check;
use nino_dtype::DType;
use nino_gpu::{AdapterInfo, Gpu, GpuDevice, OpenOptions, Tier};
use nino_graph::Device;
use nino_suite::{Case, CaseBuilder, Class, Rng, Tensor, compare, variants};
use std::collections::BTreeMap;

/// Opens every adapter that has matrix units, without NVIDIA's own kernels.
fn devices() -> Vec<GpuDevice> {
    let adapters = adapters();
    let open = |info: &AdapterInfo| {
        let options = OpenOptions {
            adapter: info.index.to_string(),
            tier: Some(Tier::Coop),
            ptx: false,
            ..OpenOptions::default()
        };
        GpuDevice::new(Gpu::open_in(&adapters, &options).unwrap())
    };
    let able = adapters.infos.iter();
    let able = able.filter(|i| i.tiers.contains(&Tier::Coop));
    able.map(open).collect()
}

#[test]
fn gpu_products_of_bf16_agree_as_f16() {
    let devices = devices();
    assert!(devices.iter().all(|d| d.limits().halves));
    check(devices, |name| name.contains("of many bf16"));
}

fn product([m, n, k]: [usize; 3]) -> Case {
    let mut rng = Rng::new(29);
    let mut c = CaseBuilder::new(&mut rng);
    let x = c.input([m, k], DType::BF16);
    let w = c.weight([n, k], DType::BF16);
    let out = c.g.linear(x, w, None);
    c.finish(format!("linear {m}x{n}x{k}"), out, Class::Brain)
}

/// Powers of two must not hide what tells that values have left their type's range, nor carry it to
/// other rows.
#[test]
fn gpu_values_that_are_not_numbers_stay_so_as_f16() {
    for bad in [f64::NAN, f64::INFINITY] {
        let mut case = product([300, 128, 64]);
        let x = case.inputs.values_mut().next().unwrap();
        x.values[7 * 64 + 3] = bad;
        let out = case.graph.outputs()[0];
        let finite = BTreeMap::from([(out, Tensor::zeros(case.graph.shape(out)))]);
        for device in devices() {
            let whole = variants(&device, &case)[0];
            let d = compare(&device, &case, whole, &finite).unwrap();
            // One row of 128 in each of two runs.
            assert_eq!(d.not_finite, 2 * 128, "a row of {bad}");
        }
    }
}

/// In attention what is not finite stays in a query's row of its head, and in a value's column.
#[test]
fn gpu_attention_keeps_what_is_no_number_where_it_is() {
    const SIZES: [usize; 4] = [1, 300, 2, 64];
    let mut rng = Rng::new(31);
    let mut c = CaseBuilder::new(&mut rng);
    let [q, k, v] = [(); 3].map(|()| c.input(SIZES, DType::BF16));
    let out = c.g.attention(q, k, v, None);
    let mut case = c.finish("attention", out, Class::Brain);
    let mut set = |node, [row, head, column]: [usize; 3], bad| {
        let values = &mut case.inputs.get_mut(&node).unwrap().values;
        values[(row * 2 + head) * 64 + column] = bad;
    };
    set(q, [7, 0, 3], f64::NAN);
    set(v, [5, 1, 9], f64::INFINITY);
    let finite = BTreeMap::from([(out, Tensor::zeros(SIZES))]);
    for device in devices() {
        let whole = variants(&device, &case)[0];
        let d = compare(&device, &case, whole, &finite).unwrap();
        assert_eq!(d.not_finite, 2 * (64 + 300), "in two runs");
    }
}
