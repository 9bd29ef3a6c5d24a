//! Products: linear and matmul, and what products of all kinds have in common.

use super::{ACTIVATIONS, Problem};
use crate::long::{EACH, PIXELS, W, image};
use crate::{Case, CaseBuilder, Class, Long, Rng};
use nino_dtype::DType;
use nino_graph::{Act, Conv, Epilogue, Graph, Linear, MatMul, Node, Op, Shape, UpsampleMode};

pub(super) const PROBLEMS: &[Problem] = &[
    Problem {
        name: "linear",
        ops: &["linear"],
        cases: linear,
    },
    Problem {
        name: "linear weights",
        ops: &["linear"],
        cases: linear_weights,
    },
    Problem {
        name: "scaled weights",
        ops: &["linear", "conv"],
        cases: scaled,
    },
    Problem {
        name: "products of whole lines",
        ops: &["linear", "conv"],
        cases: whole_lines,
    },
    Problem {
        name: "long sums",
        ops: &["linear", "matmul", "conv", "attention"],
        cases: long_sums,
    },
    Problem {
        name: "matmul",
        ops: &["matmul"],
        cases: matmul,
    },
];

/// The class of a product with weights of a type at `taps` filter positions. Devices may use
/// integer dot products where `Q8_0` weights have one position.
pub(super) fn class(activations: DType, weights: DType, taps: usize) -> Class {
    match weights {
        DType::Q8_0 if taps == 1 => Class::Int8,
        // A result in bf16 is rounded by more than the weights are.
        _ if weights.is_block() && activations != DType::BF16 => Class::Quant,
        _ => Class::of(activations),
    }
}

fn linear(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for (b, m, k, n) in [
            (1, 1, 1, 1),
            (1, 7, 5, 3),
            (2, 33, 64, 48),
            (1, 129, 96, 130),
            (1, 1, 300, 257),
        ] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([b, m, k], dtype);
            let w = c.weight([n, k], DType::F32);
            let bias = (n > 3).then(|| c.param([n], DType::F32, 0.0, 0.5));
            let out = c.g.linear(x, w, bias);
            cases.push(c.finish(
                format!("linear [{b},{m},{k}]x[{n},{k}] {dtype}"),
                out,
                Class::of(dtype),
            ));
        }
    }
    cases
}

fn linear_weights(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for weights in DType::ALL
        .into_iter()
        .filter(|d| d.is_real() && *d != DType::F64)
    {
        for dtype in ACTIVATIONS {
            // The last has enough rows for weights to be worth decoding once for all.
            let sizes = [(1, 1, 5), (19, 3, 37), (70, 2, 64), (261, 1, 24)];
            // What differs between activations of 16 bits is how weights are packed, not tiles.
            let sizes = if dtype == DType::BF16 {
                &sizes[1..2]
            } else {
                &sizes
            };
            for &(m, blocks, n) in sizes {
                let k = if weights.is_block() {
                    weights.block_len() * blocks
                } else {
                    48 * blocks + 1
                };
                let mut c = CaseBuilder::new(rng);
                let x = c.input([1, m, k], dtype);
                let w = c.weight([n, k], weights);
                let out = c.g.linear(x, w, None);
                let name = format!("linear [{m},{k}]x[{n},{k}] {dtype}, weights {weights}");
                cases.push(c.finish(name, out, class(dtype, weights, 1)));
            }
        }
    }
    cases
}

/// Weights that are stored divided by a factor for each output, as fp8 and int8 files have them.
fn scaled(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    let sizes = [
        (1, 32, 3, 0),
        (5, 64, 24, 0),
        (33, 256, 72, 0),
        (7, 96, 40, 3),
        (300, 160, 132, 0),
    ];
    for dtype in ACTIVATIONS {
        for weights in [DType::F8E4M3, DType::Q8_0, dtype] {
            for (i, (rows, k, n, side)) in sizes.into_iter().enumerate() {
                let mut c = CaseBuilder::new(rng);
                let scale = Some(c.param([n], DType::F32, 0.5, 0.4));
                let bias = (i % 2 == 0).then(|| c.param([n], DType::F32, 0.0, 0.5));
                let act = (i == 2).then_some(Act::Silu);
                let shape = match side {
                    0 => vec![rows, k],
                    _ => vec![1, rows, 6, k],
                };
                let x = c.input(Shape::new(&shape), dtype);
                let out = Shape::new(&shape).with_last(n);
                let epi = Epilogue {
                    scale,
                    bias,
                    act,
                    residual: (i > 1).then(|| c.input(out, dtype)),
                    ..Epilogue::default()
                };
                let made = if side == 0 {
                    let w = c.weight([n, k], weights);
                    let (pre, gate) = (None, None);
                    c.g.push(Op::Linear(Linear {
                        x,
                        w,
                        rows: None,
                        pre,
                        epi,
                        gate,
                    }))
                } else {
                    let w = c.weight([n, side, side, k], weights);
                    let plain = Conv::plain(x, w, None, [1; 3], [side / 2; 4]);
                    c.g.push(Op::Conv(Conv { epi, ..plain }))
                };
                let name = format!("scaled {weights}: {rows}x{k} to {n}, kernel {side}, {dtype}");
                cases.push(c.finish(name, made, class(dtype, weights, side.max(1))));
            }
        }
    }
    cases
}

/// 16-bit products whose rows are whole lines of 128 bytes, with every combination of bias,
/// activation and residual. Kernels for matrix units take only such rows.
fn whole_lines(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    let halved = Act::Affine {
        mul: 0.5,
        add: 0.25,
    };
    let around = [
        (false, None, false, None),
        (true, None, true, None),
        (true, Some(Act::Silu), false, None),
        (true, None, true, Some(Act::Relu)),
        (true, Some(halved), true, None),
    ];
    // (rows or picture, channels, kernel, stride, upsampling)
    let sizes = [
        ([1, 3], 64, 24, 0, 1, 1),
        ([7, 19], 192, 72, 0, 1, 1),
        ([13, 11], 64, 40, 3, 1, 1),
        ([9, 10], 128, 72, 3, 2, 1),
        ([5, 6], 64, 136, 3, 1, 2),
        ([6, 9], 128, 64, 1, 1, 1),
    ];
    for ([h, w], cin, cout, k, stride, up) in sizes {
        for (biased, act, add, post) in around {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([2, h, w, cin], DType::F16);
            let bias = biased.then(|| c.param([cout], DType::F32, 0.0, 0.5));
            let mut out = if k == 0 {
                let weights = c.weight([cout, cin], DType::F16);
                c.g.linear(x, weights, bias)
            } else {
                let weights = c.weight([cout, k, k, cin], DType::F16);
                let x = match up {
                    1 => x,
                    _ => c.g.upsample(x, up, UpsampleMode::Nearest),
                };
                let pad = [k / 2; 4];
                let conv = Conv::plain(x, weights, bias, [1, stride, stride], pad);
                c.g.push(Op::Conv(conv))
            };
            if let Some(act) = act {
                out = c.g.act(out, act);
            }
            if add {
                let residual = c.input(c.g.shape(out), DType::F16);
                out = c.g.add(residual, out);
            }
            if let Some(post) = post {
                out = c.g.act(out, post);
            }
            let name = format!(
                "{k}x{k} over 2x{h}x{w}x{cin} to {cout}, stride {stride}, up {up}, \
                 bias {biased}, {act:?}, add {add}, {post:?}"
            );
            cases.push(c.finish(name, out, Class::of(DType::F16)));
        }
    }
    cases
}

/// f16 products of 4096 and more terms: a kernel that sums in f16 is outside [`Class::Half`] here.
fn long_sums(rng: &mut Rng) -> Vec<Case> {
    const TERMS: usize = 4096;
    let dtype = DType::F16;
    let mut cases = Vec::new();

    let mut c = CaseBuilder::new(rng);
    let x = c.input([1, 24, TERMS], dtype);
    let w = c.weight([40, TERMS], dtype);
    let out = c.g.linear(x, w, None);
    cases.push(c.finish("linear of 4096 terms f16", out, Class::Half));

    let mut c = CaseBuilder::new(rng);
    let a = c.input([1, 17, TERMS], dtype);
    let b = c.input([1, TERMS, 24], dtype);
    let scale = 1.0 / (TERMS as f32).sqrt();
    let b_transposed = false;
    let out = c.g.push(Op::MatMul(MatMul {
        a,
        b,
        b_transposed,
        scale,
    }));
    cases.push(c.finish("matmul of 4096 terms f16", out, Class::Half));

    let mut c = CaseBuilder::new(rng);
    let x = c.input([1, 5, 6, TERMS / 8], dtype);
    let w = c.weight([24, 3, 3, TERMS / 8], dtype);
    let out = c.g.conv2d(x, w, None, 1);
    cases.push(c.finish("conv of 4608 terms f16", out, Class::Half));

    let mut c = CaseBuilder::new(rng);
    let q = c.input([1, 20, 1, 64], dtype);
    let k = c.input([1, TERMS, 1, 64], dtype);
    let v = c.input([1, TERMS, 1, 64], dtype);
    let out = c.g.attention(q, k, v, None);
    cases.push(c.finish("attention to 4096 keys f16", out, Class::Half));
    cases
}

fn matmul(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for (b, m, k, n) in [(1, 1, 1, 1), (3, 17, 9, 5), (2, 66, 40, 70)] {
            for b_transposed in [false, true] {
                let mut c = CaseBuilder::new(rng);
                let a = c.input([b, m, k], dtype);
                let rhs = c.input(if b_transposed { [b, n, k] } else { [b, k, n] }, dtype);
                let out = c.g.push(Op::MatMul(MatMul {
                    a,
                    b: rhs,
                    b_transposed,
                    scale: 0.25,
                }));
                let name = format!(
                    "matmul {b}x[{m},{k}]x[{k},{n}]{} {dtype}",
                    if b_transposed { "t" } else { "" }
                );
                cases.push(c.finish(name, out, Class::of(dtype)));
            }
        }
    }
    cases
}

/// Kernels over more than 2^32 elements.
pub(super) const LONG: &[Long] = &[
    Long::new("linear of lines", W * 64, PIXELS, |g, h, t| {
        let x = g.input("x", [1, h, W, 64], t);
        long_linear(g, x, 64)
    }),
    Long::new("linear", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        long_linear(g, x, 32)
    }),
    Long::new("linear to odd rows", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        long_linear(g, x, 7)
    }),
    Long::new("matmul", 24 * 40, 12, |g, b, t| long_matmul(g, b, t, false)),
    Long::new("matmul, cut and transposed", 24 * 40, 9, |g, b, t| {
        long_matmul(g, b, t, true)
    }),
];

fn long_matmul(g: &mut Graph, b: usize, dtype: DType, b_transposed: bool) -> Node {
    let [m, n, k] = [6, 40, 24];
    let a = g.input("a", [b, m, k], dtype);
    let shape = if b_transposed { [b, n, k] } else { [b, k, n] };
    let op = MatMul {
        a,
        b: g.input("b", shape, dtype),
        b_transposed,
        scale: 0.5,
    };
    g.push(Op::MatMul(op))
}

fn long_linear(g: &mut Graph, x: Node, n: usize) -> Node {
    let (dtype, shape) = (g.dtype(x), g.shape(x));
    let epi = Epilogue {
        bias: Some(g.param("b", [n], DType::F32)),
        residual: Some(g.input("residual", shape.with_last(n), dtype)),
        ..Epilogue::default()
    };
    let w = g.param("w", [n, shape.last_dim()], dtype);
    g.push(Op::Linear(Linear {
        x,
        w,
        rows: None,
        pre: None,
        epi,
        gate: None,
    }))
}
