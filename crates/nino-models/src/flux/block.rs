//! The double and the single stream block.

use super::Config;
use super::bias::QuerySpan;
use super::modulation::{DoubleMods, Mod};
use crate::Params;
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node, NormKind, RopeLayout, RowNorm};

/// The inputs of attention besides queries, keys and values; the same in every block.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttentionArgs<'a> {
    pub(super) heads: usize,
    /// RoPE table of the sequence, `[n, hd/2, 2]`.
    pub(super) rope: Node,
    /// Ranges of queries with different masks; empty without a mask.
    pub(super) query_spans: &'a [QuerySpan],
}

/// Queries, keys and values, `[b, n, heads, hd]` each.
type Qkv = [Node; 3];

const EPS: f32 = 1e-6;
const F16_MAX: f32 = 65504.0;

/// Double stream block: image tokens `[b, n_img, d]` and text tokens `[b, n_txt, d]` to the same.
pub(super) fn double_block(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    [img, txt]: [Node; 2],
    mods: DoubleMods,
    args: AttentionArgs<'_>,
) -> (Node, Node) {
    let n_txt = g.shape(txt)[1];
    let img_qkv = stream_qkv(g, &p.at("img_attn"), c, img, mods.img[0]);
    let txt_qkv = stream_qkv(g, &p.at("txt_attn"), c, txt, mods.txt[0]);
    let [q, k, v] = [0, 1, 2].map(|i| g.concat(&[txt_qkv[i], img_qkv[i]], 1));
    let attn = attention(g, [q, k, v], args); // [b, n_txt + n_img, d]
    let n = g.shape(attn)[1];
    let txt_attn = g.slice(attn, 1, 0, n_txt);
    let img_attn = g.slice(attn, 1, n_txt, n);
    let img = stream_out(g, p, c, "img", [img, img_attn], mods.img);
    let txt = stream_out(g, p, c, "txt", [txt, txt_attn], mods.txt);
    (p.at("img").label(g, img), p.at("txt").label(g, txt))
}

/// Single stream block: text and image tokens as one sequence `[b, n, d]` to the same.
pub(super) fn single_block(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    x: Node,
    mods: Mod,
    args: AttentionArgs<'_>,
) -> Node {
    let d = c.hidden;
    let h = modulated(g, x, mods.shift, mods.scale);
    let qkv_mlp = p.linear(g, "linear1", h, 3 * d + c.mlp);
    let qkv = g.slice(qkv_mlp, 2, 0, 3 * d);
    let qkv = split_qkv(g, p, c, qkv);
    let attn = attention(g, qkv, args);
    let mlp = g.slice(qkv_mlp, 2, 3 * d, 3 * d + c.mlp);
    let mlp = g.act(mlp, Act::GeluTanh);
    let h = g.concat(&[attn, mlp], 2);
    let h = p.linear(g, "linear2", h, d);
    let y = gated_add(g, x, h, mods.gate);
    p.label(g, y)
}

/// `norm(x) · (1 + scale) + shift`
pub(crate) fn modulated(g: &mut Graph, x: Node, shift: Node, scale: Node) -> Node {
    g.push(RowNorm {
        scale: Some(scale),
        shift: Some(shift),
        ..RowNorm::plain(x, NormKind::Layer, None, None, EPS)
    })
}

/// `x + h · gate`. The residual stream of Flux can exceed f16; as in ComfyUI, f16 is clamped.
pub(crate) fn gated_add(g: &mut Graph, x: Node, h: Node, gate: Node) -> Node {
    let shape = g.shape(gate);
    let gate = g.reshape(gate, [shape[0], 1, shape.last_dim()]);
    let h = g.mul(h, gate);
    let y = g.add(x, h);
    if g.dtype(y) == DType::F16 {
        return g.act(
            y,
            Act::Clamp {
                lo: -F16_MAX,
                hi: F16_MAX,
            },
        );
    }
    y
}

/// Queries, keys and values of one stream of a double block.
fn stream_qkv(g: &mut Graph, p: &Params, c: &Config, x: Node, mods: Mod) -> Qkv {
    let h = modulated(g, x, mods.shift, mods.scale);
    let qkv = p.linear(g, "qkv", h, 3 * c.hidden);
    split_qkv(g, p, c, qkv)
}

/// The rest of a double block for one stream: the attention's output projection, and the MLP.
fn stream_out(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    stream: &str,
    [x, attn]: [Node; 2],
    [attn_mod, mlp_mod]: [Mod; 2],
) -> Node {
    let h = p.linear(g, &format!("{stream}_attn.proj"), attn, c.hidden);
    let x = gated_add(g, x, h, attn_mod.gate);
    let h = modulated(g, x, mlp_mod.shift, mlp_mod.scale);
    let h = p.linear(g, &format!("{stream}_mlp.0"), h, c.mlp);
    let h = g.act(h, Act::GeluTanh);
    let h = p.linear(g, &format!("{stream}_mlp.2"), h, c.hidden);
    gated_add(g, x, h, mlp_mod.gate)
}

/// `[b, n, 3d]` to queries, keys and values; queries and keys go through an RMS norm per head.
fn split_qkv(g: &mut Graph, p: &Params, c: &Config, qkv: Node) -> Qkv {
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

/// Attention with RoPE over all tokens: `[b, n, d]`.
fn attention(g: &mut Graph, [q, k, v]: Qkv, args: AttentionArgs<'_>) -> Node {
    let (b, n) = (g.shape(q)[0], g.shape(q)[1]);
    let [q, k] = [q, k].map(|x| g.rope(x, args.rope, RopeLayout::Interleaved));
    let d = args.heads * g.shape(q).last_dim();
    let y = if args.query_spans.is_empty() {
        g.attention(q, k, v, None)
    } else {
        let parts = args.query_spans.iter().map(|span| {
            let q = g.slice(q, 1, span.tokens.start, span.tokens.end);
            g.attention(q, k, v, span.mask)
        });
        let parts: Vec<Node> = parts.collect();
        g.concat(&parts, 1)
    };
    g.reshape(y, [b, n, d])
}
