//! A block: attention among the picture's tokens, attention to the text, and an MLP, each between
//! a modulated norm and a gate.

use super::lllite::{Control, Layer};
use super::{Config, EPS};
use crate::Params;
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node, NormKind, RopeLayout, RowNorm};

/// The noise level as every block is told it.
#[derive(Clone, Copy)]
pub(super) struct Level {
    /// `[b, d]`
    pub(super) t: Node,
    /// What every modulation has in common: shift, scale and gate, `[b, 3d]`.
    pub(super) shared: Node,
}

/// What all blocks have in common.
pub(super) struct Blocks<'a> {
    pub(super) config: &'a Config,
    pub(super) level: Level,
    /// The text, `[b, n, context_dim]`.
    pub(super) context: Node,
    /// Rotations of the picture's tokens, `[n, hd/2, 2]`.
    pub(super) table: Node,
    /// What everything but the tokens themselves is stored as.
    pub(super) dtype: DType,
    pub(super) controls: &'a [Control<'a>],
}

impl Blocks<'_> {
    /// Tokens `[b, n, d]` to the same.
    pub(super) fn block(&self, g: &mut Graph, p: &Params, i: usize, x: Node) -> Node {
        let x = self.branch(g, p, "self_attn", x, |g, p, x| {
            let layers = [Layer::SelfQ, Layer::SelfK, Layer::SelfV];
            let seen = layers.map(|layer| self.changed(g, i, layer, x));
            self.attention(g, p, seen, Some(self.table))
        });
        let x = self.branch(g, p, "cross_attn", x, |g, p, x| {
            let x = self.changed(g, i, Layer::CrossQ, x);
            self.attention(g, p, [x, self.context, self.context], None)
        });
        let y = self.branch(g, p, "mlp", x, |g, p, x| {
            let x = self.changed(g, i, Layer::Mlp, x);
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
        let (c, Level { t, shared }) = (self.config, self.level);
        let own = told(g, p, c, &format!("adaln_modulation_{name}"), t, 3 * c.dim);
        let all = g.add(own, shared);
        let parts = g.split(all, 1, 3); // shift, scale, gate
        let h = norm(g, x, [parts[0], parts[1]]);
        let h = g.cast(h, self.dtype);
        let p = p.at(name);
        let h = f(g, &p, h);
        let h = p.label(g, h);
        let wide = g.dtype(x);
        let gate = g.reshape(parts[2], [g.shape(parts[2])[0], 1, c.dim]);
        let [h, gate] = [h, gate].map(|n| g.cast(n, wide));
        let h = g.mul(h, gate);
        g.add(x, h)
    }

    /// What enters a layer of block `i`, as what steers the model changes it.
    fn changed(&self, g: &mut Graph, i: usize, layer: Layer, x: Node) -> Node {
        let controls = self.controls.iter();
        controls.fold(x, |x, control| control.changed(g, i, layer, x))
    }

    /// Attention of tokens `[b, n, d]` to others: what queries, keys and values are made of. Tokens
    /// of the picture have places.
    fn attention(&self, g: &mut Graph, p: &Params, of: [Node; 3], place: Option<Node>) -> Node {
        let c = self.config;
        let q = heads(g, p, "q", of[0], [c.dim, c.head], place);
        let k = heads(g, p, "k", of[1], [c.dim, c.head], place);
        let v = heads(g, p, "v", of[2], [c.dim, c.head], None);
        let y = g.attention(q, k, v, None);
        let y = g.reshape(y, [g.shape(y)[0], g.shape(y)[1], c.dim]);
        p.linear_no_bias(g, "output_proj", y, c.dim)
    }
}

/// Queries, keys or values of some tokens, `[b, n, heads, hd]`; the first two go through a norm,
/// and are turned where they have places.
pub(super) fn heads(
    g: &mut Graph,
    p: &Params,
    name: &str,
    x: Node,
    [width, head]: [usize; 2],
    table: Option<Node>,
) -> Node {
    let (b, n) = (g.shape(x)[0], g.shape(x)[1]);
    let y = p.linear_no_bias(g, &format!("{name}_proj"), x, width);
    let y = g.reshape(y, [b, n, width / head, head]); // [b, n, heads, hd]
    if name == "v" {
        return y;
    }
    let weight = p.vector(g, &format!("{name}_norm.weight"), head);
    let y = g.rms_norm(y, Some(weight), EPS);
    match table {
        Some(table) => g.rope(y, table, RopeLayout::Halves),
        None => y,
    }
}

/// What a modulation makes of the noise level by two layers, `[b, width]`.
pub(super) fn told(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    name: &str,
    t: Node,
    width: usize,
) -> Node {
    let p = p.at(name);
    let h = p.linear_no_bias(g, "1", t, c.lora);
    p.linear_no_bias(g, "2", h, width)
}

/// `norm(x) · (1 + scale) + shift`
pub(super) fn norm(g: &mut Graph, x: Node, [shift, scale]: [Node; 2]) -> Node {
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
