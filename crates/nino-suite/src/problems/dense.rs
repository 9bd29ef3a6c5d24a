//! Products: linear, matmul, convolution, attention.

use super::{ACTIVATIONS, Problem};
use crate::{Case, CaseBuilder, Class, Rng, Tensor};
use nino_dtype::DType;
use nino_graph::{Act, Attention, Conv, MatMul, Op, UpsampleMode};

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
    Problem {
        name: "conv2d",
        ops: &["conv"],
        cases: conv2d,
    },
    Problem {
        name: "conv weights",
        ops: &["conv"],
        cases: conv_weights,
    },
    Problem {
        name: "causal conv",
        ops: &["conv"],
        cases: causal_conv,
    },
    Problem {
        name: "conv of a slice",
        ops: &["conv"],
        cases: conv_slice,
    },
    Problem {
        name: "attention",
        ops: &["attention"],
        cases: attention,
    },
];

/// The class of a product with weights of a type at `taps` filter positions. Devices may use
/// integer dot products where `Q8_0` weights have one position.
fn class(activations: DType, weights: DType, taps: usize) -> Class {
    match weights {
        DType::Q8_0 if taps == 1 => Class::Int8,
        _ if weights.is_block() => Class::Quant,
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
        for dtype in [DType::F32, DType::F16] {
            // The last has enough rows for weights to be worth decoding once for all.
            for (m, blocks, n) in [(1, 1, 5), (19, 3, 37), (70, 2, 64), (261, 1, 24)] {
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

/// (h, w, cin, cout, kernel, stride, padding, dilation)
type ConvSize = (
    usize,
    usize,
    usize,
    usize,
    [usize; 2],
    usize,
    [usize; 4],
    usize,
);

const CONVS: [ConvSize; 14] = [
    (1, 1, 1, 1, [1, 1], 1, [0; 4], 1),
    (5, 7, 3, 4, [1, 1], 1, [0; 4], 1),
    (8, 8, 16, 16, [3, 3], 1, [1; 4], 1),
    (13, 9, 33, 17, [3, 3], 1, [1; 4], 1),
    (1, 17, 64, 65, [3, 3], 1, [1; 4], 1),
    (16, 16, 64, 128, [3, 3], 1, [1; 4], 1),
    (21, 19, 32, 64, [3, 3], 1, [1; 4], 1),
    (10, 11, 8, 8, [3, 3], 2, [0, 1, 0, 1], 1),
    (9, 12, 4, 6, [3, 3], 2, [1; 4], 1),
    (12, 12, 5, 7, [5, 5], 1, [2; 4], 1),
    (14, 10, 6, 5, [3, 3], 1, [2; 4], 2),
    (9, 9, 4, 32, [7, 1], 1, [3, 3, 0, 0], 1),
    (18, 22, 24, 3, [3, 3], 1, [1; 4], 1),
    (5, 9, 16, 4, [3, 3], 1, [1; 4], 1),
];

fn conv2d(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for (i, &(h, w, cin, cout, [kh, kw], stride, pad, dilation)) in CONVS.iter().enumerate() {
            let batch = 1 + usize::from(i % 4 == 3);
            let mut c = CaseBuilder::new(rng);
            let x = c.input([batch, h, w, cin], dtype);
            let weights = c.weight([cout, kh, kw, cin], DType::F32);
            let bias = Some(c.param([cout], DType::F32, 0.0, 0.5));
            let mut conv = Conv::plain(x, weights, bias, [1, stride, stride], pad);
            conv.dilation = [dilation; 2];
            let out = c.g.push(Op::Conv(conv));
            let name = format!(
                "conv {batch}x{h}x{w} {cin}->{cout} {kh}x{kw} s{stride} p{pad:?} d{dilation} {dtype}"
            );
            cases.push(c.finish(name, out, Class::of(dtype)));
        }
    }
    cases
}

fn conv_weights(rng: &mut Rng) -> Vec<Case> {
    let plain = [DType::F16, DType::BF16, DType::F8E4M3, DType::F8E5M2].map(|d| (d, 24));
    let blocks = [DType::Q8_0, DType::Q4_0]
        .map(|d| (d, 32))
        .into_iter()
        .chain([DType::Q4_K, DType::Q6_K].map(|d| (d, 256)));
    let mut cases = Vec::new();
    for (weights, cin) in plain.into_iter().chain(blocks) {
        // The larger ones have enough pixels for weights to be worth decoding once for all.
        for (k, h, w, dtype) in [
            (1, 9, 6, DType::F32),
            (3, 9, 6, DType::F32),
            (1, 17, 16, DType::F16),
            (3, 17, 16, DType::F16),
        ] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([1, h, w, cin], dtype);
            let kernel = c.weight([24, k, k, cin], weights);
            let out = c.g.conv2d(x, kernel, None, k / 2);
            let name = format!("conv {h}x{w} {cin}->24 {k}x{k} {dtype}, weights {weights}");
            cases.push(c.finish(name, out, class(dtype, weights, k * k)));
        }
    }
    cases
}

fn causal_conv(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        for (b, t, kt, k, stride) in [
            (1, 3, 3, 3, 1),
            (2, 4, 3, 1, 1),
            (1, 5, 3, 3, 2),
            (1, 2, 1, 3, 1),
        ] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([b, t, 6, 7, 12], dtype);
            let w = c.weight([10, kt, k, k, 12], DType::F32);
            let bias = Some(c.param([10], DType::F32, 0.0, 0.5));
            let out = c.g.causal_conv(x, w, bias, [stride, 1, 1], [k / 2; 4]);
            cases.push(c.finish(
                format!("causal conv {b}x{t} frames {kt}x{k}x{k} s{stride} {dtype}"),
                out,
                Class::of(dtype),
            ));
        }
    }
    // Some devices have kernels for channels that fill whole lines of memory.
    for (b, t, k, stride, cin, cout) in [
        (2, 4, 3, 1, 32, 40),
        (1, 5, 3, 2, 64, 96),
        (2, 5, 1, 1, 96, 32),
        (2, 4, 3, 1, 16, 4),
    ] {
        let mut c = CaseBuilder::new(rng);
        let x = c.input([b, t, 6, 7, cin], DType::F16);
        let w = c.weight([cout, 3, k, k, cin], DType::F16);
        let bias = Some(c.param([cout], DType::F32, 0.0, 0.5));
        let out = c.g.causal_conv(x, w, bias, [stride, 1, 1], [k / 2; 4]);
        let name = format!("causal conv {b}x{t} frames 3x{k}x{k} s{stride} {cin} to {cout} f16");
        cases.push(c.finish(name, out, Class::of(DType::F16)));
    }
    cases
}

/// Convolutions whose weights are a slice of a parameter, as when a convolution over frames is
/// computed frame by frame.
fn conv_slice(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16] {
        for (t, k, cin, cout) in [
            (2, 3, 12, 10),
            (1, 3, 32, 40),
            (3, 1, 32, 24),
            (1, 1, 24, 7),
        ] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([1, t, 6, 7, cin], dtype);
            let w = c.weight([cout, 3, k, k, cin], dtype);
            let bias = Some(c.param([cout], DType::F32, 0.0, 0.5));
            let tap = c.g.slice(w, 1, 1, 2);
            let out = c.g.causal_conv(x, tap, bias, [1; 3], [k / 2; 4]);
            let name = format!("conv {t} frames {k}x{k} {cin} to {cout} of a slice, {dtype}");
            cases.push(c.finish(name, out, Class::of(dtype)));
        }
    }
    cases
}

fn attention(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    let sizes = [
        (1, 1, 1, 1, 1),
        (1, 70, 70, 2, 40),
        (2, 33, 77, 3, 64),
        (1, 17, 130, 1, 128),
        (1, 20, 45, 1, 80),
        (1, 40, 40, 1, 512),
        (1, 75, 33, 2, 256),
        (2, 66, 200, 2, 64),
        (1, 40, 100, 1, 160),
        (1, 130, 97, 46, 40),
        (1, 130, 97, 46, 72),
        // These are cut by keys where a device binds little at once.
        (2, 70, 700, 2, 64),
        (1, 40, 700, 1, 512),
    ];
    for dtype in ACTIVATIONS {
        for (b, n, m, heads, hd) in sizes {
            // With many heads some devices choose other tiles for f16, so f16 is enough here.
            let many = heads > 40;
            if many && dtype != DType::F16 {
                continue;
            }
            for mask in [None, Some([1, 1, n, m]), Some([b, heads, 1, m])] {
                if mask.is_some() && (n == 1 || hd > 100 || many) {
                    continue;
                }
                let mut c = CaseBuilder::new(rng);
                let q = c.input([b, n, heads, hd], dtype);
                let k = c.input([b, m, heads, hd], dtype);
                let v = c.input([b, m, heads, hd], dtype);
                let mask_node = mask.map(|shape| {
                    // As in a causal mask, some scores are ruled out.
                    let mut values = Tensor::normal(shape, 0.0, 1.0, c.rng);
                    values
                        .values
                        .iter_mut()
                        .step_by(3)
                        .skip(1)
                        .for_each(|v| *v = -30000.0);
                    c.input_of(&values, dtype)
                });
                let scale = 1.0 / (hd as f32).sqrt();
                let out = c.g.push(Op::Attention(Attention {
                    q,
                    k,
                    v,
                    mask: mask_node,
                    scale,
                    by_keys: false,
                }));
                let with = mask.map(|m| format!(", mask {m:?}")).unwrap_or_default();
                cases.push(c.finish(
                    format!("attention {b}x{heads} heads {n}x{m} hd {hd}{with} {dtype}"),
                    out,
                    Class::of(dtype),
                ));
            }
        }
    }
    cases
}
