//! The op set. Each op names its operands as [`Node`] fields; what it computes is said here and in
//! the suite's reference, what it gives back in `infer.rs`.

use crate::Node;
use nino_dtype::DType;

/// A function of one value, alone or at the end of another op.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    Silu,
    /// x/2 · (1 + erf(x/√2))
    Gelu,
    /// x/2 · (1 + tanh(√(2/π)·(x + 0.044715 x³)))
    GeluTanh,
    /// x · sigmoid(1.702 x)
    QuickGelu,
    Relu,
    Sigmoid,
    Tanh,
    Clamp {
        lo: f32,
        hi: f32,
    },
    /// x · mul + add
    Affine {
        mul: f32,
        add: f32,
    },
}

/// Normalizes an operand as it is read: `act((x − mean) · rstd · weight + bias)`. Padding is added
/// after it, so padded positions stay zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prologue {
    /// Output of a [`Stats`] op over the same operand.
    pub stats: Node,
    /// `[c]`
    pub weight: Option<Node>,
    /// `[c]`
    pub bias: Option<Node>,
    pub act: Option<Act>,
}

/// What follows the accumulation: `post(act(acc + bias) + residual)`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Epilogue {
    /// `[cout]`
    pub bias: Option<Node>,
    pub act: Option<Act>,
    /// Same shape as the output.
    pub residual: Option<Node>,
    pub post: Option<Act>,
}

/// `x [.., k] · wᵀ`, w `[n, k]` → `[.., n]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    pub x: Node,
    pub w: Node,
    pub pre: Option<Prologue>,
    pub epi: Epilogue,
    /// As `Op::Gate` after it: the first half of what it gives, times this of the second half.
    pub gate: Option<Act>,
}

/// Batched product of activations: a `[.., m, k]`, b `[.., k, n]` (or `[.., n, k]` when
/// `b_transposed`) with equal leading dimensions → `[.., m, n]`, times `scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatMul {
    pub a: Node,
    pub b: Node,
    pub b_transposed: bool,
    pub scale: f32,
}

/// Convolution of `[b, h, w, cin]` or `[b, t, h, w, cin]`. Weights `[cout, kh, kw, cin]` or
/// `[cout, kt, kh, kw, cin]`. Time is never padded: a causal model puts its cached frames in front.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Conv {
    pub x: Node,
    pub w: Node,
    /// `[t, h, w]`
    pub stride: [usize; 3],
    /// Zeros around the image: top, bottom, left, right.
    pub pad: [usize; 4],
    /// `[h, w]`
    pub dilation: [usize; 2],
    /// The input is enlarged by this factor (nearest) in h and w before the window is taken; 1 = not.
    pub upsample: usize,
    pub pre: Option<Prologue>,
    pub epi: Epilogue,
}

/// What one mean and variance cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// This many groups of consecutive channels, over all positions of one batch element.
    Groups(usize),
    /// The last dimension of each row.
    Rows,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// (x − mean) / √(var + eps)
    Layer,
    /// x / √(mean(x²) + eps): the mean in the table is 0
    Rms,
}

/// (mean, 1/√(var + eps)) as f32: `[b, groups, 2]` or `[rows, 2]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    pub x: Node,
    pub over: Over,
    pub kind: NormKind,
    pub eps: f32,
}

/// Applies a [`Stats`] table: see [`Prologue`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalize {
    pub x: Node,
    pub norm: Prologue,
}

/// Layer or RMS norm over the last dimension in one op:
/// `act((norm(x) · weight + bias) · (1 + scale) + shift)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowNorm {
    pub x: Node,
    pub kind: NormKind,
    pub eps: f32,
    pub weight: Option<Node>,
    pub bias: Option<Node>,
    /// `[b, d]`, one row per batch element.
    pub scale: Option<Node>,
    /// `[b, d]`
    pub shift: Option<Node>,
    pub act: Option<Act>,
}

/// q `[b, n, heads, hd]`, k and v `[b, m, heads, hd]` → `[b, n, heads, hd]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    pub q: Node,
    pub k: Node,
    pub v: Node,
    /// Added to the scores: `[b or 1, heads or 1, n or 1, m]`.
    pub mask: Option<Node>,
    pub scale: f32,
    /// Steps are blocks of queries by blocks of keys ([`KeyBlocks`](crate::KeyBlocks)) instead of
    /// queries; a plan says so where all keys at once are too many.
    pub by_keys: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RopeLayout {
    /// Pairs are (0,1), (2,3), … (Flux, Wan).
    Interleaved,
    /// Pairs are (i, i + hd/2) (GPT-NeoX).
    Halves,
}

/// Rotates x `[b, n, heads, hd]` by a table `[n, hd/2, 2]` of (cos, sin), f32.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rope {
    pub x: Node,
    pub table: Node,
    pub layout: RopeLayout,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryFn {
    Add,
    Sub,
    Mul,
    Div,
}

/// Elementwise with `NumPy`'s broadcasting; the result has a's dtype.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binary {
    pub a: Node,
    pub b: Node,
    pub f: BinaryFn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpsampleMode {
    Nearest,
    /// Half-pixel centers (`align_corners = false`).
    Bilinear,
}

/// Enlarges h and w of `[.., h, w, c]` by whole factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Upsample {
    pub x: Node,
    /// `[h, w]`
    pub factor: [usize; 2],
    pub mode: UpsampleMode,
}

/// Mean over `size × size` windows of `[.., h, w, c]`, stride = size, remainder dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AvgPool {
    pub x: Node,
    pub size: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Concat {
    pub xs: Vec<Node>,
    pub axis: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    pub x: Node,
    pub axis: usize,
    pub start: usize,
    pub end: usize,
}

/// Output dimension i is input dimension `perm[i]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Permute {
    pub x: Node,
    pub perm: Vec<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    Constant(f32),
    Replicate,
    /// Mirrors without repeating the border.
    Reflect,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pad {
    pub x: Node,
    pub axis: usize,
    pub before: usize,
    pub after: usize,
    pub mode: PadMode,
}

/// Rows of table `[v, d]` (any weight dtype) by ids (i32) `[..]` → `[.., d]` in `dtype`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gather {
    pub table: Node,
    pub ids: Node,
    pub dtype: DType,
}

/// t `[b]` f32 → `[b, dim]` of cos and sin of `t · max_period^(−i/(half − shift))`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TimestepEmbed {
    pub t: Node,
    pub dim: usize,
    pub max_period: f32,
    /// Subtracted from `dim/2` in the exponent's denominator (0 for SD and Flux).
    pub shift: f32,
    /// Cosines first (SD, Flux) or sines first.
    pub cos_first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceFn {
    Sum,
    Mean,
    Max,
}

/// Reduces one axis to size 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduce {
    pub x: Node,
    pub axis: usize,
    pub f: ReduceFn,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    Linear(Linear),
    MatMul(MatMul),
    Conv(Conv),
    Stats(Stats),
    Normalize(Normalize),
    RowNorm(RowNorm),
    /// Over the last dimension.
    Softmax(Node),
    Attention(Attention),
    Rope(Rope),
    Unary(Node, Act),
    /// x `[.., 2d]` → `[.., d]`: its first half times the activated second half (GEGLU, `SwiGLU`).
    Gate(Node, Act),
    Binary(Binary),
    Upsample(Upsample),
    AvgPool(AvgPool),
    Concat(Concat),
    Slice(Slice),
    Permute(Permute),
    /// Same bytes, other shape: costs nothing, shares its operand's place.
    Reshape(Node),
    Pad(Pad),
    Gather(Gather),
    TimestepEmbed(TimestepEmbed),
    Reduce(Reduce),
    Cast(Node, DType),
}

impl Op {
    /// What [`Op::name`] can say.
    pub const NAMES: [&str; 23] = [
        "linear",
        "matmul",
        "conv",
        "stats",
        "normalize",
        "row_norm",
        "softmax",
        "attention",
        "rope",
        "unary",
        "gate",
        "binary",
        "upsample",
        "avg_pool",
        "concat",
        "slice",
        "permute",
        "reshape",
        "pad",
        "gather",
        "timestep_embed",
        "reduce",
        "cast",
    ];

    pub fn name(&self) -> &'static str {
        match self {
            Op::Linear(_) => "linear",
            Op::MatMul(_) => "matmul",
            Op::Conv(_) => "conv",
            Op::Stats(_) => "stats",
            Op::Normalize(_) => "normalize",
            Op::RowNorm(_) => "row_norm",
            Op::Softmax(_) => "softmax",
            Op::Attention(_) => "attention",
            Op::Rope(_) => "rope",
            Op::Unary(..) => "unary",
            Op::Gate(..) => "gate",
            Op::Binary(_) => "binary",
            Op::Upsample(_) => "upsample",
            Op::AvgPool(_) => "avg_pool",
            Op::Concat(_) => "concat",
            Op::Slice(_) => "slice",
            Op::Permute(_) => "permute",
            Op::Reshape(_) => "reshape",
            Op::Pad(_) => "pad",
            Op::Gather(_) => "gather",
            Op::TimestepEmbed(_) => "timestep_embed",
            Op::Reduce(_) => "reduce",
            Op::Cast(..) => "cast",
        }
    }

    /// Operands in a fixed order: data first, then weights, prologue and epilogue.
    pub fn operands(&self) -> Vec<Node> {
        let mut found = Vec::new();
        // A clone, so that one traversal serves reading and replacing.
        self.clone().map_operands(|n| {
            found.push(n);
            n
        });
        found
    }

    /// Replaces every operand.
    pub fn map_operands(&mut self, mut f: impl FnMut(Node) -> Node) {
        let f = &mut f;
        match self {
            Op::Linear(o) => {
                map(&mut [&mut o.x, &mut o.w], f);
                o.pre.iter_mut().for_each(|p| p.map(f));
                o.epi.map(f);
            }
            Op::Conv(o) => {
                map(&mut [&mut o.x, &mut o.w], f);
                o.pre.iter_mut().for_each(|p| p.map(f));
                o.epi.map(f);
            }
            Op::MatMul(o) => map(&mut [&mut o.a, &mut o.b], f),
            Op::Binary(o) => map(&mut [&mut o.a, &mut o.b], f),
            Op::Normalize(o) => {
                o.x = f(o.x);
                o.norm.map(f);
            }
            Op::RowNorm(o) => {
                o.x = f(o.x);
                map_some(
                    &mut [&mut o.weight, &mut o.bias, &mut o.scale, &mut o.shift],
                    f,
                );
            }
            Op::Attention(o) => {
                map(&mut [&mut o.q, &mut o.k, &mut o.v], f);
                map_some(&mut [&mut o.mask], f);
            }
            Op::Rope(o) => map(&mut [&mut o.x, &mut o.table], f),
            Op::Gather(o) => map(&mut [&mut o.table, &mut o.ids], f),
            Op::Concat(o) => o.xs.iter_mut().for_each(|x| *x = f(*x)),
            Op::Softmax(x) | Op::Unary(x, _) | Op::Gate(x, _) | Op::Reshape(x) | Op::Cast(x, _) => {
                *x = f(*x);
            }
            Op::Stats(Stats { x, .. })
            | Op::Upsample(Upsample { x, .. })
            | Op::AvgPool(AvgPool { x, .. })
            | Op::Slice(Slice { x, .. })
            | Op::Permute(Permute { x, .. })
            | Op::Pad(Pad { x, .. })
            | Op::Reduce(Reduce { x, .. })
            | Op::TimestepEmbed(TimestepEmbed { t: x, .. }) => *x = f(*x),
        }
    }
}

impl Prologue {
    fn map(&mut self, f: &mut impl FnMut(Node) -> Node) {
        self.stats = f(self.stats);
        map_some(&mut [&mut self.weight, &mut self.bias], f);
    }
}

impl Epilogue {
    fn map(&mut self, f: &mut impl FnMut(Node) -> Node) {
        map_some(&mut [&mut self.bias, &mut self.residual], f);
    }
}

fn map(nodes: &mut [&mut Node], f: &mut impl FnMut(Node) -> Node) {
    for n in nodes {
        **n = f(**n);
    }
}

fn map_some(nodes: &mut [&mut Option<Node>], f: &mut impl FnMut(Node) -> Node) {
    for n in nodes.iter_mut().filter_map(|n| n.as_mut()) {
        *n = f(*n);
    }
}
