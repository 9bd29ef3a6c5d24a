//! A transformer block: self-attention over the video, cross-attention to text and image, an MLP.

use super::Config;
use crate::Params;
use crate::mods::{ATTN, MLP, Mods};
use nino_graph::{Act, Graph, Node, NormKind, RopeLayout, RowNorm};

/// The inputs of a block besides its tokens; the same for every block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockArgs {
    /// Shift, scale and gate of self-attention and of the MLP. A block adds learned vectors of its
    /// own.
    pub(super) modulation: Modulation,
    /// Text tokens, `[b, n, d]`.
    pub(super) context: Node,
    /// Image tokens for the second cross-attention, `[b, n, d]`; `None` in models without one.
    pub(super) context_img: Option<Node>,
    /// RoPE table of the video's tokens, `[n, hd/2, 2]`.
    pub(super) rope: Node,
}

/// Modulation of all tokens by the sampling timestep, or of the first ones only, with the others,
/// which are given, at timestep 0.
#[derive(Clone, Copy, Debug)]
pub(super) struct Modulation {
    /// `[n_times, rows, d]`
    pub(super) at_t: Node,
    /// `[b, rows, d]`; `None` where all tokens use `at_t`.
    pub(super) at_zero: Option<Node>,
    /// Tokens that use `at_t`, where others do not.
    pub(super) n_at_t: usize,
}

impl Modulation {
    /// Each timestep's rows plus the learned vectors of a layer.
    fn with_learned(self, g: &mut Graph, learned: Node) -> Modulation {
        Modulation {
            at_t: g.add(self.at_t, learned),
            at_zero: self.at_zero.map(|at_zero| g.add(at_zero, learned)),
            ..self
        }
    }

    /// The rows of a block: shift, scale and gate of self-attention, then of the MLP.
    fn mods(self, g: &mut Graph) -> Mods<[Node; 3]> {
        let mut rows = |node| [[0, 1, 2], [3, 4, 5]].map(|part| part.map(|i| row(g, node, i)));
        Mods {
            at_t: rows(self.at_t),
            at_zero: self.at_zero.map(&mut rows),
            n_at_t: self.n_at_t,
        }
    }

    /// The head's norm and its own modulation, shift and scale.
    pub(super) fn modulate(self, g: &mut Graph, x: Node, learned: Node) -> Node {
        let with_learned = self.with_learned(g, learned);
        let mut rows = |node| [0, 1].map(|i| row(g, node, i));
        let at_t = rows(with_learned.at_t);
        let mods = Mods {
            at_t: [at_t; 2],
            at_zero: with_learned.at_zero.map(|node| [rows(node); 2]),
            n_at_t: self.n_at_t,
        };
        mods.apply(g, ATTN, [x], |g, [x], [shift, scale]| {
            modulated(g, x, shift, scale, EPS)
        })
    }
}

pub(super) const EPS: f32 = 1e-6;

/// Tokens `[b, n, d]` to the same.
pub(super) fn block(g: &mut Graph, p: &Params, c: &Config, x: Node, args: &BlockArgs) -> Node {
    let learned = p.small(g, "modulation", [1, 6, c.hidden]);
    let mods = args.modulation.with_learned(g, learned).mods(g);
    let modulate = |g: &mut Graph, [x]: [Node; 1], [shift, scale, _]: [Node; 3]| {
        modulated(g, x, shift, scale, EPS)
    };
    let add = |g: &mut Graph, [x, h]: [Node; 2], [.., gate]: [Node; 3]| gated_add(g, x, h, gate);

    let h = mods.apply(g, ATTN, [x], modulate);
    let h = self_attention(g, &p.at("self_attn"), c, h, args.rope);
    let x = mods.apply(g, ATTN, [x, h], add);

    let h = p.layer_norm(g, "norm3", x, EPS);
    let h = cross_attention(g, &p.at("cross_attn"), c, h, args);
    let x = g.add(x, h);

    let h = mods.apply(g, MLP, [x], modulate);
    let h = p.linear(g, "ffn.0", h, c.mlp);
    let h = g.act(h, Act::GeluTanh);
    let h = p.linear(g, "ffn.2", h, c.hidden);
    let y = mods.apply(g, MLP, [x, h], add);
    p.label(g, y)
}

/// Row `i` of `[n, rows, d]` as `[n, d]`.
fn row(g: &mut Graph, rows: Node, i: usize) -> Node {
    let shape = g.shape(rows);
    let row = g.slice(rows, 1, i, i + 1);
    g.reshape(row, [shape[0], shape.last_dim()])
}

/// `norm(x) · (1 + scale) + shift`. With several timesteps, each applies to an equal part of the
/// tokens, in order.
pub(super) fn modulated(g: &mut Graph, x: Node, shift: Node, scale: Node, eps: f32) -> Node {
    let shape = g.shape(x);
    let x = by_time(g, x, shift);
    let y = g.push(RowNorm {
        scale: Some(scale),
        shift: Some(shift),
        ..RowNorm::plain(x, NormKind::Layer, None, None, eps)
    });
    g.reshape(y, shape)
}

/// `x + h · gate`
fn gated_add(g: &mut Graph, x: Node, h: Node, gate: Node) -> Node {
    let (shape, gate_shape) = (g.shape(x), g.shape(gate));
    let h = by_time(g, h, gate);
    let gate = g.reshape(gate, [gate_shape[0], 1, gate_shape.last_dim()]);
    let h = g.mul(h, gate);
    let h = g.reshape(h, shape);
    g.add(x, h)
}

/// Tokens `[b, n, d]` as `[n_times, n', d]`, for vectors `[n_times, d]`.
fn by_time(g: &mut Graph, x: Node, vectors: Node) -> Node {
    let (shape, times) = (g.shape(x), g.shape(vectors)[0]);
    let each = shape[0] * shape[1] / times.max(1);
    g.reshape(x, [times, each, shape.last_dim()])
}

/// Queries, keys or values `[b, n, heads, hd]` of x `[b, n, d]`. `names` are the linear layer and
/// the RMS norm over the full width, empty for values.
fn project(g: &mut Graph, p: &Params, c: &Config, x: Node, names: (&str, &str)) -> Node {
    let (b, n) = (g.shape(x)[0], g.shape(x)[1]);
    let (name, norm) = names;
    let mut y = p.linear(g, name, x, c.hidden);
    if !norm.is_empty() {
        let weight = p.vector(g, &format!("{norm}.weight"), c.hidden);
        y = g.rms_norm(y, Some(weight), EPS);
    }
    g.reshape(y, [b, n, c.heads, c.head()]) // [b, n, heads, hd]
}

/// Self-attention with RoPE over all tokens of the video.
fn self_attention(g: &mut Graph, p: &Params, c: &Config, x: Node, rope: Node) -> Node {
    let shape = g.shape(x);
    let [q, k] = [("q", "norm_q"), ("k", "norm_k")].map(|names| {
        let y = project(g, p, c, x, names);
        g.rope(y, rope, RopeLayout::Interleaved)
    });
    let v = project(g, p, c, x, ("v", ""));
    let y = g.attention(q, k, v, None);
    let y = g.reshape(y, shape);
    p.linear(g, "o", y, c.hidden)
}

/// Cross-attention to the text plus, where the model has it, cross-attention to the image.
fn cross_attention(g: &mut Graph, p: &Params, c: &Config, x: Node, args: &BlockArgs) -> Node {
    let q = project(g, p, c, x, ("q", "norm_q"));
    let mut y = attend(g, p, c, q, args.context, [("k", "norm_k"), ("v", "")]);
    if let Some(context_img) = args.context_img {
        let names = [("k_img", "norm_k_img"), ("v_img", "")];
        let img = attend(g, p, c, q, context_img, names);
        y = g.add(y, img);
    }
    p.linear(g, "o", y, c.hidden)
}

/// Cross-attention of tokens x `[b, n, d]` to `context` `[b, m, d]` alone.
pub(super) fn attention_to(g: &mut Graph, p: &Params, c: &Config, x: Node, context: Node) -> Node {
    let q = project(g, p, c, x, ("q", "norm_q"));
    let y = attend(g, p, c, q, context, [("k", "norm_k"), ("v", "")]);
    p.linear(g, "o", y, c.hidden)
}

/// What queries find in `context`, `[b, n, d]`; `names` as in [`project`], for keys and values.
fn attend(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    q: Node,
    context: Node,
    names: [(&str, &str); 2],
) -> Node {
    let [k, v] = names.map(|names| project(g, p, c, context, names));
    let y = g.attention(q, k, v, None);
    let (b, n) = (g.shape(y)[0], g.shape(y)[1]);
    g.reshape(y, [b, n, c.hidden])
}
