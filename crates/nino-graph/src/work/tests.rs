//! Every op is of the kind that decides its speed, and none is lost.

use super::*;

#[test]
fn work_is_the_graphs_cost_by_kind() {
    let mut g = Graph::new();
    let x = g.input("x", [1, 8, 8, 64], DType::F32);
    let wide = g.param("wide", [64, 3, 3, 64], DType::F16);
    let a = g.conv2d(x, wide, None, 1);
    let few = g.input("few", [1, 8, 8, 4], DType::F32);
    let narrow = g.param("narrow", [64, 3, 3, 4], DType::F16);
    let b = g.conv2d(few, narrow, None, 1);
    let sum = g.add(a, b);
    let matrix = g.param("matrix", [32, 64], DType::Q8_0);
    let out = g.linear(sum, matrix, None);
    g.output(out);
    let g = g.finish().unwrap();
    let work = g.work();
    let of = |kind: Kind| {
        let found = work.kinds().find(|(k, _)| *k == kind);
        found.unwrap_or_else(|| panic!("no {kind:?}")).1.flops as u64
    };
    let x = DType::F32;
    let pixels = 64;
    assert_eq!(of(Kind::Conv3x3 { x }), 2 * pixels * 64 * 9 * 64);
    let product = |w| of(Kind::Linear { x, w });
    assert_eq!(product(DType::F16), 2 * pixels * 64 * 9 * 4);
    assert_eq!(product(DType::Q8_0), 2 * pixels * 32 * 64);
    assert_eq!(of(Kind::Other), pixels * 64);
    assert_eq!(work.total(), g.total_cost());
    let each = g.total_cost().flops as u64;
    assert_eq!(work.times(3).total().flops as u64, 3 * each);
}
