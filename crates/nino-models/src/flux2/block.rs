//! The two kinds of block.

use super::Config;
use crate::Params;
use crate::flux::{gated_add, modulated};
use nino_graph::{Act, Graph, Node, RopeLayout};

/// Shift, scale and gate of one half of a block, `[b, d]` each.
#[derive(Clone, Copy)]
struct Mod {
    shift: Node,
    scale: Node,
    gate: Node,
}

/// How tokens are modulated.
#[derive(Clone, Copy)]
pub(super) struct Mods {
    now: Mod,
    /// Of so many tokens at the end, which are told that they have no noise.
    clean: Option<(Mod, usize)>,
}

impl Mods {
    /// Shift, scale and gate; those of clean tokens, and how many there are.
    pub(super) fn of(now: &[Node], clean: Option<(&[Node], usize)>) -> Mods {
        let of = |parts: &[Node]| Mod {
            shift: parts[0],
            scale: parts[1],
            gate: parts[2],
        };
        Mods {
            now: of(now),
            clean: clean.map(|(parts, n)| (of(parts), n)),
        }
    }

    /// `f` of the tokens of some values and of their modulation.
    fn each<const N: usize>(
        self,
        g: &mut Graph,
        values: [Node; N],
        f: impl Fn(&mut Graph, [Node; N], Mod) -> Node,
    ) -> Node {
        let Some((clean, n)) = self.clean else {
            return f(g, values, self.now);
        };
        let all = g.shape(values[0])[1];
        let noisy = values.map(|x| g.slice(x, 1, 0, all - n));
        let rest = values.map(|x| g.slice(x, 1, all - n, all));
        let parts = [f(g, noisy, self.now), f(g, rest, clean)];
        g.concat(&parts, 1)
    }

    fn modulated(self, g: &mut Graph, x: Node) -> Node {
        self.each(g, [x], |g, [x], m| modulated(g, x, m.shift, m.scale))
    }

    fn gated_add(self, g: &mut Graph, x: Node, h: Node) -> Node {
        self.each(g, [x, h], |g, [x, h], m| gated_add(g, x, h, m.gate))
    }
}

/// Keys and values of tokens that are looked at, `[b, n, heads, hd]` each.
pub(crate) type Looked = [Node; 2];

/// What attention looks at beside the tokens themselves.
#[derive(Clone, Copy)]
pub(super) struct Attended {
    /// Rotations of the tokens, `[n, hd/2, 2]`.
    pub(super) table: Node,
    /// Tokens that are not in the sequence.
    pub(super) kept: Option<Looked>,
    /// Tokens at the end of it whose keys and values are wanted.
    pub(super) wanted: usize,
}

/// The inputs of every double block beside its tokens.
#[derive(Clone, Copy)]
pub(super) struct Told {
    /// Of the picture and of the text, before attention and before the MLP.
    pub(super) mods: [[Mods; 2]; 2],
    pub(super) attended: Attended,
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
) -> ([Node; 2], Looked) {
    let n_txt = g.shape(txt)[1];
    let [of_img, of_txt] = told.mods;
    let img_qkv = stream_qkv(g, &p.at("img_attn"), c, img, of_img[0]);
    let txt_qkv = stream_qkv(g, &p.at("txt_attn"), c, txt, of_txt[0]);
    let qkv = [0, 1, 2].map(|i| g.concat(&[txt_qkv[i], img_qkv[i]], 1));
    let (y, looked) = attention(g, c, qkv, told.attended); // [b, n_txt + n_img, d]
    let n = g.shape(y)[1];
    let txt_y = g.slice(y, 1, 0, n_txt);
    let img_y = g.slice(y, 1, n_txt, n);
    let img = stream_rest(g, p, c, "img", [img, img_y], of_img);
    let txt = stream_rest(g, p, c, "txt", [txt, txt_y], of_txt);
    let streams = [p.at("img").label(g, img), p.at("txt").label(g, txt)];
    (streams, looked)
}

/// Text and picture as one sequence `[b, n, d]` to the same.
pub(super) fn single_block(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    x: Node,
    mods: Mods,
    attended: Attended,
) -> (Node, Looked) {
    let d = c.hidden;
    let h = mods.modulated(g, x);
    let both = p.linear_no_bias(g, "linear1", h, 3 * d + 2 * c.mlp);
    let qkv = g.slice(both, 2, 0, 3 * d);
    let qkv = normed_qkv(g, p, c, qkv);
    let (y, looked) = attention(g, c, qkv, attended);
    let mlp = g.slice(both, 2, 3 * d, 3 * d + 2 * c.mlp);
    let mlp = gated(g, mlp);
    let h = g.concat(&[y, mlp], 2);
    let h = p.linear_no_bias(g, "linear2", h, d);
    let y = mods.gated_add(g, x, h);
    (p.label(g, y), looked)
}

/// Queries, keys and values of one stream of a double block.
fn stream_qkv(g: &mut Graph, p: &Params, c: &Config, x: Node, mods: Mods) -> Qkv {
    let h = mods.modulated(g, x);
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
    [first, second]: [Mods; 2],
) -> Node {
    let h = p.linear_no_bias(g, &format!("{stream}_attn.proj"), attended, c.hidden);
    let x = first.gated_add(g, x, h);
    let h = second.modulated(g, x);
    let h = p.linear_no_bias(g, &format!("{stream}_mlp.0"), h, 2 * c.mlp);
    let h = gated(g, h);
    let h = p.linear_no_bias(g, &format!("{stream}_mlp.2"), h, c.hidden);
    second.gated_add(g, x, h)
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

/// Attention over all tokens, with their places: `[b, n, d]`, and the keys and values of those at
/// the end that are wanted.
fn attention(g: &mut Graph, c: &Config, [q, k, v]: Qkv, attended: Attended) -> (Node, Looked) {
    let (b, n) = (g.shape(q)[0], g.shape(q)[1]);
    let [q, mut k] = [q, k].map(|x| g.rope(x, attended.table, RopeLayout::Interleaved));
    let mut v = v;
    let looked = match attended.wanted {
        0 => [k, v],
        wanted => [k, v].map(|x| g.slice(x, 1, n - wanted, n)),
    };
    if let Some(kept) = attended.kept {
        k = g.concat(&[k, kept[0]], 1);
        v = g.concat(&[v, kept[1]], 1);
    }
    let y = g.attention(q, k, v, None);
    (g.reshape(y, [b, n, c.hidden]), looked)
}
