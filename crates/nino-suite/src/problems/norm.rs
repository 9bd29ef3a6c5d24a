//! Norms and softmax, also of values far from zero, where a careless variance cancels.

use super::elementwise::ACTS;
use super::{ACTIVATIONS, Problem};
use crate::long::{C, EACH, PIXELS, W, image, odd};
use crate::{Case, CaseBuilder, Class, Long, Rng, Tensor};
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node, NormKind, Normalize, Op, Over, Prologue, RowNorm, Stats};

pub(super) const PROBLEMS: &[Problem] = &[
    Problem {
        name: "group norm",
        ops: &["stats", "normalize"],
        cases: group_norm,
    },
    Problem {
        name: "channel stats",
        ops: &["stats"],
        cases: channel_stats,
    },
    Problem {
        name: "row norm",
        ops: &["row_norm"],
        cases: row_norm,
    },
    Problem {
        name: "row norm and activation",
        ops: &["row_norm"],
        cases: row_norm_act,
    },
    Problem {
        name: "softmax",
        ops: &["softmax"],
        cases: softmax,
    },
];

fn group_norm(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for (b, h, w, channels, groups, mean) in [
            (1, 1, 1, 4, 2, 0.0),
            (2, 5, 7, 12, 3, 0.0),
            (1, 33, 31, 64, 32, 0.0),
            (1, 20, 20, 32, 8, 50.0),
            (2, 3, 3, 6, 6, 0.0),
        ] {
            let mut c = CaseBuilder::new(rng);
            let values = Tensor::normal([b, h, w, channels], mean, 1.0, c.rng);
            let x = c.input_of(&values, dtype);
            let weight = c.param([channels], DType::F32, 1.0, 0.3);
            let bias = c.param([channels], DType::F32, 0.0, 0.3);
            let norm = c.g.group_norm(x, groups, weight, bias, 1e-6);
            let out = if groups > 2 { c.g.silu(norm) } else { norm };
            cases.push(c.finish(
                format!("group norm {b}x{h}x{w}x{channels}/{groups} mean {mean} {dtype}"),
                out,
                Class::of(dtype),
            ));
        }
    }
    cases
}

/// Statistics of each channel by itself, as for a picture's three channels. Such rows are not whole
/// words.
fn channel_stats(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for (b, h, w, channels) in [(1, 37, 29, 3), (2, 3, 5, 3), (1, 64, 64, 3), (1, 9, 7, 48)] {
            let mut c = CaseBuilder::new(rng);
            let values = Tensor::normal([b, h, w, channels], 0.5, 0.3, c.rng);
            let x = c.input_of(&values, dtype);
            let out = c.g.push(Op::Stats(Stats {
                x,
                over: Over::Groups(channels),
                kind: NormKind::Layer,
                eps: 1.0,
            }));
            let name = format!("channel stats {b}x{h}x{w}x{channels} {dtype}");
            cases.push(c.finish(name, out, Class::of(DType::F32)));
        }
    }
    cases
}

fn row_norm(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for kind in [NormKind::Layer, NormKind::Rms] {
            for (b, n, d, modulated) in [
                (1, 1, 1, false),
                (2, 5, 33, true),
                (1, 9, 320, false),
                (2, 5, 72, true),
                (1, 3, 1281, true),
            ] {
                let mut c = CaseBuilder::new(rng);
                let values = Tensor::normal([b, n, d], 3.0, 1.0, c.rng);
                let x = c.input_of(&values, dtype);
                let weight = (d > 1).then(|| c.param([d], DType::F32, 1.0, 0.3));
                let bias =
                    (d > 1 && kind == NormKind::Layer).then(|| c.param([d], DType::F32, 0.0, 0.3));
                let scale = modulated.then(|| c.input([b, d], dtype));
                let shift = modulated.then(|| c.input([b, d], dtype));
                let out = c.g.push(Op::RowNorm(RowNorm {
                    scale,
                    shift,
                    ..RowNorm::plain(x, kind, weight, bias, 1e-5)
                }));
                cases.push(c.finish(
                    format!("{kind:?} norm [{b},{n},{d}] modulated {modulated} {dtype}"),
                    out,
                    Class::of(dtype),
                ));
            }
        }
    }
    cases
}

/// Row norms with an activation. The widths are those at which rows share a workgroup on a GPU, and
/// odd ones.
fn row_norm_act(rng: &mut Rng) -> Vec<Case> {
    let widths = [96, 192, 384, 160, 64, 24, 8, 100, 33, 2560, 48];
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for (i, (act, d)) in ACTS.into_iter().zip(widths).enumerate() {
            let (kind, b, n) = if i % 3 == 1 {
                (NormKind::Layer, 2, 1 + i)
            } else {
                (NormKind::Rms, 1, 67)
            };
            let mut c = CaseBuilder::new(rng);
            let x = c.input([b, n, d], dtype);
            let weight = Some(c.param([d], DType::F32, 1.0, 0.3));
            let shift = (b > 1).then(|| c.input([b, d], dtype));
            let out = c.g.push(Op::RowNorm(RowNorm {
                shift,
                act: Some(act),
                ..RowNorm::plain(x, kind, weight, None, 1e-5)
            }));
            cases.push(c.finish(
                format!("{kind:?} norm [{b},{n},{d}] {act:?} {dtype}"),
                out,
                Class::of(dtype),
            ));
        }
    }
    cases
}

fn softmax(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for (rows, d) in [(1, 1), (7, 5), (3, 77), (2, 4097)] {
            let mut c = CaseBuilder::new(rng);
            let values = Tensor::normal([rows, d], 30.0, 4.0, c.rng);
            let x = c.input_of(&values, dtype);
            let out = c.g.softmax(x);
            cases.push(c.finish(
                format!("softmax [{rows},{d}] {dtype}"),
                out,
                Class::of(dtype),
            ));
        }
    }
    cases
}

/// Kernels over more than 2^32 elements.
pub(super) const LONG: &[Long] = &[
    Long::new("normalize groups", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        let stats = g.input("stats", [1, 3, 2], DType::F32);
        long_normalize(g, x, stats)
    }),
    Long::new(
        "normalize groups of batches",
        EACH * 3,
        PIXELS,
        |g, b, t| {
            let x = g.input("x", [b, 3, W, C], t);
            let stats = g.input("stats", [b, 3, 2], DType::F32);
            long_normalize(g, x, stats)
        },
    ),
    Long::new("normalize odd groups", W * 9, PIXELS, |g, h, t| {
        let x = odd(g, h, t);
        let stats = g.input("stats", [1, 3, 2], DType::F32);
        long_normalize(g, x, stats)
    }),
    Long::new("normalize rows", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        let stats = g.input("stats", [h * W, 2], DType::F32);
        long_normalize(g, x, stats)
    }),
    Long::new("statistics of rows", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        long_stats(g, x, Over::Rows)
    }),
    // The chunks of a long tensor are long: here both are, and batch elements make the difference.
    Long {
        name: "statistics of groups",
        sizes: [1, 3],
        rows: 1,
        build: |g, b, t| {
            let x = g.input("x", [b, (1 << 31) / EACH - 99, W, C], t);
            long_stats(g, x, Over::Groups(3))
        },
    },
    Long::new("row norm", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        long_row_norm(g, x)
    }),
    Long::new("row norm of odd rows", W * 9, PIXELS, |g, h, t| {
        let x = odd(g, h, t);
        long_row_norm(g, x)
    }),
    Long::new("softmax", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        g.softmax(x)
    }),
];

fn long_normalize(g: &mut Graph, x: Node, stats: Node) -> Node {
    let c = g.shape(x).last_dim();
    let norm = Prologue {
        stats,
        weight: Some(g.param("weight", [c], DType::F32)),
        bias: Some(g.param("bias", [c], DType::F32)),
        act: Some(Act::Silu),
    };
    g.push(Op::Normalize(Normalize { x, norm }))
}

fn long_stats(g: &mut Graph, x: Node, over: Over) -> Node {
    let (kind, eps) = (NormKind::Layer, 1e-5);
    g.push(Op::Stats(Stats { x, over, kind, eps }))
}

fn long_row_norm(g: &mut Graph, x: Node) -> Node {
    let (d, b) = (g.shape(x).last_dim(), g.shape(x)[0]);
    let dtype = g.dtype(x);
    let weight = g.param("weight", [d], DType::F32);
    let bias = g.param("bias", [d], DType::F32);
    let row = RowNorm {
        scale: Some(g.input("scale", [b, d], dtype)),
        shift: Some(g.input("shift", [b, d], dtype)),
        act: Some(Act::Silu),
        ..RowNorm::plain(x, NormKind::Layer, Some(weight), Some(bias), 1e-5)
    };
    g.push(Op::RowNorm(row))
}
