//! The transformer block: gated grouped-query attention and a gated MLP.

use crate::Params;
use crate::flux::gated_add;
use crate::llm::repeat_kv;
use crate::mods::{ATTN, MLP, Mods};
use nino_graph::{Act, Graph, Node, NormKind, RopeLayout, RowNorm};

/// Modulation of attention or of the MLP, `[b, d]` each.
#[derive(Clone, Copy)]
pub(super) struct Mod {
    pub(super) scale: Node,
    pub(super) shift: Node,
    pub(super) gate: Node,
}

/// The sizes of a block, and the positions of its tokens.
pub(super) struct BlockConfig {
    pub(super) width: usize,
    /// Head dimension.
    pub(super) head: usize,
    pub(super) kv_heads: usize,
    pub(super) mlp: usize,
    /// RoPE table of the tokens, `[n, hd/2, 2]`; `None` without positions.
    pub(super) rope: Option<Node>,
}

const EPS: f32 = 1e-5;

/// Tokens `[b, n, d]` to the same.
pub(super) fn block(
    g: &mut Graph,
    p: &Params,
    c: &BlockConfig,
    x: Node,
    mods: Option<Mods<Mod>>,
) -> Node {
    let modulated_norm = |g: &mut Graph, name: &str, index: usize, x: Node| match mods {
        None => norm(g, p, name, x, c.width, None),
        Some(mods) => mods.apply(g, index, [x], |g, [x], m| {
            norm(g, p, name, x, c.width, Some([m.scale, m.shift]))
        }),
    };
    let residual = |g: &mut Graph, index: usize, x: Node, h: Node| match mods {
        None => g.add(x, h),
        Some(mods) => mods.apply(g, index, [x, h], |g, [x, h], m| gated_add(g, x, h, m.gate)),
    };
    let h = modulated_norm(g, "prenorm", ATTN, x);
    let h = attention(g, &p.at("attn"), c, h);
    let x = residual(g, ATTN, x, h);
    let h = modulated_norm(g, "postnorm", MLP, x);
    let p_mlp = p.at("mlp");
    let gate = p_mlp.linear_no_bias(g, "gate", h, c.mlp);
    let gate = g.silu(gate);
    let h = p_mlp.linear_no_bias(g, "up", h, c.mlp);
    let h = g.mul(gate, h);
    let h = p_mlp.linear_no_bias(g, "down", h, c.width);
    let y = residual(g, MLP, x, h);
    p.label(g, y)
}

/// `norm(x) · (1 + weight) · (1 + scale) + shift`
pub(super) fn norm(
    g: &mut Graph,
    p: &Params,
    name: &str,
    x: Node,
    width: usize,
    scale_shift: Option<[Node; 2]>,
) -> Node {
    let weight = p.vector(g, &format!("{name}.scale"), width);
    let weight = g.affine(weight, 1.0, 1.0);
    g.push(RowNorm {
        scale: scale_shift.map(|[scale, _]| scale),
        shift: scale_shift.map(|[_, shift]| shift),
        ..RowNorm::plain(x, NormKind::Rms, Some(weight), None, EPS)
    })
}

fn attention(g: &mut Graph, p: &Params, c: &BlockConfig, x: Node) -> Node {
    let (b, n) = (g.shape(x)[0], g.shape(x)[1]);
    let (hd, n_heads) = (c.head, c.width / c.head);
    let mut project = |name: &str, n_heads: usize, qk_norm: Option<&str>| {
        let y = p.linear_no_bias(g, name, x, n_heads * hd);
        let y = g.reshape(y, [b, n, n_heads, hd]); // [b, n, heads, hd]
        let Some(qk_norm) = qk_norm else { return y };
        let y = norm(g, &p.at("qknorm"), qk_norm, y, hd, None);
        match c.rope {
            Some(rope) => g.rope(y, rope, RopeLayout::Interleaved),
            None => y,
        }
    };
    let q = project("wq", n_heads, Some("qnorm"));
    let k = project("wk", c.kv_heads, Some("knorm"));
    let v = project("wv", c.kv_heads, None);
    let [k, v] = [k, v].map(|x| repeat_kv(g, x, n_heads / c.kv_heads));
    let y = g.attention(q, k, v, None);
    let y = g.reshape(y, [b, n, c.width]);
    let gate = p.linear_no_bias(g, "gate", x, c.width);
    let gate = g.act(gate, Act::Sigmoid);
    let y = g.mul(y, gate);
    p.linear_no_bias(g, "wo", y, c.width)
}
