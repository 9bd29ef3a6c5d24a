//! Functions of one or two values, embeddings, reductions, casts.

use super::{ACTIVATIONS, Problem};
use crate::long::{C, EACH, PIXELS, W, image, odd};
use crate::{Case, CaseBuilder, Class, Long, Rng, Tensor};
use nino_dtype::DType;
use nino_graph::{Act, Binary, BinaryFn, Graph, Node, Op, ReduceFn, RopeLayout, TimestepEmbed};

pub(super) const PROBLEMS: &[Problem] = &[
    Problem {
        name: "unary",
        ops: &["unary"],
        cases: unary,
    },
    Problem {
        name: "gate",
        ops: &["gate"],
        cases: gate,
    },
    Problem {
        name: "binary",
        ops: &["binary"],
        cases: binary,
    },
    Problem {
        name: "rope",
        ops: &["rope"],
        cases: rope,
    },
    Problem {
        name: "timestep embed",
        ops: &["timestep_embed"],
        cases: timestep_embed,
    },
    Problem {
        name: "reduce",
        ops: &["reduce"],
        cases: reduce,
    },
    Problem {
        name: "cast",
        ops: &["cast"],
        cases: cast,
    },
];

pub(super) const ACTS: [Act; 11] = [
    Act::Silu,
    Act::Gelu,
    Act::GeluTanh,
    Act::QuickGelu,
    Act::Relu,
    Act::LeakyRelu { slope: 0.2 },
    Act::Sigmoid,
    Act::Tanh,
    Act::Clamp { lo: -0.5, hi: 1.5 },
    Act::Affine {
        mul: 0.18215,
        add: -0.25,
    },
    Act::Affine {
        mul: -3.0,
        add: 0.0,
    },
];

fn unary(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for act in ACTS {
            let mut c = CaseBuilder::new(rng);
            // Far tails too: an exponential that overflows must still end at the right limit.
            let mut values = Tensor::normal([3, 5, 31], 0.0, 4.0, c.rng);
            values.values[..4].copy_from_slice(&[-200.0, 200.0, -88.0, 0.0]);
            let x = c.input_of(&values, dtype);
            let out = c.g.act(x, act);
            cases.push(c.finish(format!("{act:?} {dtype}"), out, Class::of(dtype)));
        }
    }
    cases
}

fn gate(rng: &mut Rng) -> Vec<Case> {
    let shapes: [&[usize]; 4] = [&[2], &[2, 3, 14], &[5, 1, 40], &[1, 7, 2080]];
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for shape in shapes {
            for act in [Act::Gelu, Act::Silu] {
                let mut c = CaseBuilder::new(rng);
                let x = c.input(nino_graph::Shape::new(shape), dtype);
                let out = c.g.gate(x, act);
                cases.push(c.finish(format!("{act:?} {shape:?} {dtype}"), out, Class::of(dtype)));
            }
        }
    }
    cases
}

fn binary(rng: &mut Rng) -> Vec<Case> {
    let shapes: [(&[usize], &[usize]); 7] = [
        (&[1], &[1]),
        (&[2, 5, 7, 3], &[2, 5, 7, 3]),
        (&[2, 5, 7, 3], &[3]),
        (&[2, 5, 7, 3], &[2, 1, 1, 3]),
        (&[2, 1, 4], &[2, 6, 4]),
        (&[4, 1, 9], &[1, 8, 1]),
        (&[1, 65, 1], &[3, 65, 66]),
    ];
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for (i, (a, b)) in shapes.into_iter().enumerate() {
            for f in [BinaryFn::Add, BinaryFn::Sub, BinaryFn::Mul, BinaryFn::Div] {
                if i > 2 && matches!(f, BinaryFn::Sub) {
                    continue;
                }
                let mut c = CaseBuilder::new(rng);
                let shape = |s: &[usize]| nino_graph::Shape::new(s);
                let (x, y) = (
                    c.input(shape(a), dtype),
                    Tensor::normal(shape(b), 3.0, 0.5, c.rng),
                );
                let y = c.input_of(&y, dtype);
                let out = c.g.push(Op::Binary(Binary { a: x, b: y, f }));
                cases.push(c.finish(format!("{f:?} {a:?} {b:?} {dtype}"), out, Class::of(dtype)));
            }
        }
    }
    cases
}

fn rope(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for layout in [RopeLayout::Interleaved, RopeLayout::Halves] {
            for (b, n, heads, hd) in [(1, 1, 1, 2), (2, 5, 3, 10), (1, 17, 2, 128)] {
                let mut c = CaseBuilder::new(rng);
                let x = c.input([b, n, heads, hd], dtype);
                let angles: Vec<f32> = (0..n * hd / 2)
                    .flat_map(|i| {
                        let angle = (i / (hd / 2)) as f32 / 10f32.powf((i % (hd / 2)) as f32 / 4.0);
                        [angle.cos(), angle.sin()]
                    })
                    .collect();
                let table = c.g.constant("rope", [n, hd / 2, 2], &angles);
                let out = c.g.rope(x, table, layout);
                cases.push(c.finish(
                    format!("rope {layout:?} [{b},{n},{heads},{hd}] {dtype}"),
                    out,
                    Class::of(dtype),
                ));
            }
        }
    }
    cases
}

fn timestep_embed(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for (dim, shift, cos_first) in [(2, 0.0, true), (320, 0.0, true), (256, 1.0, false)] {
        let mut c = CaseBuilder::new(rng);
        let t = c.input_of(&Tensor::new([4], vec![0.0, 1.0, 0.35, 999.0]), DType::F32);
        let out = c.g.push(Op::TimestepEmbed(TimestepEmbed {
            t,
            dim,
            max_period: 10_000.0,
            shift,
            cos_first,
        }));
        cases.push(c.finish(
            format!("timestep embed dim {dim} shift {shift} cos first {cos_first}"),
            out,
            Class::Close,
        ));
    }
    cases
}

fn reduce(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for dtype in ACTIVATIONS {
        for f in [ReduceFn::Sum, ReduceFn::Mean, ReduceFn::Max] {
            for axis in 0..3 {
                let mut c = CaseBuilder::new(rng);
                let x = c.input([3, 7, 65], dtype);
                let out = c.g.reduce(x, axis, f);
                cases.push(c.finish(
                    format!("{f:?} over axis {axis} {dtype}"),
                    out,
                    Class::of(dtype),
                ));
            }
        }
    }
    cases
}

fn cast(rng: &mut Rng) -> Vec<Case> {
    let mut cases = Vec::new();
    for from in ACTIVATIONS {
        for to in ACTIVATIONS {
            let mut c = CaseBuilder::new(rng);
            let x = c.input([2, 5, 33], from);
            let out = c.g.cast(x, to);
            let widens = to == DType::F32 || from == to;
            let class = if widens { Class::Exact } else { Class::of(to) };
            cases.push(c.finish(format!("cast {from} to {to}"), out, class));
        }
    }
    cases
}

/// Kernels over more than 2^32 elements.
pub(super) const LONG: &[Long] = &[
    Long::new("silu", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        g.silu(x)
    }),
    Long::new("silu of odd rows", W * 9, PIXELS, |g, h, t| {
        let x = odd(g, h, t);
        g.silu(x)
    }),
    Long::new("cast", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        g.cast(x, DType::BF16)
    }),
    Long::new("add", EACH, PIXELS, |g, h, t| {
        long_plus(g, h, t, [1, h, W, C])
    }),
    Long::new("add channels", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        let b = g.param("b", [C], DType::F32);
        g.add(x, b)
    }),
    Long::new("add one pixel", EACH, PIXELS, |g, h, t| {
        long_plus(g, h, t, [1, 1, 1, C])
    }),
    Long::new("add one channel", EACH, PIXELS, |g, h, t| {
        long_plus(g, h, t, [1, h, W, 1])
    }),
    Long::new("scale of each batch element", 15 * C, PIXELS, |g, b, t| {
        let x = g.input("x", [b, 15, C], t);
        let scale = g.input("scale", [b, 1, C], t);
        g.mul(x, scale)
    }),
    Long::new("add to odd rows", W * 9, PIXELS, |g, h, t| {
        let x = odd(g, h, t);
        let b = g.param("b", [9], DType::F32);
        g.add(x, b)
    }),
    Long::new("gate", EACH, PIXELS, |g, h, t| {
        let x = g.input("x", [1, h, W, 2 * C], t);
        g.gate(x, Act::Gelu)
    }),
    Long::new("mean of channels", EACH, 40, |g, h, t| {
        let x = image(g, h, t);
        g.reduce(x, 3, ReduceFn::Mean)
    }),
    Long::new("sum of columns", C, 8, |g, h, t| {
        let x = image(g, h, t);
        g.reduce(x, 2, ReduceFn::Sum)
    }),
    Long::new("peak of rows", EACH, 5, |g, b, t| {
        let x = g.input("x", [b, 3, W, C], t);
        g.reduce(x, 1, ReduceFn::Max)
    }),
    Long::new("rope", 6 * 48, PIXELS, |g, b, t| {
        long_rope(g, b, t, RopeLayout::Interleaved)
    }),
    Long::new("rope of halves", 6 * 48, PIXELS, |g, b, t| {
        long_rope(g, b, t, RopeLayout::Halves)
    }),
    Long::new("timestep embedding", C, PIXELS, |g, n, _| {
        let t = g.input("t", [n], DType::F32);
        g.timestep_embed(t, C)
    }),
];

fn long_plus(g: &mut Graph, h: usize, dtype: DType, shape: [usize; 4]) -> Node {
    let x = image(g, h, dtype);
    let other = g.input("other", shape, dtype);
    g.add(x, other)
}

fn long_rope(g: &mut Graph, b: usize, dtype: DType, layout: RopeLayout) -> Node {
    let x = g.input("x", [b, 6, 4, 12], dtype);
    let table = g.param("table", [6, 6, 2], DType::F32);
    g.rope(x, table, layout)
}
