//! A transformer block: self-attention over the video, cross-attention to text and image, an MLP.

use super::Config;
use crate::Params;
use nino_graph::{Act, Graph, Node, NormKind, RopeLayout, RowNorm};

/// The inputs of a block besides its tokens; the same for every block.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlockArgs {
    /// `[n_times, 6, d]`: shift, scale and gate of self-attention and of the MLP. A block adds
    /// learned vectors of its own.
    pub(super) modulation: Node,
    /// Text tokens, `[b, n, d]`.
    pub(super) context: Node,
    /// Image tokens for the second cross-attention, `[b, n, d]`; `None` in models without one.
    pub(super) context_img: Option<Node>,
    /// RoPE table of the video's tokens, `[n, hd/2, 2]`.
    pub(super) rope: Node,
}

const EPS: f32 = 1e-6;

/// Tokens `[b, n, d]` to the same.
pub(super) fn block(g: &mut Graph, p: &Params, c: &Config, x: Node, args: &BlockArgs) -> Node {
    let modulation = p.small(g, "modulation", [1, 6, c.hidden]);
    let modulation = g.add(args.modulation, modulation); // [n_times, 6, d]
    let [shift, scale, gate, shift_mlp, scale_mlp, gate_mlp] =
        [0, 1, 2, 3, 4, 5].map(|i| row(g, modulation, i));

    let h = modulated(g, x, shift, scale);
    let h = self_attention(g, &p.at("self_attn"), c, h, args.rope);
    let x = gated_add(g, x, h, gate);

    let h = p.layer_norm(g, "norm3", x, EPS);
    let h = cross_attention(g, &p.at("cross_attn"), c, h, args);
    let x = g.add(x, h);

    let h = modulated(g, x, shift_mlp, scale_mlp);
    let h = p.linear(g, "ffn.0", h, c.mlp);
    let h = g.act(h, Act::GeluTanh);
    let h = p.linear(g, "ffn.2", h, c.hidden);
    let y = gated_add(g, x, h, gate_mlp);
    p.label(g, y)
}

/// Row `i` of `[n, rows, d]` as `[n, d]`.
pub(super) fn row(g: &mut Graph, rows: Node, i: usize) -> Node {
    let shape = g.shape(rows);
    let row = g.slice(rows, 1, i, i + 1);
    g.reshape(row, [shape[0], shape.last_dim()])
}

/// `norm(x) · (1 + scale) + shift`. With several timesteps, each applies to an equal part of the
/// tokens, in order.
pub(super) fn modulated(g: &mut Graph, x: Node, shift: Node, scale: Node) -> Node {
    let shape = g.shape(x);
    let x = by_time(g, x, shift);
    let y = g.push(RowNorm {
        scale: Some(scale),
        shift: Some(shift),
        ..RowNorm::plain(x, NormKind::Layer, None, None, EPS)
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
    let shape = g.shape(x);
    let q = project(g, p, c, x, ("q", "norm_q"));
    let mut attend = |context: Node, key: (&str, &str), value: &str| {
        let k = project(g, p, c, context, key);
        let v = project(g, p, c, context, (value, ""));
        let y = g.attention(q, k, v, None);
        g.reshape(y, shape)
    };
    let mut y = attend(args.context, ("k", "norm_k"), "v");
    if let Some(context_img) = args.context_img {
        let img = attend(context_img, ("k_img", "norm_k_img"), "v_img");
        y = g.add(y, img);
    }
    p.linear(g, "o", y, c.hidden)
}
