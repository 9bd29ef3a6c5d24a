//! An op of each family, with one dimension as long as wanted. Widths are no powers of two, so that
//! nothing wraps where a row ends.

use nino_dtype::DType;
use nino_graph::{
    Act, Attention, Conv, Epilogue, Graph, Linear, MatMul, Node, NormKind, Normalize,
};
use nino_graph::{Op, Over, PadMode, Prologue, ReduceFn, RopeLayout, RowNorm, Stats, UpsampleMode};

/// Ops that run no kernel: views, and ops that only the CPU has so far.
pub(super) const WITHOUT_KERNEL: [&str; 1] = ["reshape"];

pub(super) struct Case {
    pub(super) name: &'static str,
    /// The long dimension, short and long.
    pub(super) sizes: [usize; 2],
    /// Of the op, counted from its last: what is lowered.
    pub(super) rows: usize,
    pub(super) build: fn(&mut Graph, usize, DType) -> Node,
}

/// `each` values of the result (or of what it is made of) for each of the long dimension: one and a
/// half times 2^32 in all.
const fn case(
    name: &'static str,
    each: usize,
    rows: usize,
    build: fn(&mut Graph, usize, DType) -> Node,
) -> Case {
    let long = ((3 << 31) / each + 1).next_multiple_of(8);
    Case {
        name,
        sizes: [24, long],
        rows,
        build,
    }
}

const W: usize = 5;
const C: usize = 24;
const EACH: usize = W * C;
/// Pixels of a step that begins inside a row of them.
const PIXELS: usize = 21;

fn image(g: &mut Graph, h: usize, dtype: DType) -> Node {
    g.input("x", [1, h, W, C], dtype)
}

/// As an image, of a number of channels that leaves no row of 16-bit values whole words.
fn odd(g: &mut Graph, h: usize, dtype: DType) -> Node {
    g.input("x", [1, h, W, 9], dtype)
}

fn plus(g: &mut Graph, h: usize, dtype: DType, shape: [usize; 4]) -> Node {
    let x = image(g, h, dtype);
    let other = g.input("other", shape, dtype);
    g.add(x, other)
}

fn normalize(g: &mut Graph, x: Node, stats: Node) -> Node {
    let c = g.shape(x).last_dim();
    let norm = Prologue {
        stats,
        weight: Some(g.param("weight", [c], DType::F32)),
        bias: Some(g.param("bias", [c], DType::F32)),
        act: Some(Act::Silu),
    };
    g.push(Op::Normalize(Normalize { x, norm }))
}

/// A convolution with everything around it that kernels take along.
fn conv(g: &mut Graph, x: Node, cout: usize, side: usize, change: fn(&mut Conv)) -> Node {
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

fn stats(g: &mut Graph, x: Node, over: Over) -> Node {
    let (kind, eps) = (NormKind::Layer, 1e-5);
    g.push(Op::Stats(Stats { x, over, kind, eps }))
}

fn row_norm(g: &mut Graph, x: Node) -> Node {
    let (d, b) = (g.shape(x).last_dim(), g.shape(x)[0]);
    let dtype = g.dtype(x);
    let row = RowNorm {
        x,
        kind: NormKind::Layer,
        eps: 1e-5,
        weight: Some(g.param("weight", [d], DType::F32)),
        bias: Some(g.param("bias", [d], DType::F32)),
        scale: Some(g.input("scale", [b, d], dtype)),
        shift: Some(g.input("shift", [b, d], dtype)),
        act: Some(Act::Silu),
    };
    g.push(Op::RowNorm(row))
}

fn rope(g: &mut Graph, b: usize, dtype: DType, layout: RopeLayout) -> Node {
    let x = g.input("x", [b, 6, 4, 12], dtype);
    let table = g.param("table", [6, 6, 2], DType::F32);
    g.rope(x, table, layout)
}

fn attention(g: &mut Graph, q: [usize; 4], m: usize, dtype: DType) -> Node {
    let [b, _, heads, hd] = q;
    let q = g.input("q", q, dtype);
    let [k, v] = ["k", "v"].map(|name| g.input(name, [b, m, heads, hd], dtype));
    let (mask, scale) = (None, 0.2);
    let op = Attention {
        q,
        k,
        v,
        mask,
        scale,
        by_keys: false,
    };
    g.push(Op::Attention(op))
}

fn matmul(g: &mut Graph, b: usize, dtype: DType, b_transposed: bool) -> Node {
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

fn linear(g: &mut Graph, x: Node, n: usize) -> Node {
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
        pre: None,
        epi,
        gate: None,
    }))
}

/// A batch of small images joined along their height.
fn joined(g: &mut Graph, b: usize, dtype: DType) -> Node {
    let parts = [1, 2].map(|h| g.input("part", [b, h, W, C], dtype));
    g.concat(&parts, 1)
}

fn padded(g: &mut Graph, h: usize, dtype: DType, axis: usize, mode: PadMode) -> Node {
    let x = image(g, h, dtype);
    g.pad(x, axis, 2, 1, mode)
}

pub(super) const CASES: &[Case] = &[
    case("silu", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        g.silu(x)
    }),
    case("silu of odd rows", W * 9, PIXELS, |g, h, t| {
        let x = odd(g, h, t);
        g.silu(x)
    }),
    case("cast", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        g.cast(x, DType::BF16)
    }),
    case("add", EACH, PIXELS, |g, h, t| plus(g, h, t, [1, h, W, C])),
    case("add channels", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        let b = g.param("b", [C], DType::F32);
        g.add(x, b)
    }),
    case("add one pixel", EACH, PIXELS, |g, h, t| {
        plus(g, h, t, [1, 1, 1, C])
    }),
    case("add one channel", EACH, PIXELS, |g, h, t| {
        plus(g, h, t, [1, h, W, 1])
    }),
    case("scale of each batch element", 15 * C, PIXELS, |g, b, t| {
        let x = g.input("x", [b, 15, C], t);
        let scale = g.input("scale", [b, 1, C], t);
        g.mul(x, scale)
    }),
    case("add to odd rows", W * 9, PIXELS, |g, h, t| {
        let x = odd(g, h, t);
        let b = g.param("b", [9], DType::F32);
        g.add(x, b)
    }),
    case("gate", EACH, PIXELS, |g, h, t| {
        let x = g.input("x", [1, h, W, 2 * C], t);
        g.gate(x, Act::Gelu)
    }),
    case("normalize groups", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        let stats = g.input("stats", [1, 3, 2], DType::F32);
        normalize(g, x, stats)
    }),
    case(
        "normalize groups of batches",
        EACH * 3,
        PIXELS,
        |g, b, t| {
            let x = g.input("x", [b, 3, W, C], t);
            let stats = g.input("stats", [b, 3, 2], DType::F32);
            normalize(g, x, stats)
        },
    ),
    case("normalize odd groups", W * 9, PIXELS, |g, h, t| {
        let x = odd(g, h, t);
        let stats = g.input("stats", [1, 3, 2], DType::F32);
        normalize(g, x, stats)
    }),
    case("normalize rows", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        let stats = g.input("stats", [h * W, 2], DType::F32);
        normalize(g, x, stats)
    }),
    case("statistics of rows", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        stats(g, x, Over::Rows)
    }),
    // The chunks of a long tensor are long: here both are, and batch elements make the difference.
    Case {
        name: "statistics of groups",
        sizes: [1, 3],
        rows: 1,
        build: |g, b, t| {
            let x = g.input("x", [b, (1 << 31) / EACH - 99, W, C], t);
            stats(g, x, Over::Groups(3))
        },
    },
    case("row norm", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        row_norm(g, x)
    }),
    case("row norm of odd rows", W * 9, PIXELS, |g, h, t| {
        let x = odd(g, h, t);
        row_norm(g, x)
    }),
    case("softmax", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        g.softmax(x)
    }),
    case("conv", EACH, 7, |g, h, t| {
        let x = image(g, h, t);
        conv(g, x, 32, 3, |_| {})
    }),
    case("conv after upsampling", EACH * 4, 7, |g, h, t| {
        let x = image(g, h, t);
        conv(g, x, 32, 3, |o| o.upsample = 2)
    }),
    // Whole lines of channels, as kernels in PTX want them.
    case("conv of lines", W * 64, 7, |g, h, t| {
        let x = g.input("x", [1, h, W, 64], t);
        conv(g, x, 64, 3, |_| {})
    }),
    case(
        "conv of lines after upsampling",
        4 * W * 64,
        7,
        |g, h, t| {
            let x = g.input("x", [1, h, W, 64], t);
            conv(g, x, 64, 3, |o| o.upsample = 2)
        },
    ),
    case("conv of frames of lines", 4 * W * 32, 7, |g, n, t| {
        let x = g.input("x", [1, n, 4, W, 32], t);
        let w = g.param("w", [32, 3, 3, 3, 32], t);
        g.causal_conv(x, w, None, [1; 3], [1; 4])
    }),
    case("linear of lines", W * 64, PIXELS, |g, h, t| {
        let x = g.input("x", [1, h, W, 64], t);
        linear(g, x, 64)
    }),
    case("conv to a picture", 4 * W * C, 7, |g, h, t| {
        let x = g.input("x", [1, h, 4 * W, C], t);
        conv(g, x, 3, 3, |_| {})
    }),
    case("conv of odd channels", W * 9, 7, |g, h, t| {
        let x = odd(g, h, t);
        conv(g, x, 5, 3, |_| {})
    }),
    case("conv of stride 2", EACH, 7, |g, h, t| {
        let x = image(g, h, t);
        conv(g, x, 40, 3, |o| o.stride = [1, 2, 2])
    }),
    case("conv of one pixel", EACH, 7, |g, h, t| {
        let x = image(g, h, t);
        conv(g, x, 32, 1, |_| {})
    }),
    case("conv of many pictures", 3 * EACH, 7, |g, b, t| {
        let x = g.input("x", [b, 3, W, C], t);
        conv(g, x, 32, 3, |_| {})
    }),
    case("conv of normalized values", EACH, 7, |g, h, t| {
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
    case("conv of frames", 4 * EACH, 7, |g, n, t| {
        let x = g.input("x", [1, n, 4, W, C], t);
        let w = g.param("w", [32, 3, 3, 3, C], t);
        g.causal_conv(x, w, None, [1; 3], [1; 4])
    }),
    case("linear", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        linear(g, x, 32)
    }),
    case("linear to odd rows", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        linear(g, x, 7)
    }),
    case("matmul", 24 * 40, 12, |g, b, t| matmul(g, b, t, false)),
    case("matmul, cut and transposed", 24 * 40, 9, |g, b, t| {
        matmul(g, b, t, true)
    }),
    case("attention", 8 * 48, 16, |g, b, t| {
        attention(g, [b, 8, 2, 24], 9, t)
    }),
    case("attention, cut", 8 * 48, 11, |g, b, t| {
        attention(g, [b, 8, 2, 24], 9, t)
    }),
    case("attention of many queries", 48, 40, |g, n, t| {
        attention(g, [1, n * 2, 2, 24], 9, t)
    }),
    case("concat of channels", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        let y = g.input("y", [1, h, W, 12], t);
        g.concat(&[y, x], 3)
    }),
    case("concat of odd channels", W * 9, PIXELS, |g, h, t| {
        let x = odd(g, h, t);
        let y = g.input("y", [1, h, W, 2], t);
        g.concat(&[y, x], 3)
    }),
    case("concat of rows", EACH, 40, |g, h, t| {
        let parts = [h - 4, 4].map(|h| image(g, h, t));
        g.concat(&parts, 1)
    }),
    case("concat in batches", 3 * EACH, 30, joined),
    case("concat in batches, cut", 3 * EACH, PIXELS, joined),
    case("slice of channels", W * 8, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        g.slice(x, 3, 4, 12)
    }),
    case("slice of odd channels", W * 11, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        g.slice(x, 3, 3, 14)
    }),
    case("slice in batches", 4 * EACH, PIXELS, |g, b, t| {
        let x = g.input("x", [b, 7, W, C], t);
        g.slice(x, 1, 2, 6)
    }),
    case("slice of the end", EACH, PIXELS, |g, h, t| {
        let x = image(g, h, t);
        g.slice(x, 1, h - 8, h - 1)
    }),
    case("permute in batches", 3 * EACH, 30, |g, b, t| {
        let x = g.input("x", [b, 3, W, C], t);
        g.permute(x, &[0, 2, 1, 3])
    }),
    case("pad of channels", EACH, PIXELS, |g, h, t| {
        padded(g, h, t, 3, PadMode::Constant(0.5))
    }),
    case("pad of columns", EACH, PIXELS, |g, h, t| {
        padded(g, h, t, 2, PadMode::Reflect)
    }),
    case("pad of rows", EACH, PIXELS, |g, h, t| {
        padded(g, h, t, 1, PadMode::Constant(0.5))
    }),
    case("pad of rows with the last", EACH, PIXELS, |g, h, t| {
        padded(g, h, t, 1, PadMode::Replicate)
    }),
    case("nearest", EACH, 5, |g, h, t| {
        let x = image(g, h, t);
        g.upsample(x, 2, UpsampleMode::Nearest)
    }),
    // Places between rows are f32: only a batch of pictures can be long.
    case("bilinear", 12 * EACH, 5, |g, b, t| {
        let x = g.input("x", [b, 3, W, C], t);
        g.upsample(x, 2, UpsampleMode::Bilinear)
    }),
    case("bilinear of odd channels", 12 * W * 9, 5, |g, b, t| {
        let x = g.input("x", [b, 3, W, 9], t);
        g.upsample(x, 2, UpsampleMode::Bilinear)
    }),
    case("average pool", EACH / 2, 5, |g, h, t| {
        let x = g.input("x", [1, h, W * 2, C], t);
        g.avg_pool(x, 2)
    }),
    case("mean of channels", EACH, 40, |g, h, t| {
        let x = image(g, h, t);
        g.reduce(x, 3, ReduceFn::Mean)
    }),
    case("sum of columns", C, 8, |g, h, t| {
        let x = image(g, h, t);
        g.reduce(x, 2, ReduceFn::Sum)
    }),
    case("peak of rows", EACH, 5, |g, b, t| {
        let x = g.input("x", [b, 3, W, C], t);
        g.reduce(x, 1, ReduceFn::Max)
    }),
    case("rope", 6 * 48, PIXELS, |g, b, t| {
        rope(g, b, t, RopeLayout::Interleaved)
    }),
    case("rope of halves", 6 * 48, PIXELS, |g, b, t| {
        rope(g, b, t, RopeLayout::Halves)
    }),
    case("gather", C, PIXELS, |g, n, t| {
        let table = g.param("table", [10, C], DType::F16);
        let ids = g.input("ids", [n], DType::I32);
        g.gather(table, ids, t)
    }),
    case("timestep embedding", C, PIXELS, |g, n, _| {
        let t = g.input("t", [n], DType::F32);
        g.timestep_embed(t, C)
    }),
];
