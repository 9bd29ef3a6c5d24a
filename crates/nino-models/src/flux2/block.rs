//! The double and the single stream block.

use super::Config;
use crate::Params;
use crate::flux::{gated_add, modulated};
use nino_graph::{Act, Graph, Node, RopeLayout};

/// Shift, scale and gate of one timestep, `[b, d]` each.
#[derive(Clone, Copy)]
struct ShiftScaleGate {
    shift: Node,
    scale: Node,
    gate: Node,
}

/// Modulation of a sequence, before attention or before the MLP. Reference tokens at the end of the
/// sequence may be modulated for timestep 0.
#[derive(Clone, Copy)]
pub(super) struct Modulation {
    at_t: ShiftScaleGate,
    /// Modulation for timestep 0, and the number of tokens at the end that it applies to.
    at_zero: Option<(ShiftScaleGate, usize)>,
}

impl Modulation {
    /// Both slices hold shift, scale and gate.
    pub(super) fn new(at_t: &[Node], at_zero: Option<(&[Node], usize)>) -> Modulation {
        let from = |vectors: &[Node]| ShiftScaleGate {
            shift: vectors[0],
            scale: vectors[1],
            gate: vectors[2],
        };
        Modulation {
            at_t: from(at_t),
            at_zero: at_zero.map(|(vectors, n)| (from(vectors), n)),
        }
    }

    /// Applies `f` to the tokens of each timestep, and concatenates the results.
    fn apply<const N: usize>(
        self,
        g: &mut Graph,
        xs: [Node; N],
        f: impl Fn(&mut Graph, [Node; N], ShiftScaleGate) -> Node,
    ) -> Node {
        let Some((at_zero, n_ref)) = self.at_zero else {
            return f(g, xs, self.at_t);
        };
        let n = g.shape(xs[0])[1];
        let noisy = xs.map(|x| g.slice(x, 1, 0, n - n_ref));
        let reference = xs.map(|x| g.slice(x, 1, n - n_ref, n));
        let parts = [f(g, noisy, self.at_t), f(g, reference, at_zero)];
        g.concat(&parts, 1)
    }

    /// `norm(x) · (1 + scale) + shift`
    fn modulated(self, g: &mut Graph, x: Node) -> Node {
        self.apply(g, [x], |g, [x], m| modulated(g, x, m.shift, m.scale))
    }

    /// `x + h · gate`
    fn gated_add(self, g: &mut Graph, x: Node, h: Node) -> Node {
        self.apply(g, [x, h], |g, [x, h], m| gated_add(g, x, h, m.gate))
    }
}

/// Keys and values of reference tokens, `[b, n, heads, hd]` each.
pub(crate) type Kv = [Node; 2];

/// The inputs of attention besides queries, keys and values.
#[derive(Clone, Copy)]
pub(super) struct AttentionArgs {
    /// RoPE table of the sequence, `[n, hd/2, 2]`.
    pub(super) rope: Node,
    /// Cached keys and values of reference tokens that are not in the sequence.
    pub(super) cached: Option<Kv>,
    /// Reference tokens at the end of the sequence whose keys and values are returned.
    pub(super) n_ref: usize,
}

/// Queries, keys and values, `[b, n, heads, hd]` each.
type Qkv = [Node; 3];

/// Epsilon of the norms of queries and keys: PyTorch's default for f32, which ComfyUI keeps.
const EPS: f32 = f32::EPSILON;

/// Double stream block: image tokens `[b, n_img, d]` and text tokens `[b, n_txt, d]` to the same.
/// `mods` are those of image and text, before attention and before the MLP.
pub(super) fn double_block(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    [img, txt]: [Node; 2],
    [img_mods, txt_mods]: [[Modulation; 2]; 2],
    args: AttentionArgs,
) -> ([Node; 2], Kv) {
    let n_txt = g.shape(txt)[1];
    let img_qkv = stream_qkv(g, &p.at("img_attn"), c, img, img_mods[0]);
    let txt_qkv = stream_qkv(g, &p.at("txt_attn"), c, txt, txt_mods[0]);
    let qkv = [0, 1, 2].map(|i| g.concat(&[txt_qkv[i], img_qkv[i]], 1));
    let (attn, reference_kv) = attention(g, c, qkv, args); // [b, n_txt + n_img, d]
    let n = g.shape(attn)[1];
    let txt_attn = g.slice(attn, 1, 0, n_txt);
    let img_attn = g.slice(attn, 1, n_txt, n);
    let img = stream_out(g, p, c, "img", [img, img_attn], img_mods);
    let txt = stream_out(g, p, c, "txt", [txt, txt_attn], txt_mods);
    let streams = [p.at("img").label(g, img), p.at("txt").label(g, txt)];
    (streams, reference_kv)
}

/// Single stream block: text and image tokens as one sequence `[b, n, d]` to the same.
pub(super) fn single_block(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    x: Node,
    modulation: Modulation,
    args: AttentionArgs,
) -> (Node, Kv) {
    let d = c.hidden;
    let h = modulation.modulated(g, x);
    let qkv_mlp = p.linear_no_bias(g, "linear1", h, 3 * d + 2 * c.mlp);
    let qkv = g.slice(qkv_mlp, 2, 0, 3 * d);
    let qkv = split_qkv(g, p, c, qkv);
    let (attn, reference_kv) = attention(g, c, qkv, args);
    let mlp = g.slice(qkv_mlp, 2, 3 * d, 3 * d + 2 * c.mlp);
    let mlp = swiglu(g, mlp);
    let h = g.concat(&[attn, mlp], 2);
    let h = p.linear_no_bias(g, "linear2", h, d);
    let y = modulation.gated_add(g, x, h);
    (p.label(g, y), reference_kv)
}

/// Queries, keys and values of one stream of a double block.
fn stream_qkv(g: &mut Graph, p: &Params, c: &Config, x: Node, modulation: Modulation) -> Qkv {
    let h = modulation.modulated(g, x);
    let qkv = p.linear_no_bias(g, "qkv", h, 3 * c.hidden);
    split_qkv(g, p, c, qkv)
}

/// The rest of a double block for one stream: the attention's output projection, and the MLP.
fn stream_out(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    stream: &str,
    [x, attn]: [Node; 2],
    [attn_mod, mlp_mod]: [Modulation; 2],
) -> Node {
    let h = p.linear_no_bias(g, &format!("{stream}_attn.proj"), attn, c.hidden);
    let x = attn_mod.gated_add(g, x, h);
    let h = mlp_mod.modulated(g, x);
    let h = p.linear_no_bias(g, &format!("{stream}_mlp.0"), h, 2 * c.mlp);
    let h = swiglu(g, h);
    let h = p.linear_no_bias(g, &format!("{stream}_mlp.2"), h, c.hidden);
    mlp_mod.gated_add(g, x, h)
}

/// SiLU of the first half of `[b, n, 2·mlp]` times the second half.
fn swiglu(g: &mut Graph, x: Node) -> Node {
    let halves = g.split(x, 2, 2);
    let gate = g.act(halves[0], Act::Silu);
    g.mul(gate, halves[1])
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

/// Attention with RoPE over the sequence and the cached reference tokens: `[b, n, d]`. Also returns
/// the keys and values of the sequence's own reference tokens; without any, those of all tokens.
fn attention(g: &mut Graph, c: &Config, [q, k, v]: Qkv, args: AttentionArgs) -> (Node, Kv) {
    let (b, n) = (g.shape(q)[0], g.shape(q)[1]);
    let [q, mut k] = [q, k].map(|x| g.rope(x, args.rope, RopeLayout::Interleaved));
    let mut v = v;
    let reference_kv = match args.n_ref {
        0 => [k, v],
        n_ref => [k, v].map(|x| g.slice(x, 1, n - n_ref, n)),
    };
    if let Some(cached) = args.cached {
        k = g.concat(&[k, cached[0]], 1);
        v = g.concat(&[v, cached[1]], 1);
    }
    let y = g.attention(q, k, v, None);
    (g.reshape(y, [b, n, c.hidden]), reference_kv)
}
