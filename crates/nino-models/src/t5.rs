//! T5 v1.1 and UMT5 text encoders. Behaviour: Hugging Face's `T5EncoderModel` and
//! `UMT5EncoderModel`, whose names are canonical.
//! Token ids `[b, n]` → hidden states `[b, n, d]`.

use crate::{Find, Params};
use nino_dtype::DType;
use nino_graph::{Act, Attention, Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub vocab: usize,
    pub width: usize,
    pub mlp: usize,
    pub heads: usize,
    /// Width of one head.
    pub head: usize,
    pub n_layers: usize,
    /// Rows of the table of relative positions.
    pub buckets: usize,
    pub positions: Positions,
}

/// Where the table of relative positions is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positions {
    /// In the first layer, for all of them (T5).
    Shared,
    /// In every layer its own (UMT5).
    PerLayer,
}

/// What to give.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// 1 is the last layer, 2 the one before it. The final norm is always applied.
    pub skip: usize,
    /// `[b, 1, 1, n]`, added to the scores: 0 at tokens that are seen, a large negative number at
    /// others. All are seen when `None`.
    pub mask: Option<Node>,
}

/// Rows are picked from these by number, so they are never held in blocks of rows.
pub(crate) const TOKENS: &str = "shared.weight";
const BIAS: &str = "layer.0.SelfAttention.relative_attention_bias.weight";
const EPS: f32 = 1e-6;
/// Relative positions from here on share one row of the table.
const MAX_DISTANCE: f64 = 128.0;

impl Config {
    /// The encoder of Flux.1, Chroma and SD3.
    pub fn xxl() -> Config {
        Config {
            vocab: 32128,
            width: 4096,
            mlp: 10240,
            heads: 64,
            head: 64,
            n_layers: 24,
            buckets: 32,
            positions: Positions::Shared,
        }
    }

    pub fn xl() -> Config {
        Config {
            width: 2048,
            mlp: 5120,
            heads: 32,
            ..Config::xxl()
        }
    }

    pub fn large() -> Config {
        Config {
            width: 1024,
            mlp: 2816,
            heads: 16,
            ..Config::xxl()
        }
    }

    pub fn base() -> Config {
        Config {
            width: 768,
            mlp: 2048,
            heads: 12,
            n_layers: 12,
            ..Config::xxl()
        }
    }

    /// The multilingual kin of the same sizes: Wan's encoder is the one of [`Config::xxl`].
    #[must_use]
    pub fn multilingual(self) -> Config {
        Config {
            vocab: 256_384,
            positions: Positions::PerLayer,
            ..self
        }
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not a T5 encoder.
    pub fn detect(find: &Find) -> Option<Config> {
        let shape = |name: &str| find(name).map(|(s, _)| s);
        let layer = |i: usize, name: &str| shape(&format!("encoder.block.{i}.{name}"));
        let matrix = |s: nino_graph::Shape| match *s {
            [rows, columns] => Some((rows, columns)),
            _ => None,
        };
        let (vocab, width) = matrix(shape(TOKENS)?)?;
        let (buckets, heads) = matrix(layer(0, BIAS)?)?;
        let (inner, _) = matrix(layer(0, "layer.0.SelfAttention.q.weight")?)?;
        let wi_0 = |i: usize| layer(i, "layer.1.DenseReluDense.wi_0.weight");
        let (mlp, _) = matrix(wi_0(0)?)?;
        (inner.is_multiple_of(heads) && buckets >= 4).then_some(Config {
            vocab,
            width,
            mlp,
            heads,
            head: inner / heads,
            n_layers: (0..256).take_while(|&i| wi_0(i).is_some()).count(),
            buckets,
            positions: match layer(1, BIAS) {
                Some(_) => Positions::PerLayer,
                None => Positions::Shared,
            },
        })
    }
}

/// Token embeddings `[b, n, d]` of ids `[b, n]` (i32).
pub fn embed(g: &mut Graph, p: &Params, c: &Config, ids: Node, dtype: DType) -> Node {
    let table = p.matrix(g, TOKENS, c.vocab, c.width);
    g.gather(table, ids, dtype)
}

/// From token embeddings `[b, n, d]`.
pub fn encoder(g: &mut Graph, p: &Params, c: &Config, x: Node, want: Want) -> Node {
    let n = g.shape(x)[1];
    let ids = g.constant_ids(
        &format!("rows of {} for {n} relative positions", c.buckets),
        [n, n],
        &relative_rows(n, c.buckets),
    );
    let mut h = x;
    let mut bias = None;
    let stop = c.n_layers + 1 - want.skip.clamp(1, c.n_layers.max(1));
    for i in 0..stop {
        let p = &p.at(format_args!("encoder.block.{i}"));
        let scores = match bias.filter(|_| c.positions == Positions::Shared) {
            Some(bias) => bias,
            None => scores(g, p, c, ids, want.mask),
        };
        bias = Some(scores);
        h = block(g, p, c, h, scores);
    }
    let weight = p.vector(g, "encoder.final_layer_norm.weight", c.width);
    g.rms_norm(h, Some(weight), EPS)
}

fn block(g: &mut Graph, p: &Params, c: &Config, x: Node, bias: Node) -> Node {
    let h = rms_norm(g, &p.at("layer.0"), c, x);
    let h = self_attention(g, &p.at("layer.0.SelfAttention"), c, h, bias);
    let x = g.add(x, h);
    let h = rms_norm(g, &p.at("layer.1"), c, x);
    let ff = p.at("layer.1.DenseReluDense");
    let gate = ff.linear_no_bias(g, "wi_0", h, c.mlp);
    let gate = g.act(gate, Act::GeluTanh);
    let h = ff.linear_no_bias(g, "wi_1", h, c.mlp);
    let h = g.mul(gate, h);
    let h = ff.linear_no_bias(g, "wo", h, c.width);
    let y = g.add(x, h);
    p.label(g, y)
}

fn rms_norm(g: &mut Graph, p: &Params, c: &Config, x: Node) -> Node {
    let weight = p.vector(g, "layer_norm.weight", c.width);
    g.rms_norm(x, Some(weight), EPS)
}

fn self_attention(g: &mut Graph, p: &Params, c: &Config, x: Node, bias: Node) -> Node {
    let (b, n, inner) = (g.shape(x)[0], g.shape(x)[1], c.heads * c.head);
    let [q, k, v] = ["q", "k", "v"].map(|name| {
        let y = p.linear_no_bias(g, name, x, inner);
        g.reshape(y, [b, n, c.heads, c.head]) // [b, n, heads, hd]
    });
    // T5's weights hold the usual 1/√hd.
    let y = g.push(Attention {
        q,
        k,
        v,
        mask: Some(bias),
        scale: 1.0,
        by_keys: false,
    });
    let y = g.reshape(y, [b, n, inner]);
    p.linear_no_bias(g, "o", y, c.width)
}

/// What is added to the scores: a number for each head and distance, and the mask.
fn scores(g: &mut Graph, p: &Params, c: &Config, ids: Node, mask: Option<Node>) -> Node {
    let n = g.shape(ids)[0];
    let table = p.matrix(g, BIAS, c.buckets, c.heads);
    let bias = g.gather(table, ids, DType::F32); // [n, n, heads]
    let bias = g.permute(bias, &[2, 0, 1]); // [heads, n, n]
    let bias = g.reshape(bias, [1, c.heads, n, n]);
    match mask {
        Some(mask) => g.add(bias, mask), // [b, heads, n, n]
        None => bias,
    }
}

/// The row of the table for every pair of places: half of the rows for tokens before, half for
/// those behind, of which half are exact and the rest grow with the distance.
fn relative_rows(n: usize, buckets: usize) -> Vec<i32> {
    let side = buckets / 2;
    let exact = side / 2;
    // In f32, as the models were trained with: which row a distance has hangs on rounding.
    let row = |distance: usize| {
        if distance < exact {
            return distance;
        }
        let log = (distance as f64 / exact as f64).ln() as f32;
        let range = (MAX_DISTANCE / exact as f64).ln() as f32;
        let grown = log / range * (side - exact) as f32;
        (exact + grown as usize).min(side - 1)
    };
    let pairs = (0..n).flat_map(|from| (0..n).map(move |to| (from, to)));
    pairs
        .map(|(from, to)| row(to.abs_diff(from)) + if to > from { side } else { 0 })
        .map(|row| row as i32)
        .collect()
}
