//! The two kinds of block.

use super::Config;
use crate::Params;
use crate::flux::{gated_add, modulated};
use nino_graph::{Act, Graph, Node, RopeLayout};

/// Shift, scale and gate of one half of a block, `[b, d]` each.
#[derive(Clone, Copy)]
pub(super) struct Mod {
    shift: Node,
    scale: Node,
    gate: Node,
}

impl Mod {
    pub(super) fn of(parts: &[Node]) -> Mod {
        Mod {
            shift: parts[0],
            scale: parts[1],
            gate: parts[2],
        }
    }
}

/// The inputs of every double block beside its tokens.
#[derive(Clone, Copy)]
pub(super) struct Told {
    /// Of the picture and of the text, before attention and before the MLP.
    pub(super) mods: [[Mod; 2]; 2],
    /// Rotations of the tokens, `[n, hd/2, 2]`.
    pub(super) table: Node,
}

/// Queries, keys and values, `[b, n, heads, hd]` each.
type Qkv = [Node; 3];

/// Epsilon of norms over heads: PyTorch's default for f32, which ComfyUI keeps.
const EPS: f32 = f32::EPSILON;

/// Picture `[b, n_img, d]` and text `[b, n_txt, d]` to the same.
pub(super) fn double_block(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    [img, txt]: [Node; 2],
    told: Told,
) -> (Node, Node) {
    let n_txt = g.shape(txt)[1];
    let [of_img, of_txt] = told.mods;
    let img_qkv = stream_qkv(g, &p.at("img_attn"), c, img, of_img[0]);
    let txt_qkv = stream_qkv(g, &p.at("txt_attn"), c, txt, of_txt[0]);
    let qkv = [0, 1, 2].map(|i| g.concat(&[txt_qkv[i], img_qkv[i]], 1));
    let y = attention(g, c, qkv, told.table); // [b, n_txt + n_img, d]
    let n = g.shape(y)[1];
    let txt_y = g.slice(y, 1, 0, n_txt);
    let img_y = g.slice(y, 1, n_txt, n);
    let img = stream_rest(g, p, c, "img", [img, img_y], of_img);
    let txt = stream_rest(g, p, c, "txt", [txt, txt_y], of_txt);
    (p.at("img").label(g, img), p.at("txt").label(g, txt))
}

/// Text and picture as one sequence `[b, n, d]` to the same.
pub(super) fn single_block(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    x: Node,
    mods: Mod,
    table: Node,
) -> Node {
    let d = c.hidden;
    let h = modulated(g, x, mods.shift, mods.scale);
    let both = p.linear_no_bias(g, "linear1", h, 3 * d + 2 * c.mlp);
    let qkv = g.slice(both, 2, 0, 3 * d);
    let qkv = normed_qkv(g, p, c, qkv);
    let y = attention(g, c, qkv, table);
    let mlp = g.slice(both, 2, 3 * d, 3 * d + 2 * c.mlp);
    let mlp = gated(g, mlp);
    let h = g.concat(&[y, mlp], 2);
    let h = p.linear_no_bias(g, "linear2", h, d);
    let y = gated_add(g, x, h, mods.gate);
    p.label(g, y)
}

/// Queries, keys and values of one stream of a double block.
fn stream_qkv(g: &mut Graph, p: &Params, c: &Config, x: Node, mods: Mod) -> Qkv {
    let h = modulated(g, x, mods.shift, mods.scale);
    let qkv = p.linear_no_bias(g, "qkv", h, 3 * c.hidden);
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
    let h = p.linear_no_bias(g, &format!("{stream}_attn.proj"), attended, c.hidden);
    let x = gated_add(g, x, h, first.gate);
    let h = modulated(g, x, second.shift, second.scale);
    let h = p.linear_no_bias(g, &format!("{stream}_mlp.0"), h, 2 * c.mlp);
    let h = gated(g, h);
    let h = p.linear_no_bias(g, &format!("{stream}_mlp.2"), h, c.hidden);
    gated_add(g, x, h, second.gate)
}

/// The second half of `[b, n, 2·mlp]` times the activated first.
fn gated(g: &mut Graph, x: Node) -> Node {
    let halves = g.split(x, 2, 2);
    let gate = g.act(halves[0], Act::Silu);
    g.mul(gate, halves[1])
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
fn attention(g: &mut Graph, c: &Config, [q, k, v]: Qkv, table: Node) -> Node {
    let (b, n) = (g.shape(q)[0], g.shape(q)[1]);
    let [q, k] = [q, k].map(|x| g.rope(x, table, RopeLayout::Interleaved));
    let y = g.attention(q, k, v, None);
    g.reshape(y, [b, n, c.hidden])
}
