//! The two kinds of block.

use super::Config;
use super::bias::Looking;
use super::modulation::{DoubleMods, Mod};
use crate::Params;
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node, NormKind, RopeLayout, RowNorm};

/// What attention is told in every block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Attended<'a> {
    pub(super) heads: usize,
    /// Rotations of the tokens, `[n, hd/2, 2]`.
    pub(super) table: Node,
    /// Tokens that look with different biases; none where all look alike.
    pub(super) parts: &'a [Looking],
}

/// Queries, keys and values, `[b, n, heads, hd]` each.
type Qkv = [Node; 3];

/// Of norms over tokens.
const EPS: f32 = 1e-6;
/// The largest number of f16.
const HALF_MAX: f32 = 65504.0;

/// Picture `[b, n_img, d]` and text `[b, n_txt, d]` to the same.
pub(super) fn double_block(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    [img, txt]: [Node; 2],
    mods: DoubleMods,
    attended: Attended<'_>,
) -> (Node, Node) {
    let n_txt = g.shape(txt)[1];
    let img_qkv = stream_qkv(g, &p.at("img_attn"), c, img, mods.img[0]);
    let txt_qkv = stream_qkv(g, &p.at("txt_attn"), c, txt, mods.txt[0]);
    let [q, k, v] = [0, 1, 2].map(|i| g.concat(&[txt_qkv[i], img_qkv[i]], 1));
    let y = attention(g, [q, k, v], attended); // [b, n_txt + n_img, d]
    let n = g.shape(y)[1];
    let txt_y = g.slice(y, 1, 0, n_txt);
    let img_y = g.slice(y, 1, n_txt, n);
    let img = stream_rest(g, p, c, "img", [img, img_y], mods.img);
    let txt = stream_rest(g, p, c, "txt", [txt, txt_y], mods.txt);
    (p.at("img").label(g, img), p.at("txt").label(g, txt))
}

/// Text and picture as one sequence `[b, n, d]` to the same.
pub(super) fn single_block(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    x: Node,
    mods: Mod,
    attended: Attended<'_>,
) -> Node {
    let d = c.hidden;
    let h = modulated(g, x, mods.shift, mods.scale);
    let both = p.linear(g, "linear1", h, 3 * d + c.mlp);
    let qkv = g.slice(both, 2, 0, 3 * d);
    let qkv = normed_qkv(g, p, c, qkv);
    let y = attention(g, qkv, attended);
    let mlp = g.slice(both, 2, 3 * d, 3 * d + c.mlp);
    let mlp = g.act(mlp, Act::GeluTanh);
    let h = g.concat(&[y, mlp], 2);
    let h = p.linear(g, "linear2", h, d);
    let y = gated_add(g, x, h, mods.gate);
    p.label(g, y)
}

/// `norm(x) · (1 + scale) + shift`
pub(crate) fn modulated(g: &mut Graph, x: Node, shift: Node, scale: Node) -> Node {
    g.push(RowNorm {
        x,
        kind: NormKind::Layer,
        eps: EPS,
        weight: None,
        bias: None,
        scale: Some(scale),
        shift: Some(shift),
        act: None,
    })
}

/// `x + h · gate`. Residuals of Flux grow beyond f16; like ComfyUI, f16 keeps its largest number.
pub(crate) fn gated_add(g: &mut Graph, x: Node, h: Node, gate: Node) -> Node {
    let shape = g.shape(gate);
    let gate = g.reshape(gate, [shape[0], 1, shape.last_dim()]);
    let h = g.mul(h, gate);
    let y = g.add(x, h);
    if g.dtype(y) == DType::F16 {
        return g.act(
            y,
            Act::Clamp {
                lo: -HALF_MAX,
                hi: HALF_MAX,
            },
        );
    }
    y
}

/// Queries, keys and values of one stream of a double block.
fn stream_qkv(g: &mut Graph, p: &Params, c: &Config, x: Node, mods: Mod) -> Qkv {
    let h = modulated(g, x, mods.shift, mods.scale);
    let qkv = p.linear(g, "qkv", h, 3 * c.hidden);
    normed_qkv(g, p, c, qkv)
}

/// What one stream of a double block makes of its attention, and its MLP.
fn stream_rest(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    stream: &str,
    [x, attended]: [Node; 2],
    [first, second]: [Mod; 2],
) -> Node {
    let h = p.linear(g, &format!("{stream}_attn.proj"), attended, c.hidden);
    let x = gated_add(g, x, h, first.gate);
    let h = modulated(g, x, second.shift, second.scale);
    let h = p.linear(g, &format!("{stream}_mlp.0"), h, c.mlp);
    let h = g.act(h, Act::GeluTanh);
    let h = p.linear(g, &format!("{stream}_mlp.2"), h, c.hidden);
    gated_add(g, x, h, second.gate)
}

/// `[b, n, 3d]` to queries, keys and values; the first two are normalized by head.
fn normed_qkv(g: &mut Graph, p: &Params, c: &Config, qkv: Node) -> Qkv {
    let (b, n) = (g.shape(qkv)[0], g.shape(qkv)[1]);
    let parts = g.split(qkv, 2, 3);
    let mut part = |i: usize, norm: Option<&str>| {
        let x = g.reshape(parts[i], [b, n, c.heads(), c.head]); // [b, n, heads, hd]
        norm.map_or(x, |name| {
            let scale = p.vector(g, &format!("norm.{name}.scale"), c.head);
            g.rms_norm(x, Some(scale), EPS)
        })
    };
    [
        part(0, Some("query_norm")),
        part(1, Some("key_norm")),
        part(2, None),
    ]
}

/// Attention over all tokens, with their places: `[b, n, d]`.
fn attention(g: &mut Graph, [q, k, v]: Qkv, attended: Attended<'_>) -> Node {
    let (b, n) = (g.shape(q)[0], g.shape(q)[1]);
    let [q, k] = [q, k].map(|x| g.rope(x, attended.table, RopeLayout::Interleaved));
    let d = attended.heads * g.shape(q).last_dim();
    let y = if attended.parts.is_empty() {
        g.attention(q, k, v, None)
    } else {
        let parts = attended.parts.iter().map(|part| {
            let q = g.slice(q, 1, part.tokens.start, part.tokens.end);
            g.attention(q, k, v, part.mask)
        });
        let parts: Vec<Node> = parts.collect();
        g.concat(&parts, 1)
    };
    g.reshape(y, [b, n, d])
}
