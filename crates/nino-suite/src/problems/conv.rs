//! Convolutions over pictures and frames.

use super::product::class;
use super::{ACTIVATIONS, Problem};
use crate::long::{C, EACH, W, image, odd};
use crate::{Case, CaseBuilder, Class, Long, Rng};
use nino_dtype::DType;
use nino_graph::{Act, Conv, Graph, Node, Op, Prologue};

pub(super) const PROBLEMS: &[Problem] = &[
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
        name: "conv of operands stored alike",
        ops: &["conv"],
        cases: conv_alike,
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
];

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
            (1, 9, 6, DType::BF16),
            (3, 9, 6, DType::BF16),
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

/// Pictures and filters of one storage type, as models have them: devices have kernels for that.
/// Sizes that fit no tile, more pictures than one, a picture seen twice as large, and what is added
/// after the convolution.
fn conv_alike(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for (b, h, w, cin, cout, pad, upsample) in [
            (1, 21, 19, 32, 72, [1; 4], 1),
            (2, 7, 30, 16, 24, [0, 1, 1, 0], 1),
            (3, 8, 6, 24, 32, [1; 4], 1),
            (2, 5, 9, 16, 40, [1; 4], 2),
        ] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([b, h, w, cin], dtype);
            let weights = c.weight([cout, 3, 3, cin], dtype);
            let bias = Some(c.param([cout], DType::F32, 0.0, 0.5));
            let mut conv = Conv::plain(x, weights, bias, [1; 3], pad);
            conv.upsample = upsample;
            let lost = |before: usize, after: usize| 2 - before - after;
            let out = [
                b,
                h * upsample - lost(pad[0], pad[1]),
                w * upsample - lost(pad[2], pad[3]),
                cout,
            ];
            conv.epi.residual = Some(c.input(out, dtype));
            let out = c.g.push(Op::Conv(conv));
            let name = format!("conv {b}x{h}x{w} {cin}->{cout} x{upsample} p{pad:?}, all {dtype}");
            cases.push(c.finish(name, out, Class::of(dtype)));
        }
    }
    cases
}

fn causal_conv(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
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

/// Kernels over more than 2^32 elements.
pub(super) const LONG: &[Long] = &[
    Long::new("conv", EACH, 7, |g, h, t| {
        let x = image(g, h, t);
        long_conv(g, x, 32, 3, |_| {})
    }),
    Long::new("conv after upsampling", EACH * 4, 7, |g, h, t| {
        let x = image(g, h, t);
        long_conv(g, x, 32, 3, |o| o.upsample = 2)
    }),
    // Whole lines of channels, as kernels in PTX want them.
    Long::new("conv of lines", W * 64, 7, |g, h, t| {
        let x = g.input("x", [1, h, W, 64], t);
        long_conv(g, x, 64, 3, |_| {})
    }),
    Long::new(
        "conv of lines after upsampling",
        4 * W * 64,
        7,
        |g, h, t| {
            let x = g.input("x", [1, h, W, 64], t);
            long_conv(g, x, 64, 3, |o| o.upsample = 2)
        },
    ),
    Long::new("conv of frames of lines", 4 * W * 32, 7, |g, n, t| {
        let x = g.input("x", [1, n, 4, W, 32], t);
        let w = g.param("w", [32, 3, 3, 3, 32], t);
        g.causal_conv(x, w, None, [1; 3], [1; 4])
    }),
    Long::new("conv to a picture", 4 * W * C, 7, |g, h, t| {
        let x = g.input("x", [1, h, 4 * W, C], t);
        long_conv(g, x, 3, 3, |_| {})
    }),
    Long::new("conv of odd channels", W * 9, 7, |g, h, t| {
        let x = odd(g, h, t);
        long_conv(g, x, 5, 3, |_| {})
    }),
    Long::new("conv of stride 2", EACH, 7, |g, h, t| {
        let x = image(g, h, t);
        long_conv(g, x, 40, 3, |o| o.stride = [1, 2, 2])
    }),
    Long::new("conv of one pixel", EACH, 7, |g, h, t| {
        let x = image(g, h, t);
        long_conv(g, x, 32, 1, |_| {})
    }),
    Long::new("conv of many pictures", 3 * EACH, 7, |g, b, t| {
        let x = g.input("x", [b, 3, W, C], t);
        long_conv(g, x, 32, 3, |_| {})
    }),
    Long::new("conv of normalized values", EACH, 7, |g, h, t| {
        let x = image(g, h, t);
        let w = g.param("w", [32, 3, 3, C], t);
        let mut op = Conv::plain(x, w, None, [1; 3], [1; 4]);
        op.pre = Some(Prologue {
            stats: g.input("stats", [1, 3, 2], DType::F32),
            weight: None,
            bias: None,
            act: Some(Act::Silu),
        });
        g.push(Op::Conv(op))
    }),
    Long::new("conv of frames", 4 * EACH, 7, |g, n, t| {
        let x = g.input("x", [1, n, 4, W, C], t);
        let w = g.param("w", [32, 3, 3, 3, C], t);
        g.causal_conv(x, w, None, [1; 3], [1; 4])
    }),
];

/// A convolution with everything around it that kernels take along.
fn long_conv(g: &mut Graph, x: Node, cout: usize, side: usize, change: fn(&mut Conv)) -> Node {
    let (dtype, c) = (g.dtype(x), g.shape(x).last_dim());
    let shape = g.shape(x);
    let w = g.param("w", [cout, side, side, c], dtype);
    let bias = g.param("b", [cout], DType::F32);
    let mut op = Conv::plain(x, w, Some(bias), [1; 3], [side / 2; 4]);
    change(&mut op);
    let mut out = shape.with_last(cout);
    out[1] = (out[1] * op.upsample).div_ceil(op.stride[1]);
    out[2] = (out[2] * op.upsample).div_ceil(op.stride[2]);
    op.epi.residual = Some(g.input("residual", out, dtype));
    g.push(Op::Conv(op))
}
