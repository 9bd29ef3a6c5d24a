//! What stands between the language model and the transformer: words in T5's vocabulary ask the
//! language model's states. Ids `[b, m]` and states `[b, n, d]` → `[b, m, d]`.

use super::block::heads;
use super::{Config, EPS, Queries};
use crate::Params;
use nino_graph::{Act, Graph, Node};

/// The table of words, of which rows are picked.
pub(crate) const TOKENS: &str = "llm_adapter.embed.weight";
const THETA: f32 = 10000.0;

/// `p` is the place of its names.
pub(super) fn adapter(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    states: Node,
    queries: Queries,
) -> Node {
    let (width, head) = (c.context_dim, c.adapter.head);
    let table = p.matrix(g, "embed.weight", c.adapter.vocab, width);
    let mut x = g.gather(table, queries.ids, g.dtype(states)); // [b, m, d]
    let [of_words, of_states] = [x, states].map(|tokens| {
        let n = g.shape(tokens)[1];
        rotations(g, n, head)
    });
    for i in 0..c.adapter.n_layers {
        let p = &p.at(format_args!("blocks.{i}"));
        let h = norm(g, p, "norm_self_attn", x, width);
        let h = attention(g, &p.at("self_attn"), [h, h], [of_words; 2], [width, head]);
        x = g.add(x, h);
        let h = norm(g, p, "norm_cross_attn", x, width);
        let places = [of_words, of_states];
        let h = attention(g, &p.at("cross_attn"), [h, states], places, [width, head]);
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
    g.mul(x, queries.weights)
}

fn norm(g: &mut Graph, p: &Params, name: &str, x: Node, width: usize) -> Node {
    let weight = p.vector(g, &format!("{name}.weight"), width);
    g.rms_norm(x, Some(weight), EPS)
}

/// The first tokens look at the second.
fn attention(
    g: &mut Graph,
    p: &Params,
    [x, seen]: [Node; 2],
    [here, there]: [Node; 2],
    [width, head]: [usize; 2],
) -> Node {
    let q = heads(g, p, "q", x, [width, head], Some(here));
    let k = heads(g, p, "k", seen, [width, head], Some(there));
    let v = heads(g, p, "v", seen, [width, head], None);
    let y = g.attention(q, k, v, None);
    let y = g.reshape(y, [g.shape(y)[0], g.shape(y)[1], width]);
    p.linear_no_bias(g, "o_proj", y, width)
}

/// `[n, hd/2, 2]` of cosine and sine. Angles are products in f32, as the model was trained with.
fn rotations(g: &mut Graph, n: usize, head: usize) -> Node {
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
