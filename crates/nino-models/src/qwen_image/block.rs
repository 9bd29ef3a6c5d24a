//! The double stream block: joint attention over text and image tokens, and an MLP for each stream.

use super::{Config, EPS};
use crate::Params;
use crate::flux::{gated_add, modulated};
use crate::mods::{ATTN, MLP, Mods};
use nino_graph::{Act, Graph, Node, RopeLayout};

/// Modulation of attention or of the MLP, `[b, d]` each.
#[derive(Clone, Copy)]
pub(super) struct Mod {
    shift: Node,
    scale: Node,
    gate: Node,
}

/// The inputs of a block besides its tokens.
#[derive(Clone, Copy)]
pub(super) struct BlockArgs {
    /// Modulations of the image and of the text stream.
    pub(super) mods: [Mods<Mod>; 2],
    /// RoPE table of the joint sequence, `[n, hd/2, 2]`.
    pub(super) rope: Node,
}

/// Queries, keys and values, `[b, n, heads, hd]` each.
type Qkv = [Node; 3];

/// Names of a stream's attention layers: projections, norms of queries and keys, output.
struct Names {
    qkv: [&'static str; 3],
    norms: [&'static str; 2],
    out: &'static str,
}

const IMG: Names = Names {
    qkv: ["to_q", "to_k", "to_v"],
    norms: ["norm_q", "norm_k"],
    out: "to_out.0",
};
const TXT: Names = Names {
    qkv: ["add_q_proj", "add_k_proj", "add_v_proj"],
    norms: ["norm_added_q", "norm_added_k"],
    out: "to_add_out",
};

/// Modulations of a stream's attention and MLP. `temb` is SiLU of the time embedding, `[b, d]`.
pub(super) fn modulation(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    stream: &str,
    temb: Node,
) -> [Mod; 2] {
    let vectors = p.linear(g, &format!("{stream}_mod.1"), temb, 6 * c.dim);
    let vectors = g.split(vectors, 1, 6);
    let from = |i: usize| Mod {
        shift: vectors[i],
        scale: vectors[i + 1],
        gate: vectors[i + 2],
    };
    [from(0), from(3)]
}

/// Image tokens `[b, n_img, d]` and text tokens `[b, n_txt, d]` to the same.
pub(super) fn block(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    [img, txt]: [Node; 2],
    args: BlockArgs,
) -> (Node, Node) {
    let n_txt = g.shape(txt)[1];
    let [img_mods, txt_mods] = args.mods;
    let attn = &p.at("attn");
    let img_qkv = stream_qkv(g, attn, c, &IMG, img, img_mods);
    let txt_qkv = stream_qkv(g, attn, c, &TXT, txt, txt_mods);
    let [q, k, v] = [0, 1, 2].map(|i| g.concat(&[txt_qkv[i], img_qkv[i]], 1));
    let [q, k] = [q, k].map(|x| g.rope(x, args.rope, RopeLayout::Interleaved));
    let y = g.attention(q, k, v, None); // [b, n_txt + n_img, heads, hd]
    let (b, n) = (g.shape(y)[0], g.shape(y)[1]);
    let y = g.reshape(y, [b, n, c.dim]);
    let txt_attn = g.slice(y, 1, 0, n_txt);
    let img_attn = g.slice(y, 1, n_txt, n);
    let img_attn = attn.linear(g, IMG.out, img_attn, c.dim);
    let txt_attn = attn.linear(g, TXT.out, txt_attn, c.dim);
    let img = stream_out(g, &p.at("img_mlp"), c, [img, img_attn], img_mods);
    let txt = stream_out(g, &p.at("txt_mlp"), c, [txt, txt_attn], txt_mods);
    (p.at("img").label(g, img), p.at("txt").label(g, txt))
}

/// Queries, keys and values of one stream; queries and keys go through an RMS norm per head.
fn stream_qkv(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    names: &Names,
    x: Node,
    mods: Mods<Mod>,
) -> Qkv {
    let (b, n) = (g.shape(x)[0], g.shape(x)[1]);
    let h = modulated_norm(g, mods, ATTN, x);
    [0, 1, 2].map(|i| {
        let y = p.linear(g, names.qkv[i], h, c.dim);
        let y = g.reshape(y, [b, n, c.heads(), c.head]); // [b, n, heads, hd]
        let Some(norm) = names.norms.get(i) else {
            return y;
        };
        let weight = p.vector(g, &format!("{norm}.weight"), c.head);
        g.rms_norm(y, Some(weight), EPS)
    })
}

/// Adds the attention's output to a stream, and applies the MLP.
fn stream_out(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    [x, attn]: [Node; 2],
    mods: Mods<Mod>,
) -> Node {
    let x = gated_residual(g, mods, ATTN, x, attn);
    let h = modulated_norm(g, mods, MLP, x);
    let h = p.linear(g, "net.0.proj", h, c.mlp);
    let h = g.act(h, Act::GeluTanh);
    let h = p.linear(g, "net.2", h, c.dim);
    gated_residual(g, mods, MLP, x, h)
}

/// `norm(x) · (1 + scale) + shift`
fn modulated_norm(g: &mut Graph, mods: Mods<Mod>, index: usize, x: Node) -> Node {
    mods.apply(g, index, [x], |g, [x], m| modulated(g, x, m.shift, m.scale))
}

/// `x + h · gate`
fn gated_residual(g: &mut Graph, mods: Mods<Mod>, index: usize, x: Node, h: Node) -> Node {
    mods.apply(g, index, [x, h], |g, [x, h], m| gated_add(g, x, h, m.gate))
}
