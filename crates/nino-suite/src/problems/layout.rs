//! Ops that move, repeat or resample values.

use super::{ACTIVATIONS, Problem};
use crate::long::{C, EACH, PIXELS, W, image, odd};
use crate::{Case, CaseBuilder, Class, Long, Rng, Tensor};
use nino_dtype::DType;
use nino_graph::{Graph, Node, Op, PadMode, Upsample, UpsampleMode};

pub(super) const PROBLEMS: &[Problem] = &[
    Problem {
        name: "upsample",
        ops: &["upsample"],
        cases: upsample,
    },
    Problem {
        name: "avg pool",
        ops: &["avg_pool"],
        cases: avg_pool,
    },
    Problem {
        name: "pixel shuffle",
        ops: &["permute", "reshape"],
        cases: pixel_shuffle,
    },
    Problem {
        name: "concat",
        ops: &["concat"],
        cases: concat,
    },
    Problem {
        name: "joined values",
        ops: &["concat"],
        cases: join,
    },
    Problem {
        name: "slice",
        ops: &["slice"],
        cases: slice,
    },
    Problem {
        name: "permute",
        ops: &["permute"],
        cases: permute,
    },
    Problem {
        name: "pad",
        ops: &["pad"],
        cases: pad,
    },
    Problem {
        name: "gather",
        ops: &["gather"],
        cases: gather,
    },
];

fn upsample(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for (mode, factor) in [
            (UpsampleMode::Nearest, [2, 2]),
            (UpsampleMode::Nearest, [1, 3]),
            (UpsampleMode::Bilinear, [2, 2]),
            (UpsampleMode::Bilinear, [3, 4]),
        ] {
            for shape in [[1, 1, 1, 1], [2, 5, 3, 7]] {
                let mut c = CaseBuilder::new(rng);
                let x = c.input(shape, dtype);
                let out = c.g.push(Op::Upsample(Upsample { x, factor, mode }));
                let class = if mode == UpsampleMode::Nearest {
                    Class::Exact
                } else {
                    Class::of(dtype)
                };
                cases.push(c.finish(
                    format!("upsample {mode:?} {factor:?} {shape:?} {dtype}"),
                    out,
                    class,
                ));
            }
        }
    }
    cases
}

fn avg_pool(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for (shape, size) in [([1, 2, 2, 1], 2), ([2, 7, 9, 5], 2), ([1, 9, 9, 3], 3)] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input(shape, dtype);
            let out = c.g.avg_pool(x, size);
            cases.push(c.finish(
                format!("avg pool {size} {shape:?} {dtype}"),
                out,
                Class::of(dtype),
            ));
        }
    }
    cases
}

fn pixel_shuffle(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for back in [false, true] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input(if back { [2, 6, 4, 3] } else { [2, 3, 5, 12] }, dtype);
            let out = if back {
                c.g.pixel_unshuffle(x, 2)
            } else {
                c.g.pixel_shuffle(x, 2)
            };
            cases.push(c.finish(
                format!("pixel {}shuffle {dtype}", if back { "un" } else { "" }),
                out,
                Class::Exact,
            ));
        }
    }
    cases
}

fn concat(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for axis in 0..4 {
            for sizes in [vec![1], vec![2, 3], vec![5, 1, 4]] {
                let mut c = CaseBuilder::new(rng);
                let parts: Vec<_> = sizes
                    .iter()
                    .map(|&n| {
                        let mut shape = [2, 3, 4, 5];
                        shape[axis] = n;
                        c.input(shape, dtype)
                    })
                    .collect();
                let out = c.g.concat(&parts, axis);
                cases.push(c.finish(
                    format!("concat {sizes:?} axis {axis} {dtype}"),
                    out,
                    Class::Exact,
                ));
            }
        }
    }
    cases
}

/// A concat of values that ops have made. Where it is cut, its operands fall into different steps.
fn join(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for sizes in [[2, 3], [5, 1], [1, 6]] {
            let mut c = CaseBuilder::new(rng);
            let parts = sizes.map(|n| {
                let x = c.input([1, n, 4, 64], dtype);
                c.g.silu(x)
            });
            let joined = c.g.concat(&parts, 1);
            let out = c.g.silu(joined);
            let name = format!("joined {sizes:?} {dtype}");
            cases.push(c.finish(name, out, Class::of(dtype)));
        }
    }
    cases
}

fn slice(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for (axis, start, end) in [(0, 1, 2), (1, 2, 5), (2, 0, 1), (3, 3, 9), (3, 8, 9)] {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([2, 5, 3, 9], dtype);
            let out = c.g.slice(x, axis, start, end);
            cases.push(c.finish(
                format!("slice {start}..{end} axis {axis} {dtype}"),
                out,
                Class::Exact,
            ));
        }
    }
    cases
}

fn permute(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    let perms: [(&[usize], &[usize]); 7] = [
        (&[6, 5, 1, 8, 4], &[0, 2, 1, 4, 3]),
        (&[1, 4, 3, 1, 5], &[3, 1, 0, 2, 4]),
        (&[5, 7], &[1, 0]),
        (&[2, 3, 4, 5], &[0, 2, 1, 3]),
        (&[2, 3, 4, 5], &[3, 1, 0, 2]),
        (&[2, 33, 17, 3], &[0, 3, 1, 2]),
        (&[2, 3, 2, 3, 2, 3], &[0, 1, 4, 2, 5, 3]),
    ];
    for dtype in ACTIVATIONS {
        for (shape, perm) in perms {
            let mut c = CaseBuilder::new(rng);
            let x = c.input(nino_graph::Shape::new(shape), dtype);
            let out = c.g.permute(x, perm);
            cases.push(c.finish(
                format!("permute {shape:?} {perm:?} {dtype}"),
                out,
                Class::Exact,
            ));
        }
    }
    cases
}

fn pad(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for mode in [
            PadMode::Constant(0.0),
            PadMode::Constant(-1.5),
            PadMode::Replicate,
            PadMode::Reflect,
        ] {
            for (axis, before, after) in [(0, 0, 1), (1, 2, 3), (2, 1, 0), (3, 1, 2)] {
                let mut c = CaseBuilder::new(rng);
                let x = c.input([2, 5, 3, 4], dtype);
                let out = c.g.pad(x, axis, before, after, mode);
                cases.push(c.finish(
                    format!("pad {mode:?} {before},{after} axis {axis} {dtype}"),
                    out,
                    Class::Exact,
                ));
            }
        }
    }
    cases
}

fn gather(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    let tables = [
        (DType::F32, 7),
        (DType::F16, 33),
        (DType::BF16, 12),
        (DType::Q8_0, 64),
        (DType::Q4_0, 32),
        (DType::Q4_K, 256),
        (DType::Q6_K, 256),
        (DType::NVFP4, 64),
        (DType::MXFP8, 32),
        (DType::NF4, 64),
    ];
    for (table, d) in tables {
        for dtype in ACTIVATIONS {
            let mut c = CaseBuilder::new(rng);
            let weights = c.param([11, d], table, 0.0, 1.0);
            let ids = c.input_of(
                &Tensor::new([2, 3], vec![0.0, 10.0, 3.0, 3.0, 7.0, 1.0]),
                DType::I32,
            );
            let out = c.g.gather(weights, ids, dtype);
            cases.push(c.finish(
                format!("gather {table} rows of {d} to {dtype}"),
                out,
                Class::of(dtype),
            ));
        }
    }
    cases
}

/// Kernels over more than 2^32 elements.
pub(super) const LONG: &[Long] = &[
    Long::new("concat of channels", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        let y = g.input("y", [1, h, W, 12], t);
        g.concat(&[y, x], 3)
    }),
    Long::new("concat of odd channels", W * 9, PIXELS, |g, h, t| {
        let x = odd(g, h, t);
        let y = g.input("y", [1, h, W, 2], t);
        g.concat(&[y, x], 3)
    }),
    Long::new("concat of rows", EACH, 40, |g, h, t| {
        let parts = [h - 4, 4].map(|h| image(g, h, t));
        g.concat(&parts, 1)
    }),
    Long::new("concat in batches", 3 * EACH, 30, long_joined),
    Long::new("concat in batches, cut", 3 * EACH, PIXELS, long_joined),
    Long::new("slice of channels", W * 8, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        g.slice(x, 3, 4, 12)
    }),
    Long::new("slice of odd channels", W * 11, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        g.slice(x, 3, 3, 14)
    }),
    Long::new("slice in batches", 4 * EACH, PIXELS, |g, b, t| {
        let x = g.input("x", [b, 7, W, C], t);
        g.slice(x, 1, 2, 6)
    }),
    Long::new("slice of the end", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        g.slice(x, 1, h - 8, h - 1)
    }),
    Long::new("permute in batches", 3 * EACH, 30, |g, b, t| {
        let x = g.input("x", [b, 3, W, C], t);
        g.permute(x, &[0, 2, 1, 3])
    }),
    Long::new("pad of channels", EACH, PIXELS, |g, h, t| {
        long_padded(g, h, t, 3, PadMode::Constant(0.5))
    }),
    Long::new("pad of columns", EACH, PIXELS, |g, h, t| {
        long_padded(g, h, t, 2, PadMode::Reflect)
    }),
    Long::new("pad of rows", EACH, PIXELS, |g, h, t| {
        long_padded(g, h, t, 1, PadMode::Constant(0.5))
    }),
    Long::new("pad of rows with the last", EACH, PIXELS, |g, h, t| {
        long_padded(g, h, t, 1, PadMode::Replicate)
    }),
    Long::new("nearest", EACH, 5, |g, h, t| {
        let x = image(g, h, t);
        g.upsample(x, 2, UpsampleMode::Nearest)
    }),
    // Places between rows are f32: only a batch of pictures can be long.
    Long::new("bilinear", 12 * EACH, 5, |g, b, t| {
        let x = g.input("x", [b, 3, W, C], t);
        g.upsample(x, 2, UpsampleMode::Bilinear)
    }),
    Long::new("bilinear of odd channels", 12 * W * 9, 5, |g, b, t| {
        let x = g.input("x", [b, 3, W, 9], t);
        g.upsample(x, 2, UpsampleMode::Bilinear)
    }),
    Long::new("average pool", EACH / 2, 5, |g, h, t| {
        let x = g.input("x", [1, h, W * 2, C], t);
        g.avg_pool(x, 2)
    }),
    Long::new("gather", C, PIXELS, |g, n, t| {
        let table = g.param("table", [10, C], DType::F16);
        let ids = g.input("ids", [n], DType::I32);
        g.gather(table, ids, t)
    }),
];

/// A batch of small images joined along their height.
fn long_joined(g: &mut Graph, b: usize, dtype: DType) -> Node {
    let parts = [1, 2].map(|h| g.input("part", [b, h, W, C], dtype));
    g.concat(&parts, 1)
}

fn long_padded(g: &mut Graph, h: usize, dtype: DType, axis: usize, mode: PadMode) -> Node {
    let x = image(g, h, dtype);
    g.pad(x, axis, 2, 1, mode)
}
