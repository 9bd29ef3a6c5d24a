//! What each op gives back: its shape and dtype, or the mistake in what it was given.

use crate::{
    Attention, Concat, Conv, Epilogue, Graph, Linear, MatMul, Node, Op, Over, Prologue, RowNorm,
    Shape,
};
use nino_dtype::DType;

/// What is wrong with an op's operands, in words with both shapes.
#[derive(Debug)]
pub(crate) struct Mistake(pub String);

type Inferred = Result<(Shape, DType), Mistake>;

macro_rules! wrong {
    ($($arg:tt)*) => { return Err(Mistake(format!($($arg)*))) };
}

pub(crate) fn output(g: &Graph, op: &Op) -> Inferred {
    for n in op.operands() {
        if n.index() >= g.len() {
            wrong!("operand {} is of another graph", n.index());
        }
    }
    let like = |n: Node| Ok((g.shape(n), g.dtype(n)));
    match op {
        Op::Linear(o) => linear(g, o),
        Op::MatMul(o) => matmul(g, o),
        Op::Conv(o) => conv(g, o),
        Op::Stats(o) => {
            activation(g, o.x)?;
            let s = g.shape(o.x);
            match o.over {
                Over::Groups(groups) => {
                    if s.rank() < 2 || groups == 0 || !s.last_dim().is_multiple_of(groups) {
                        wrong!("{groups} groups over shape {s}");
                    }
                    Ok(([s[0], groups, 2].into(), DType::F32))
                }
                Over::Rows => Ok(([s.rows(), 2].into(), DType::F32)),
            }
        }
        Op::Normalize(o) => {
            activation(g, o.x)?;
            prologue(g, o.x, &o.norm)?;
            like(o.x)
        }
        Op::RowNorm(o) => row_norm(g, o),
        Op::Softmax(x) | Op::Unary(x, _) => {
            activation(g, *x)?;
            like(*x)
        }
        Op::Gate(x, _) => {
            activation(g, *x)?;
            let s = g.shape(*x);
            if s.rank() == 0 || !s.last_dim().is_multiple_of(2) {
                wrong!("a gate wants two halves, the shape is {s}");
            }
            Ok((s.with_last(s.last_dim() / 2), g.dtype(*x)))
        }
        Op::Attention(o) => attention(g, o),
        Op::Rope(o) => {
            activation(g, o.x)?;
            let (x, t) = (g.shape(o.x), g.shape(o.table));
            match (&*x, &*t) {
                (&[_, n, _, hd], &[tn, half, 2]) if tn == n && half * 2 == hd => {}
                _ => wrong!("x is {x}, the table must be [n, hd/2, 2] but is {t}"),
            }
            expect_dtype(g, o.table, DType::F32)?;
            like(o.x)
        }
        Op::Binary(o) => {
            activation(g, o.a)?;
            let (a, b) = (g.shape(o.a), g.shape(o.b));
            let Some(shape) = broadcast(a, b) else {
                wrong!("{a} and {b} do not broadcast")
            };
            Ok((shape, g.dtype(o.a)))
        }
        Op::Upsample(o) => {
            let mut s = image(g, o.x)?;
            if o.factor.contains(&0) {
                wrong!("factor {:?} of shape {s}", o.factor);
            }
            let r = s.rank();
            s[r - 3] *= o.factor[0];
            s[r - 2] *= o.factor[1];
            Ok((s, g.dtype(o.x)))
        }
        Op::AvgPool(o) => {
            let mut s = image(g, o.x)?;
            let r = s.rank();
            if o.size == 0 || s[r - 3] < o.size || s[r - 2] < o.size {
                wrong!("window of {} over shape {s}", o.size);
            }
            s[r - 3] /= o.size;
            s[r - 2] /= o.size;
            Ok((s, g.dtype(o.x)))
        }
        Op::Concat(o) => concat(g, o),
        Op::Slice(o) => {
            let mut s = g.shape(o.x);
            if o.axis >= s.rank() || o.start >= o.end || o.end > s[o.axis] {
                wrong!("{}..{} of axis {} of shape {s}", o.start, o.end, o.axis);
            }
            s[o.axis] = o.end - o.start;
            Ok((s, g.dtype(o.x)))
        }
        Op::Permute(o) => {
            let s = g.shape(o.x);
            let mut seen = vec![false; s.rank()];
            let fits = o.perm.len() == s.rank()
                && o.perm
                    .iter()
                    .all(|&p| p < s.rank() && !std::mem::replace(&mut seen[p], true));
            if !fits {
                wrong!("order {:?} of shape {s}", o.perm);
            }
            let dims: Vec<usize> = o.perm.iter().map(|&p| s[p]).collect();
            Ok((Shape::new(&dims), g.dtype(o.x)))
        }
        // The shape is the builder's to set; see `Graph::reshape`.
        Op::Reshape(x) => like(*x),
        Op::Pad(o) => {
            let mut s = g.shape(o.x);
            if o.axis >= s.rank() {
                wrong!("axis {} of shape {s}", o.axis);
            }
            if matches!(o.mode, crate::PadMode::Reflect) && o.before.max(o.after) >= s[o.axis] {
                wrong!(
                    "reflecting {} and {} of axis {} of shape {s}",
                    o.before,
                    o.after,
                    o.axis
                );
            }
            s[o.axis] += o.before + o.after;
            Ok((s, g.dtype(o.x)))
        }
        Op::Gather(o) => {
            let (table, ids) = (g.shape(o.table), g.shape(o.ids));
            expect_dtype(g, o.ids, DType::I32)?;
            let mut dims = ids.to_vec();
            dims.push(table.last_dim());
            match Shape::try_new(&dims) {
                Some(shape) if table.rank() == 2 => Ok((shape, o.dtype)),
                _ => wrong!("table {table}, ids {ids}"),
            }
        }
        Op::TimestepEmbed(o) => {
            let t = g.shape(o.t);
            expect_dtype(g, o.t, DType::F32)?;
            if t.rank() != 1 || o.dim < 2 || !o.dim.is_multiple_of(2) {
                wrong!("t is {t}, dim {} must be even", o.dim);
            }
            Ok(([t[0], o.dim].into(), DType::F32))
        }
        Op::Reduce(o) => {
            activation(g, o.x)?;
            let mut s = g.shape(o.x);
            if o.axis >= s.rank() {
                wrong!("axis {} of shape {s}", o.axis);
            }
            s[o.axis] = 1;
            Ok((s, g.dtype(o.x)))
        }
        Op::Cast(x, dtype) => {
            activation(g, *x)?;
            if !is_activation(*dtype) {
                wrong!("activations are f32, f16 or bf16, not {dtype}");
            }
            Ok((g.shape(*x), *dtype))
        }
    }
}

fn linear(g: &Graph, o: &Linear) -> Inferred {
    activation(g, o.x)?;
    let (x, w) = (g.shape(o.x), g.shape(o.w));
    if w.rank() != 2 || x.rank() == 0 || w[1] != x.last_dim() {
        wrong!("x is {x}, w must be [n, {}] but is {w}", x.last_dim());
    }
    weight(g, o.w)?;
    if let Some(pre) = &o.pre {
        prologue(g, o.x, pre)?;
    }
    let shape = x.with_last(w[0]);
    epilogue(g, shape, &o.epi)?;
    let shape = match o.gate {
        Some(_) if !w[0].is_multiple_of(2) => wrong!("{} columns cannot be halved", w[0]),
        Some(_) => x.with_last(w[0] / 2),
        None => shape,
    };
    Ok((shape, g.dtype(o.x)))
}

fn matmul(g: &Graph, o: &MatMul) -> Inferred {
    activation(g, o.a)?;
    activation(g, o.b)?;
    let (a, b) = (g.shape(o.a), g.shape(o.b));
    let r = a.rank();
    if r < 2 || b.rank() != r || a[..r - 2] != b[..r - 2] {
        wrong!("a is {a}, b is {b}");
    }
    let (k, n) = if o.b_transposed {
        (b[r - 1], b[r - 2])
    } else {
        (b[r - 2], b[r - 1])
    };
    if a[r - 1] != k {
        wrong!(
            "a is {a}, b{} is {b}",
            if o.b_transposed { " (transposed)" } else { "" }
        );
    }
    Ok((a.with_last(n), g.dtype(o.a)))
}

fn conv(g: &Graph, o: &Conv) -> Inferred {
    let x = image(g, o.x)?;
    let w = g.shape(o.w);
    let Some([cout, kt, kh, kw, cin]) = w.as_video() else {
        wrong!("weights of shape {w}")
    };
    let Some([b, t, h, wd, c]) = x.as_video() else {
        wrong!("x of shape {x}")
    };
    if c != cin {
        wrong!("x is {x}, weights {w} take {cin} channels");
    }
    weight(g, o.w)?;
    if o.stride.contains(&0) || o.dilation.contains(&0) || o.upsample == 0 {
        wrong!(
            "stride {:?}, dilation {:?}, upsample {}",
            o.stride,
            o.dilation,
            o.upsample
        );
    }
    let size = |full: usize, k: usize, stride: usize| {
        (full >= k && k > 0).then(|| (full - k) / stride + 1)
    };
    let out = (
        size(t, kt, o.stride[0]),
        size(
            h * o.upsample + o.pad[0] + o.pad[1],
            (kh - 1) * o.dilation[0] + 1,
            o.stride[1],
        ),
        size(
            wd * o.upsample + o.pad[2] + o.pad[3],
            (kw - 1) * o.dilation[1] + 1,
            o.stride[2],
        ),
    );
    let (Some(t), Some(h), Some(wd)) = out else {
        wrong!(
            "window {w} is larger than the padded input {x}, padding {:?}",
            o.pad
        )
    };
    if let Some(pre) = &o.pre {
        prologue(g, o.x, pre)?;
    }
    let shape = if x.rank() == 4 {
        [b, h, wd, cout].into()
    } else {
        [b, t, h, wd, cout].into()
    };
    epilogue(g, shape, &o.epi)?;
    Ok((shape, g.dtype(o.x)))
}

fn row_norm(g: &Graph, o: &RowNorm) -> Inferred {
    activation(g, o.x)?;
    let x = g.shape(o.x);
    if x.rank() < 2 {
        wrong!("x is {x}: rows need at least two dimensions");
    }
    for n in [o.weight, o.bias].into_iter().flatten() {
        expect_shape(g, "weight or bias", n, [x.last_dim()].into())?;
    }
    for n in [o.scale, o.shift].into_iter().flatten() {
        expect_shape(g, "scale or shift", n, [x[0], x.last_dim()].into())?;
    }
    Ok((x, g.dtype(o.x)))
}

fn attention(g: &Graph, o: &Attention) -> Inferred {
    let (q, k, v) = (g.shape(o.q), g.shape(o.k), g.shape(o.v));
    for n in [o.q, o.k, o.v] {
        activation(g, n)?;
        expect_dtype(g, n, g.dtype(o.q))?;
    }
    let fits = q.rank() == 4
        && k.rank() == 4
        && k == v
        && (q[0], q[2], q[3]) == (k[0], k[2], k[3])
        && k[1] > 0;
    if !fits {
        wrong!("q is {q}, k {k}, v {v}; all are [b, n, heads, hd]");
    }
    if let Some(mask) = o.mask {
        let m = g.shape(mask);
        let full = [q[0], q[2], q[1], k[1]];
        let fits = m.rank() == 4
            && m[3] == full[3]
            && m.iter()
                .zip(full)
                .all(|(&have, want)| have == want || have == 1);
        if !fits {
            wrong!("mask is {m} for scores {full:?}");
        }
    }
    Ok((q, g.dtype(o.q)))
}

fn concat(g: &Graph, o: &Concat) -> Inferred {
    let Some(&first) = o.xs.first() else {
        wrong!("no operands")
    };
    let mut shape = g.shape(first);
    if o.axis >= shape.rank() {
        wrong!("axis {} of shape {shape}", o.axis);
    }
    for &x in &o.xs[1..] {
        let s = g.shape(x);
        let same = s.rank() == shape.rank()
            && (0..s.rank()).all(|i| i == o.axis || s[i] == shape[i])
            && g.dtype(x) == g.dtype(first);
        if !same {
            wrong!(
                "{} {} and {} {s} along axis {}",
                g.dtype(first),
                g.shape(first),
                g.dtype(x),
                o.axis
            );
        }
        shape[o.axis] += s[o.axis];
    }
    Ok((shape, g.dtype(first)))
}

fn prologue(g: &Graph, x: Node, p: &Prologue) -> Result<(), Mistake> {
    let (x, stats) = (g.shape(x), g.shape(p.stats));
    expect_dtype(g, p.stats, DType::F32)?;
    let fits = match *stats {
        [b, groups, 2] => b == x[0] && groups > 0 && x.last_dim().is_multiple_of(groups),
        [rows, 2] => rows == x.rows(),
        _ => false,
    };
    if !fits {
        wrong!("x is {x}, stats are {stats}");
    }
    for n in [p.weight, p.bias].into_iter().flatten() {
        expect_shape(g, "norm weight or bias", n, [x.last_dim()].into())?;
    }
    Ok(())
}

fn epilogue(g: &Graph, out: Shape, e: &Epilogue) -> Result<(), Mistake> {
    if let Some(bias) = e.bias {
        expect_shape(g, "bias", bias, [out.last_dim()].into())?;
    }
    if let Some(residual) = e.residual {
        activation(g, residual)?;
        expect_shape(g, "residual", residual, out)?;
    }
    Ok(())
}

fn image(g: &Graph, x: Node) -> Result<Shape, Mistake> {
    activation(g, x)?;
    let s = g.shape(x);
    match s.rank() {
        4 | 5 => Ok(s),
        _ => wrong!("x is {s}: an image is [b, h, w, c], a video [b, t, h, w, c]"),
    }
}

fn is_activation(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// Arithmetic reads f32, f16 or bf16; a parameter of those types may stand for an activation.
fn activation(g: &Graph, n: Node) -> Result<(), Mistake> {
    if !is_activation(g.dtype(n)) {
        wrong!(
            "operand is {}; activations are f32, f16 or bf16",
            g.dtype(n)
        );
    }
    Ok(())
}

fn weight(g: &Graph, w: Node) -> Result<(), Mistake> {
    if !g.dtype(w).is_real() {
        wrong!("weights are {}, which is not a real type", g.dtype(w));
    }
    // Of a parameter that is too much at once, a part may be taken; not every device multiplies with that.
    let part = matches!(g.op(w), Some(Op::Slice(o)) if g.is_param(o.x));
    if !g.is_param(w) && !part {
        wrong!("weights must be a parameter; use matmul for two activations");
    }
    Ok(())
}

fn expect_dtype(g: &Graph, n: Node, want: DType) -> Result<(), Mistake> {
    if g.dtype(n) != want {
        wrong!(
            "operand of shape {} is {}, must be {want}",
            g.shape(n),
            g.dtype(n)
        );
    }
    Ok(())
}

fn expect_shape(g: &Graph, what: &str, n: Node, want: Shape) -> Result<(), Mistake> {
    if g.shape(n) != want {
        wrong!("{what} is {}, must be {want}", g.shape(n));
    }
    Ok(())
}

pub(crate) fn broadcast(a: Shape, b: Shape) -> Option<Shape> {
    let rank = a.rank().max(b.rank());
    let dim = |s: &Shape, i: usize| (i + s.rank()).checked_sub(rank).map_or(1, |j| s[j]);
    let dims: Option<Vec<usize>> = (0..rank)
        .map(|i| match (dim(&a, i), dim(&b, i)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect();
    Some(Shape::new(&dims?))
}
