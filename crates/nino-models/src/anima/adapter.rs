//! `llm_adapter`, between the language model and the transformer: T5 token embeddings with
//! cross-attention to the language model's hidden states.
//! T5 token ids `[b, m]` and hidden states `[b, n, d]` → text embeddings `[b, m, d]`.

use super::block::project;
use super::{Config, EPS, T5Tokens};
use crate::Params;
use nino_graph::{Act, Graph, Node};

/// The token embedding table. Its rows are gathered by id.
pub(crate) const TOKENS: &str = "llm_adapter.embed.weight";
const THETA: f32 = 10000.0;

/// `p` is at the adapter's prefix.
pub(super) fn adapter(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    states: Node,
    tokens: T5Tokens,
) -> Node {
    let (width, head) = (c.context_dim, c.adapter.head);
    let table = p.matrix(g, "embed.weight", c.adapter.vocab, width);
    let mut x = g.gather(table, tokens.ids, g.dtype(states)); // [b, m, d]
    let [rope_x, rope_states] = [x, states].map(|sequence| {
        let n = g.shape(sequence)[1];
        rope_table(g, n, head)
    });
    for i in 0..c.adapter.n_layers {
        let p = &p.at(format_args!("blocks.{i}"));
        let h = norm(g, p, "norm_self_attn", x, width);
        let h = attention(g, &p.at("self_attn"), [h, h], [rope_x; 2], [width, head]);
        x = g.add(x, h);
        let h = norm(g, p, "norm_cross_attn", x, width);
        let ropes = [rope_x, rope_states];
        let h = attention(g, &p.at("cross_attn"), [h, states], ropes, [width, head]);
        x = g.add(x, h);
        let h = norm(g, p, "norm_mlp", x, width);
        let h = p.linear(g, "mlp.0", h, c.adapter.mlp);
        let h = g.act(h, Act::Gelu);
        let h = p.linear(g, "mlp.2", h, width);
        x = g.add(x, h);
        x = p.label(g, x);
    }
    let x = p.linear(g, "out_proj", x, width);
    let x = norm(g, p, "norm", x, width);
    let x = p.label(g, x);
    g.mul(x, tokens.weights)
}

fn norm(g: &mut Graph, p: &Params, name: &str, x: Node, width: usize) -> Node {
    let weight = p.vector(g, &format!("{name}.weight"), width);
    g.rms_norm(x, Some(weight), EPS)
}

/// Attention of x to a context, each with a RoPE table.
fn attention(
    g: &mut Graph,
    p: &Params,
    [x, context]: [Node; 2],
    [rope_x, rope_context]: [Node; 2],
    [width, head]: [usize; 2],
) -> Node {
    let q = project(g, p, "q", x, [width, head], Some(rope_x));
    let k = project(g, p, "k", context, [width, head], Some(rope_context));
    let v = project(g, p, "v", context, [width, head], None);
    let y = g.attention(q, k, v, None);
    let y = g.reshape(y, [g.shape(y)[0], g.shape(y)[1], width]);
    p.linear_no_bias(g, "o_proj", y, width)
}

/// RoPE table `[n, hd/2, 2]` of cosine and sine. Angles are products in f32, as in training.
fn rope_table(g: &mut Graph, n: usize, head: usize) -> Node {
    let mut values = Vec::with_capacity(n * head);
    for token in 0..n {
        for i in 0..head / 2 {
            let frequency = 1.0 / THETA.powf((2 * i) as f32 / head as f32);
            let angle = f64::from(token as f32 * frequency);
            values.extend([angle.cos() as f32, angle.sin() as f32]);
        }
    }
    let name = format!("rotations of {n} words, heads of {head}");
    g.constant(&name, [n, head / 2, 2], &values)
}
