//! A transformer block: self-attention, cross-attention to the text, and an MLP, each with a
//! modulated norm before it and a gate after it.

use super::lllite::{Control, Layer};
use super::{Config, EPS};
use crate::Params;
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node, NormKind, RopeLayout, RowNorm};

/// The embedded timestep, an input of every modulation.
#[derive(Clone, Copy)]
pub(super) struct TimeEmbedding {
    /// SiLU of the normalized embedding, `[b, d]`.
    pub(super) t: Node,
    /// Shift, scale and gate that are added to every modulation, `[b, 3d]`.
    pub(super) adaln_lora: Node,
}

/// The inputs of all blocks besides the tokens.
pub(super) struct Blocks<'a> {
    pub(super) config: &'a Config,
    pub(super) time: TimeEmbedding,
    /// Text embeddings, `[b, n, context_dim]`.
    pub(super) context: Node,
    /// RoPE table of the image tokens, `[n, hd/2, 2]`.
    pub(super) rope: Node,
    /// Storage type of activations inside the branches; the residual stream may be wider.
    pub(super) dtype: DType,
    pub(super) controls: &'a [Control<'a>],
}

impl Blocks<'_> {
    /// Tokens `[b, n, d]` to the same.
    pub(super) fn block(&self, g: &mut Graph, p: &Params, i: usize, x: Node) -> Node {
        let x = self.branch(g, p, "self_attn", x, |g, p, x| {
            let layers = [Layer::SelfQ, Layer::SelfK, Layer::SelfV];
            let inputs = layers.map(|layer| self.controlled(g, i, layer, x));
            self.attention(g, p, inputs, Some(self.rope))
        });
        let x = self.branch(g, p, "cross_attn", x, |g, p, x| {
            let x = self.controlled(g, i, Layer::CrossQ, x);
            self.attention(g, p, [x, self.context, self.context], None)
        });
        let y = self.branch(g, p, "mlp", x, |g, p, x| {
            let x = self.controlled(g, i, Layer::Mlp, x);
            let x = p.linear_no_bias(g, "layer1", x, self.config.mlp);
            let x = g.act(x, Act::Gelu);
            p.linear_no_bias(g, "layer2", x, self.config.dim)
        });
        p.label(g, y)
    }

    /// `x + gate · f(norm(x) · (1 + scale) + shift)`
    fn branch(
        &self,
        g: &mut Graph,
        p: &Params,
        name: &str,
        x: Node,
        f: impl FnOnce(&mut Graph, &Params, Node) -> Node,
    ) -> Node {
        let (c, TimeEmbedding { t, adaln_lora }) = (self.config, self.time);
        let vectors = modulation(g, p, c, &format!("adaln_modulation_{name}"), t, 3 * c.dim);
        let vectors = g.add(vectors, adaln_lora);
        let vectors = g.split(vectors, 1, 3);
        let [shift, scale, gate] = [0, 1, 2].map(|i| vectors[i]);
        let h = norm(g, x, [shift, scale]);
        let h = g.cast(h, self.dtype);
        let p = p.at(name);
        let h = f(g, &p, h);
        let h = p.label(g, h);
        let stream_dtype = g.dtype(x);
        let gate = g.reshape(gate, [g.shape(gate)[0], 1, c.dim]);
        let [h, gate] = [h, gate].map(|n| g.cast(n, stream_dtype));
        let h = g.mul(h, gate);
        g.add(x, h)
    }

    /// The input of a layer of block `i`, with every control network applied.
    fn controlled(&self, g: &mut Graph, i: usize, layer: Layer, x: Node) -> Node {
        let controls = self.controls.iter();
        controls.fold(x, |x, control| control.changed(g, i, layer, x))
    }

    /// Attention of the inputs of queries, keys and values, `[b, n, d]` each. Self-attention has
    /// RoPE.
    fn attention(&self, g: &mut Graph, p: &Params, of: [Node; 3], rope: Option<Node>) -> Node {
        let c = self.config;
        let q = project(g, p, "q", of[0], [c.dim, c.head], rope);
        let k = project(g, p, "k", of[1], [c.dim, c.head], rope);
        let v = project(g, p, "v", of[2], [c.dim, c.head], None);
        let y = g.attention(q, k, v, None);
        let y = g.reshape(y, [g.shape(y)[0], g.shape(y)[1], c.dim]);
        p.linear_no_bias(g, "output_proj", y, c.dim)
    }
}

/// Queries (`name` is `q`), keys (`k`) or values (`v`) of tokens, `[b, n, heads, hd]`. Queries and
/// keys go through an RMS norm per head and, with a table, through RoPE.
pub(super) fn project(
    g: &mut Graph,
    p: &Params,
    name: &str,
    x: Node,
    [width, head]: [usize; 2],
    rope: Option<Node>,
) -> Node {
    let (b, n) = (g.shape(x)[0], g.shape(x)[1]);
    let y = p.linear_no_bias(g, &format!("{name}_proj"), x, width);
    let y = g.reshape(y, [b, n, width / head, head]); // [b, n, heads, hd]
    if name == "v" {
        return y;
    }
    let weight = p.vector(g, &format!("{name}_norm.weight"), head);
    let y = g.rms_norm(y, Some(weight), EPS);
    match rope {
        Some(rope) => g.rope(y, rope, RopeLayout::Halves),
        None => y,
    }
}

/// The low-rank layers of a modulation, `[b, d]` → `[b, width]`.
pub(super) fn modulation(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    name: &str,
    t: Node,
    width: usize,
) -> Node {
    let p = p.at(name);
    let h = p.linear_no_bias(g, "1", t, c.adaln_lora_dim);
    p.linear_no_bias(g, "2", h, width)
}

/// `norm(x) · (1 + scale) + shift`
pub(super) fn norm(g: &mut Graph, x: Node, [shift, scale]: [Node; 2]) -> Node {
    g.push(RowNorm {
        scale: Some(scale),
        shift: Some(shift),
        ..RowNorm::plain(x, NormKind::Layer, None, None, EPS)
    })
}
