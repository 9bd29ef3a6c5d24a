//! The transformer block: attention and a gated MLP, each between two norms.

use super::Config;
use crate::Params;
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node, NormKind, RopeLayout, RowNorm};

pub(super) const EPS: f32 = 1e-5;
/// Epsilon of the norms of queries and keys: PyTorch's default for f32, which ComfyUI keeps.
const QK_EPS: f32 = f32::EPSILON;
/// The outputs of attention and MLP can exceed f16. With f16 activations they are stored divided by
/// this factor. The RMS norm that follows removes it again: its epsilon is divided by the square of
/// the factor, so the result is the same.
const HALF_SCALE: f32 = 256.0;

/// Modulation of attention or of the MLP, `[b, d]` each.
#[derive(Clone, Copy)]
struct Mod {
    scale: Node,
    gate: Node,
}

/// The inputs of a block besides its tokens.
#[derive(Clone, Copy)]
pub(super) struct BlockArgs {
    /// RoPE table of the tokens, `[n, hd/2, 2]`.
    pub(super) rope: Node,
    /// Time embedding, `[b, c]`; `None` for blocks without modulation.
    pub(super) t: Option<Node>,
}

/// Tokens `[b, n, d]` to the same.
pub(super) fn block(g: &mut Graph, p: &Params, c: &Config, x: Node, args: BlockArgs) -> Node {
    let mods = args.t.map(|t| {
        let vectors = p.linear(g, "adaLN_modulation.0", t, 4 * c.dim);
        let vectors = g.split(vectors, 1, 4);
        let mut from = |i: usize| Mod {
            scale: vectors[i],
            gate: g.act(vectors[i + 1], Act::Tanh),
        };
        [from(0), from(2)]
    });
    let [attn_mod, mlp_mod] = mods.map_or([None; 2], |mods| mods.map(Some));
    let h = norm(g, p, c, "attention_norm1", x, attn_mod);
    let h = attention(g, &p.at("attention"), c, h, args.rope);
    let x = gated_residual(g, p, c, "attention_norm2", [x, h], attn_mod);
    let h = norm(g, p, c, "ffn_norm1", x, mlp_mod);
    let h = feed_forward(g, &p.at("feed_forward"), c, h);
    let y = gated_residual(g, p, c, "ffn_norm2", [x, h], mlp_mod);
    p.label(g, y)
}

/// `norm(x) · (1 + scale)`
fn norm(g: &mut Graph, p: &Params, c: &Config, name: &str, x: Node, m: Option<Mod>) -> Node {
    let weight = p.vector(g, &format!("{name}.weight"), c.dim);
    g.push(RowNorm {
        scale: m.map(|m| m.scale),
        ..RowNorm::plain(x, NormKind::Rms, Some(weight), None, EPS)
    })
}

/// `x + norm(h) · gate`, where h may be stored divided by [`HALF_SCALE`].
fn gated_residual(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    name: &str,
    [x, h]: [Node; 2],
    m: Option<Mod>,
) -> Node {
    let weight = p.vector(g, &format!("{name}.weight"), c.dim);
    let eps = match g.dtype(h) {
        DType::F16 => EPS / (HALF_SCALE * HALF_SCALE),
        _ => EPS,
    };
    let mut h = g.rms_norm(h, Some(weight), eps);
    if let Some(Mod { gate, .. }) = m {
        let shape = g.shape(gate);
        let gate = g.reshape(gate, [shape[0], 1, shape.last_dim()]);
        h = g.mul(h, gate);
    }
    g.add(x, h)
}

/// Divides a value by [`HALF_SCALE`] where it is stored as f16.
fn scaled_down(g: &mut Graph, x: Node) -> Node {
    match g.dtype(x) {
        DType::F16 => g.affine(x, 1.0 / HALF_SCALE, 0.0),
        _ => x,
    }
}

fn attention(g: &mut Graph, p: &Params, c: &Config, x: Node, rope: Node) -> Node {
    let (b, n) = (g.shape(x)[0], g.shape(x)[1]);
    let qkv = p.linear_no_bias(g, "qkv", x, 3 * c.dim);
    let qkv = g.split(qkv, 2, 3);
    let mut split_heads = |i: usize, norm: Option<&str>| {
        let x = g.reshape(qkv[i], [b, n, c.heads(), c.head]); // [b, n, heads, hd]
        norm.map_or(x, |name| {
            let weight = p.vector(g, &format!("{name}.weight"), c.head);
            let x = g.rms_norm(x, Some(weight), QK_EPS);
            g.rope(x, rope, RopeLayout::Interleaved)
        })
    };
    let [q, k, v] = [
        split_heads(0, Some("q_norm")),
        split_heads(1, Some("k_norm")),
        split_heads(2, None),
    ];
    let y = g.attention(q, k, v, None);
    let y = g.reshape(y, [b, n, c.dim]);
    let y = p.linear_no_bias(g, "out", y, c.dim);
    scaled_down(g, y)
}

fn feed_forward(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let gate = p.linear_no_bias(g, "w1", x, c.mlp);
    let gate = g.silu(gate);
    let h = p.linear_no_bias(g, "w3", x, c.mlp);
    let h = scaled_down(g, h);
    let h = g.mul(gate, h);
    p.linear_no_bias(g, "w2", h, c.dim)
}
