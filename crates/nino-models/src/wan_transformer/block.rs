//! A block: attention over the clip, attention to the text and the picture, an MLP.

use super::Config;
use crate::Params;
use nino_graph::{Act, Graph, Node, NormKind, RopeLayout, RowNorm};

/// What every block is told.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attended {
    /// `[n_times, 6, d]`: shift, scale and gate before attention and before the MLP, to which a
    /// block adds its own.
    pub(super) modulation: Node,
    /// `[b, n, d]`
    pub(super) text: Node,
    /// What the keys for the picture read, `[b, n, d]`; given where the model has such keys.
    pub(super) image: Option<Node>,
    /// Rotations of the tokens, `[n, hd/2, 2]`.
    pub(super) table: Node,
}

const EPS: f32 = 1e-6;

/// Tokens `[b, n, d]` to the same.
pub(super) fn block(g: &mut Graph, p: &Params, c: &Config, x: Node, told: &Attended) -> Node {
    let own = p.small(g, "modulation", [1, 6, c.hidden]);
    let all = g.add(told.modulation, own); // [n_times, 6, d]
    let [shift, scale, gate, shift_mlp, scale_mlp, gate_mlp] =
        [0, 1, 2, 3, 4, 5].map(|i| part(g, all, i));

    let h = modulated(g, x, shift, scale);
    let h = self_attention(g, &p.at("self_attn"), c, h, told.table);
    let x = gated_add(g, x, h, gate);

    let h = p.layer_norm(g, "norm3", x, EPS);
    let h = cross_attention(g, &p.at("cross_attn"), c, h, told);
    let x = g.add(x, h);

    let h = modulated(g, x, shift_mlp, scale_mlp);
    let h = p.linear(g, "ffn.0", h, c.mlp);
    let h = g.act(h, Act::GeluTanh);
    let h = p.linear(g, "ffn.2", h, c.hidden);
    let y = gated_add(g, x, h, gate_mlp);
    p.label(g, y)
}

/// Row `i` of `[n, rows, d]` as `[n, d]`.
pub(super) fn part(g: &mut Graph, rows: Node, i: usize) -> Node {
    let shape = g.shape(rows);
    let row = g.slice(rows, 1, i, i + 1);
    g.reshape(row, [shape[0], shape.last_dim()])
}

/// `norm(x) · (1 + scale) + shift`; the tokens are cut into as many equal parts as there are
/// timesteps.
pub(super) fn modulated(g: &mut Graph, x: Node, shift: Node, scale: Node) -> Node {
    let shape = g.shape(x);
    let x = by_time(g, x, shift);
    let y = g.push(RowNorm {
        x,
        kind: NormKind::Layer,
        eps: EPS,
        weight: None,
        bias: None,
        scale: Some(scale),
        shift: Some(shift),
        act: None,
    });
    g.reshape(y, shape)
}

/// `x + h · gate`
fn gated_add(g: &mut Graph, x: Node, h: Node, gate: Node) -> Node {
    let (shape, of) = (g.shape(x), g.shape(gate));
    let h = by_time(g, h, gate);
    let gate = g.reshape(gate, [of[0], 1, of.last_dim()]);
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

/// A projection `[b, n, d]`, normalized over its whole width where a norm is named, by heads.
fn projected(g: &mut Graph, p: &Params, c: &Config, x: Node, names: (&str, &str)) -> Node {
    let (b, n) = (g.shape(x)[0], g.shape(x)[1]);
    let (name, norm) = names;
    let mut y = p.linear(g, name, x, c.hidden);
    if !norm.is_empty() {
        let weight = p.vector(g, &format!("{norm}.weight"), c.hidden);
        y = g.rms_norm(y, Some(weight), EPS);
    }
    g.reshape(y, [b, n, c.heads, c.head()]) // [b, n, heads, hd]
}

/// Attention of the clip's tokens to each other, with their places.
fn self_attention(g: &mut Graph, p: &Params, c: &Config, x: Node, table: Node) -> Node {
    let shape = g.shape(x);
    let [q, k] = [("q", "norm_q"), ("k", "norm_k")].map(|names| {
        let y = projected(g, p, c, x, names);
        g.rope(y, table, RopeLayout::Interleaved)
    });
    let v = projected(g, p, c, x, ("v", ""));
    let y = g.attention(q, k, v, None);
    let y = g.reshape(y, shape);
    p.linear(g, "o", y, c.hidden)
}

/// Attention to the text, and to the picture beside it.
fn cross_attention(g: &mut Graph, p: &Params, c: &Config, x: Node, told: &Attended) -> Node {
    let shape = g.shape(x);
    let q = projected(g, p, c, x, ("q", "norm_q"));
    let mut to = |of: Node, key: (&str, &str), value: &str| {
        let k = projected(g, p, c, of, key);
        let v = projected(g, p, c, of, (value, ""));
        let y = g.attention(q, k, v, None);
        g.reshape(y, shape)
    };
    let mut y = to(told.text, ("k", "norm_k"), "v");
    if let Some(image) = told.image {
        let seen = to(image, ("k_img", "norm_k_img"), "v_img");
        y = g.add(y, seen);
    }
    p.linear(g, "o", y, c.hidden)
}
