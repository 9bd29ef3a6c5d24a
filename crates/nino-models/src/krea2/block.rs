//! The one kind of block.

use crate::Params;
use crate::flux::gated_add;
use crate::llm::repeated;
use crate::mods::Mods;
use nino_graph::{Act, Graph, Node, NormKind, RopeLayout, RowNorm};

/// Modulation of one half of a block, `[b, d]` each.
#[derive(Clone, Copy)]
pub(super) struct Mod {
    pub(super) scale: Node,
    pub(super) shift: Node,
    pub(super) gate: Node,
}

/// The sizes of a block, and where its tokens are.
#[allow(clippy::struct_field_names)] // the usual name of shared keys
pub(super) struct Heads {
    pub(super) width: usize,
    /// Width of one head.
    pub(super) head: usize,
    pub(super) kv_heads: usize,
    pub(super) mlp: usize,
    /// Rotations of the tokens, `[n, hd/2, 2]`; `None` where places do not count.
    pub(super) table: Option<Node>,
}

const EPS: f32 = 1e-5;

/// Tokens `[b, n, d]` to the same.
pub(super) fn block(
    g: &mut Graph,
    p: &Params,
    heads: &Heads,
    x: Node,
    mods: Option<Mods<Mod>>,
) -> Node {
    let normed = |g: &mut Graph, name: &str, half: usize, x: Node| match mods {
        None => norm(g, p, name, x, heads.width, None),
        Some(mods) => mods.each(g, half, [x], |g, [x], m| {
            norm(g, p, name, x, heads.width, Some([m.scale, m.shift]))
        }),
    };
    let added = |g: &mut Graph, half: usize, x: Node, h: Node| match mods {
        None => g.add(x, h),
        Some(mods) => mods.each(g, half, [x, h], |g, [x, h], m| gated_add(g, x, h, m.gate)),
    };
    let h = normed(g, "prenorm", 0, x);
    let h = attention(g, &p.at("attn"), heads, h);
    let x = added(g, 0, x, h);
    let h = normed(g, "postnorm", 1, x);
    let p_mlp = p.at("mlp");
    let gate = p_mlp.linear_no_bias(g, "gate", h, heads.mlp);
    let gate = g.silu(gate);
    let h = p_mlp.linear_no_bias(g, "up", h, heads.mlp);
    let h = g.mul(gate, h);
    let h = p_mlp.linear_no_bias(g, "down", h, heads.width);
    let y = added(g, 1, x, h);
    p.label(g, y)
}

/// `norm(x) · (1 + weight) · (1 + scale) + shift`
pub(super) fn norm(
    g: &mut Graph,
    p: &Params,
    name: &str,
    x: Node,
    width: usize,
    told: Option<[Node; 2]>,
) -> Node {
    let weight = p.vector(g, &format!("{name}.scale"), width);
    let weight = g.affine(weight, 1.0, 1.0);
    g.push(RowNorm {
        x,
        kind: NormKind::Rms,
        eps: EPS,
        weight: Some(weight),
        bias: None,
        scale: told.map(|[scale, _]| scale),
        shift: told.map(|[_, shift]| shift),
        act: None,
    })
}

fn attention(g: &mut Graph, p: &Params, heads: &Heads, x: Node) -> Node {
    let (b, n) = (g.shape(x)[0], g.shape(x)[1]);
    let (hd, n_heads) = (heads.head, heads.width / heads.head);
    let mut part = |name: &str, count: usize, normed: Option<&str>| {
        let y = p.linear_no_bias(g, name, x, count * hd);
        let y = g.reshape(y, [b, n, count, hd]); // [b, n, heads, hd]
        let Some(normed) = normed else { return y };
        let y = norm(g, &p.at("qknorm"), normed, y, hd, None);
        match heads.table {
            Some(table) => g.rope(y, table, RopeLayout::Interleaved),
            None => y,
        }
    };
    let q = part("wq", n_heads, Some("qnorm"));
    let k = part("wk", heads.kv_heads, Some("knorm"));
    let v = part("wv", heads.kv_heads, None);
    let [k, v] = [k, v].map(|x| repeated(g, x, n_heads / heads.kv_heads));
    let y = g.attention(q, k, v, None);
    let y = g.reshape(y, [b, n, heads.width]);
    let gate = p.linear_no_bias(g, "gate", x, heads.width);
    let gate = g.act(gate, Act::Sigmoid);
    let y = g.mul(y, gate);
    p.linear_no_bias(g, "wo", y, heads.width)
}
