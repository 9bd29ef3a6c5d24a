//! Which products have their rows written as f16 first.

use nino_dtype::DType;
use nino_graph::{Graph, Plan};

use crate::testing::some_adapter;
use crate::{Caps, Tier, kernels};

/// The kernels of a linear layer.
fn used(caps: &Caps, [rows, n, k]: [usize; 3], x: DType, weights: DType) -> Vec<&'static str> {
    let mut g = Graph::new();
    let x = g.input("x", [rows, k], x);
    let w = g.param("w", [n, k], weights);
    let out = g.linear(x, w, None);
    g.output(out);
    let plan = Plan::new(g.finish().unwrap(), &caps.limits()).unwrap();
    let launches = kernels(caps, &plan).unwrap();
    launches.iter().map(|launch| launch.kernel.file).collect()
}

#[test]
fn bf16_rows_become_f16_where_matrix_units_take_them() {
    let caps = |tier| Caps::new(&some_adapter(), &wgpu::Limits::default(), tier);
    let (matrices, plain) = (caps(Tier::Coop), caps(Tier::Subgroup));
    let (brain, half) = (DType::BF16, DType::F16);
    let size = [256, 128, 64];
    let (row, product) = ("half_rows", "gemm_coop");
    // Rows of the weights, rows of the input; f16 weights are what they are.
    assert_eq!(used(&matrices, size, brain, brain), [row, row, product]);
    assert_eq!(
        used(&matrices, size, brain, DType::Q8_0),
        [row, row, product]
    );
    assert_eq!(used(&matrices, size, brain, half), [row, product]);
    // Few rows, few columns, rows that are not whole groups of eight.
    assert_eq!(used(&matrices, [255, 128, 64], brain, brain), ["gemm"]);
    assert_eq!(used(&matrices, [256, 120, 64], brain, brain), ["gemm"]);
    assert_eq!(used(&matrices, [256, 132, 64], brain, brain), ["gemm"]);
    assert_eq!(used(&matrices, [256, 128, 60], brain, brain), ["gemm"]);
    // More rows than are written at a time: weights once.
    let many = used(&matrices, [9000, 128, 64], brain, brain);
    assert_eq!(many, [row, row, product, row, product]);
    // f16 needs none of it, and without matrix units nothing is gained.
    assert_eq!(used(&matrices, size, half, half), [product]);
    assert_eq!(used(&plain, size, brain, brain), ["gemm"]);
}
