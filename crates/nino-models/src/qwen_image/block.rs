//! The one kind of block: attention over text and pictures together, and an MLP of each.

use super::{Config, EPS};
use crate::Params;
use crate::flux::{gated_add, modulated};
use crate::mods::Mods;
use nino_graph::{Act, Graph, Node, RopeLayout};

/// Shift, scale and gate of one half of a block, `[b, d]` each.
#[derive(Clone, Copy)]
pub(super) struct Mod {
    shift: Node,
    scale: Node,
    gate: Node,
}

/// The inputs of a block beside its tokens.
#[derive(Clone, Copy)]
pub(super) struct Told {
    /// Of the pictures and of the text.
    pub(super) mods: [Mods<Mod>; 2],
    /// Rotations of the tokens, `[n, hd/2, 2]`.
    pub(super) table: Node,
}

/// Queries, keys and values, `[b, n, heads, hd]` each.
type Qkv = [Node; 3];

/// The names of a stream's layers for queries, keys and values, of its norms and of what follows.
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

/// The modulation of a stream out of the activated embedding of a noise level, `[b, d]`.
pub(super) fn mods(g: &mut Graph, p: &Params, c: &Config, stream: &str, t: Node) -> [Mod; 2] {
    let all = p.linear(g, &format!("{stream}_mod.1"), t, 6 * c.dim);
    let parts = g.split(all, 1, 6);
    let of = |i: usize| Mod {
        shift: parts[i],
        scale: parts[i + 1],
        gate: parts[i + 2],
    };
    [of(0), of(3)]
}

/// Pictures `[b, n_img, d]` and text `[b, n_txt, d]` to the same.
pub(super) fn block(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    [img, txt]: [Node; 2],
    told: Told,
) -> (Node, Node) {
    let n_txt = g.shape(txt)[1];
    let [of_img, of_txt] = told.mods;
    let attn = &p.at("attn");
    let img_qkv = stream_qkv(g, attn, c, &IMG, img, of_img);
    let txt_qkv = stream_qkv(g, attn, c, &TXT, txt, of_txt);
    let [q, k, v] = [0, 1, 2].map(|i| g.concat(&[txt_qkv[i], img_qkv[i]], 1));
    let [q, k] = [q, k].map(|x| g.rope(x, told.table, RopeLayout::Interleaved));
    let y = g.attention(q, k, v, None); // [b, n_txt + n_img, heads, hd]
    let (b, n) = (g.shape(y)[0], g.shape(y)[1]);
    let y = g.reshape(y, [b, n, c.dim]);
    let txt_y = g.slice(y, 1, 0, n_txt);
    let img_y = g.slice(y, 1, n_txt, n);
    let img_y = attn.linear(g, IMG.out, img_y, c.dim);
    let txt_y = attn.linear(g, TXT.out, txt_y, c.dim);
    let img = rest(g, &p.at("img_mlp"), c, [img, img_y], of_img);
    let txt = rest(g, &p.at("txt_mlp"), c, [txt, txt_y], of_txt);
    (p.at("img").label(g, img), p.at("txt").label(g, txt))
}

/// Queries, keys and values of one stream; the first two are normalized by head.
fn stream_qkv(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    names: &Names,
    x: Node,
    mods: Mods<Mod>,
) -> Qkv {
    let (b, n) = (g.shape(x)[0], g.shape(x)[1]);
    let h = normed(g, mods, 0, x);
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

/// A stream with what attention gave added, and its MLP.
fn rest(g: &mut Graph, p: &Params, c: &Config, [x, y]: [Node; 2], mods: Mods<Mod>) -> Node {
    let x = added(g, mods, 0, x, y);
    let h = normed(g, mods, 1, x);
    let h = p.linear(g, "net.0.proj", h, c.mlp);
    let h = g.act(h, Act::GeluTanh);
    let h = p.linear(g, "net.2", h, c.dim);
    added(g, mods, 1, x, h)
}

/// `norm(x) · (1 + scale) + shift`
fn normed(g: &mut Graph, mods: Mods<Mod>, half: usize, x: Node) -> Node {
    mods.each(g, half, [x], |g, [x], m| modulated(g, x, m.shift, m.scale))
}

/// `x + h · gate`
fn added(g: &mut Graph, mods: Mods<Mod>, half: usize, x: Node, h: Node) -> Node {
    mods.each(g, half, [x, h], |g, [x, h], m| gated_add(g, x, h, m.gate))
}
