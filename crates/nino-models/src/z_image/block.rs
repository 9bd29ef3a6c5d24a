//! The one kind of block: attention and a gated MLP, each between two norms.

use super::Config;
use crate::Params;
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node, NormKind, RopeLayout, RowNorm};

/// Epsilon of norms over tokens.
pub(super) const EPS: f32 = 1e-5;
/// Epsilon of norms over heads: PyTorch's default for f32, which ComfyUI keeps.
const HEAD_EPS: f32 = f32::EPSILON;
/// The results of attention and MLP can exceed f16. With f16 activations they are stored divided by
/// this factor. The RMS norm that follows removes it again: its epsilon is divided by the square of
/// the factor, so the result is the same.
const HALF_SCALE: f32 = 256.0;

/// Modulation of one half of a block by the noise level, `[b, d]` each.
#[derive(Clone, Copy)]
struct Mod {
    scale: Node,
    gate: Node,
}

/// The inputs of a block beside its tokens.
#[derive(Clone, Copy)]
pub(super) struct Told {
    /// Rotations of the tokens, `[n, hd/2, 2]`.
    pub(super) table: Node,
    /// The embedded noise level, `[b, c]`; `None` of a block without modulation.
    pub(super) t: Option<Node>,
}

/// Tokens `[b, n, d]` to the same.
pub(super) fn block(g: &mut Graph, p: &Params, c: &Config, x: Node, told: Told) -> Node {
    let mods = told.t.map(|t| {
        let all = p.linear(g, "adaLN_modulation.0", t, 4 * c.dim);
        let parts = g.split(all, 1, 4);
        let mut of = |i: usize| Mod {
            scale: parts[i],
            gate: g.act(parts[i + 1], Act::Tanh),
        };
        [of(0), of(2)]
    });
    let [first, second] = mods.map_or([None; 2], |mods| mods.map(Some));
    let h = norm(g, p, c, "attention_norm1", x, first);
    let h = attention(g, &p.at("attention"), c, h, told.table);
    let x = added(g, p, c, "attention_norm2", [x, h], first);
    let h = norm(g, p, c, "ffn_norm1", x, second);
    let h = feed_forward(g, &p.at("feed_forward"), c, h);
    let y = added(g, p, c, "ffn_norm2", [x, h], second);
    p.label(g, y)
}

/// `norm(x) · (1 + scale)`
fn norm(g: &mut Graph, p: &Params, c: &Config, name: &str, x: Node, mods: Option<Mod>) -> Node {
    let weight = p.vector(g, &format!("{name}.weight"), c.dim);
    g.push(RowNorm {
        x,
        kind: NormKind::Rms,
        eps: EPS,
        weight: Some(weight),
        bias: None,
        scale: mods.map(|m| m.scale),
        shift: None,
        act: None,
    })
}

/// `x + norm(h) · gate`, where h may be stored divided by [`HALF_SCALE`].
fn added(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    name: &str,
    [x, h]: [Node; 2],
    mods: Option<Mod>,
) -> Node {
    let weight = p.vector(g, &format!("{name}.weight"), c.dim);
    let eps = match g.dtype(h) {
        DType::F16 => EPS / (HALF_SCALE * HALF_SCALE),
        _ => EPS,
    };
    let mut h = g.rms_norm(h, Some(weight), eps);
    if let Some(Mod { gate, .. }) = mods {
        let shape = g.shape(gate);
        let gate = g.reshape(gate, [shape[0], 1, shape.last_dim()]);
        h = g.mul(h, gate);
    }
    g.add(x, h)
}

/// Divides a value by [`HALF_SCALE`] where it is stored as f16.
fn divided(g: &mut Graph, x: Node) -> Node {
    match g.dtype(x) {
        DType::F16 => g.affine(x, 1.0 / HALF_SCALE, 0.0),
        _ => x,
    }
}

fn attention(g: &mut Graph, p: &Params, c: &Config, x: Node, table: Node) -> Node {
    let (b, n) = (g.shape(x)[0], g.shape(x)[1]);
    let qkv = p.linear_no_bias(g, "qkv", x, 3 * c.dim);
    let parts = g.split(qkv, 2, 3);
    let mut part = |i: usize, name: Option<&str>| {
        let x = g.reshape(parts[i], [b, n, c.heads(), c.head]); // [b, n, heads, hd]
        name.map_or(x, |name| {
            let weight = p.vector(g, &format!("{name}.weight"), c.head);
            let x = g.rms_norm(x, Some(weight), HEAD_EPS);
            g.rope(x, table, RopeLayout::Interleaved)
        })
    };
    let [q, k, v] = [
        part(0, Some("q_norm")),
        part(1, Some("k_norm")),
        part(2, None),
    ];
    let y = g.attention(q, k, v, None);
    let y = g.reshape(y, [b, n, c.dim]);
    let y = p.linear_no_bias(g, "out", y, c.dim);
    divided(g, y)
}

fn feed_forward(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let gate = p.linear_no_bias(g, "w1", x, c.mlp);
    let gate = g.silu(gate);
    let h = p.linear_no_bias(g, "w3", x, c.mlp);
    let h = divided(g, h);
    let h = g.mul(gate, h);
    p.linear_no_bias(g, "w2", h, c.dim)
}
