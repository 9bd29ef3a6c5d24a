//! Which products are of bytes.

use nino_dtype::DType;
use nino_graph::{Graph, Plan};

use crate::testing::some_adapter;
use crate::{Caps, Tier, kernels};

/// The kernels of a linear layer.
fn used(caps: &Caps, rows: usize, columns: usize, weights: DType) -> Vec<&'static str> {
    let mut g = Graph::new();
    let x = g.input("x", [rows, 64], DType::F16);
    let w = g.param("w", [columns, 64], weights);
    let out = g.linear(x, w, None);
    g.output(out);
    let plan = Plan::new(g.finish().unwrap(), &caps.limits()).unwrap();
    let launches = kernels(caps, &plan).unwrap();
    launches.iter().map(|launch| launch.kernel.file).collect()
}

#[test]
fn bytes_are_multiplied_where_that_is_an_instruction_and_pays() {
    let caps = |tier, dot_products| Caps {
        dot_products,
        ..Caps::new(&some_adapter(), &wgpu::Limits::default(), tier)
    };
    let able = caps(Tier::Subgroup, true);
    let bytes = ["round8", "gemm_int8"];
    assert_eq!(used(&able, 256, 96, DType::Q8_0), bytes);
    // Few rows; columns that are not whole groups of four; other weights.
    assert_eq!(used(&able, 255, 96, DType::Q8_0), ["gemm"]);
    assert_eq!(used(&able, 256, 98, DType::Q8_0), ["expand", "gemm"]);
    assert_eq!(used(&able, 256, 96, DType::NF4), ["expand", "gemm"]);
    // More rows than are rounded at a time.
    assert_eq!(used(&able, 5000, 96, DType::Q8_0), bytes.repeat(2));
    let unable = caps(Tier::Subgroup, false);
    assert_eq!(used(&unable, 256, 96, DType::Q8_0), ["expand", "gemm"]);
    let matrices = caps(Tier::Coop, true);
    assert_eq!(
        used(&matrices, 256, 96, DType::Q8_0),
        ["expand", "gemm_coop"]
    );
}
