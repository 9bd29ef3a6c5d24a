//! T5 v1.1 and UMT5 text encoders. Behavior: Hugging Face's `T5EncoderModel` and
//! `UMT5EncoderModel`, whose names are canonical.
//! Token ids `[b, n]` → hidden states `[b, n, d]`.

use crate::residual::Residual;
use crate::{Find, Params};
use nino_dtype::DType;
use nino_graph::{Act, Attention, Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub vocab: usize,
    pub width: usize,
    pub mlp: usize,
    pub heads: usize,
    /// Head dimension.
    pub head: usize,
    pub n_layers: usize,
    /// Number of relative position buckets, the rows of `relative_attention_bias`.
    pub buckets: usize,
    pub position_bias: PositionBias,
}

/// Which layers have a relative position bias of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PositionBias {
    /// The first; the others share it (T5).
    Shared,
    /// Every layer (UMT5).
    PerLayer,
}

/// Which hidden states the encoder returns, and the mask.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// 1 is the last layer, 2 the one before it. The final norm is always applied.
    pub skip: usize,
    /// Attention mask `[b, 1, 1, n]`, added to the scores: 0, or a large negative number for tokens
    /// to ignore. `None` ignores no token.
    pub mask: Option<Node>,
    /// Storage type of activations inside the layers. The hidden states between them are f32, or
    /// whatever the token embeddings are.
    pub layers: DType,
}

/// The embedding table. Its rows are gathered by id (see [`crate::is_table`]).
pub(crate) const TOKENS: &str = "shared.weight";
const BIAS: &str = "layer.0.SelfAttention.relative_attention_bias.weight";
const EPS: f32 = 1e-6;
/// All relative positions from this distance on share one bucket.
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
            position_bias: PositionBias::Shared,
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

    /// UMT5 of the same sizes. Wan's encoder is that of [`Config::xxl`].
    #[must_use]
    pub fn multilingual(self) -> Config {
        Config {
            vocab: 256_384,
            position_bias: PositionBias::PerLayer,
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
            position_bias: match layer(1, BIAS) {
                Some(_) => PositionBias::PerLayer,
                None => PositionBias::Shared,
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
        &relative_position_buckets(n, c.buckets),
    );
    let residual = Residual::new(want.layers);
    let mut h = residual.enter(g, x);
    let mut shared_bias = None;
    let stop = c.n_layers + 1 - want.skip.clamp(1, c.n_layers.max(1));
    for i in 0..stop {
        let p = &p.at(format_args!("encoder.block.{i}"));
        let bias = match shared_bias.filter(|_| c.position_bias == PositionBias::Shared) {
            Some(bias) => bias,
            None => attention_bias(g, p, c, ids, want.mask),
        };
        shared_bias = Some(bias);
        h = block(g, p, c, (h, bias), residual);
    }
    let weight = p.vector(g, "encoder.final_layer_norm.weight", c.width);
    g.rms_norm(h, Some(weight), residual.eps(EPS))
}

fn block(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    (x, bias): (Node, Node),
    residual: Residual,
) -> Node {
    let h = rms_norm(g, &p.at("layer.0"), c, x, residual);
    let h = self_attention(g, &p.at("layer.0.SelfAttention"), c, h, bias);
    let h = residual.out(g, h);
    let x = g.add(x, h);
    let h = rms_norm(g, &p.at("layer.1"), c, x, residual);
    let ff = p.at("layer.1.DenseReluDense");
    let gate = ff.linear_no_bias(g, "wi_0", h, c.mlp);
    let gate = g.act(gate, Act::GeluTanh);
    let h = ff.linear_no_bias(g, "wi_1", h, c.mlp);
    let h = residual.out(g, h);
    let h = g.mul(gate, h);
    let h = ff.linear_no_bias(g, "wo", h, c.width);
    let y = g.add(x, h);
    p.label(g, y)
}

fn rms_norm(g: &mut Graph, p: &Params, c: &Config, x: Node, residual: Residual) -> Node {
    let weight = p.vector(g, "layer_norm.weight", c.width);
    let h = g.rms_norm(x, Some(weight), residual.eps(EPS));
    residual.layer(g, h)
}

fn self_attention(g: &mut Graph, p: &Params, c: &Config, x: Node, bias: Node) -> Node {
    let (b, n, inner) = (g.shape(x)[0], g.shape(x)[1], c.heads * c.head);
    let [q, k, v] = ["q", "k", "v"].map(|name| {
        let y = p.linear_no_bias(g, name, x, inner);
        g.reshape(y, [b, n, c.heads, c.head]) // [b, n, heads, hd]
    });
    // T5 has no scale of 1/√hd: it is part of the trained weights.
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

/// The relative position bias of each head plus the mask, added to the attention scores.
fn attention_bias(g: &mut Graph, p: &Params, c: &Config, ids: Node, mask: Option<Node>) -> Node {
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

/// The relative position bucket of every pair of tokens. Half of the buckets are for keys before
/// the query, half for keys after it; in each, half are for exact distances, and the rest grow
/// logarithmically.
fn relative_position_buckets(n: usize, buckets: usize) -> Vec<i32> {
    let side = buckets / 2;
    let exact = side / 2;
    // In f32, as in training: the bucket of a distance depends on rounding.
    let bucket = |distance: usize| {
        if distance < exact {
            return distance;
        }
        let log = (distance as f64 / exact as f64).ln() as f32;
        let range = (MAX_DISTANCE / exact as f64).ln() as f32;
        let logarithmic = log / range * (side - exact) as f32;
        (exact + logarithmic as usize).min(side - 1)
    };
    let pairs = (0..n).flat_map(|query| (0..n).map(move |key| (query, key)));
    pairs
        .map(|(query, key)| bucket(key.abs_diff(query)) + if key > query { side } else { 0 })
        .map(|bucket| bucket as i32)
        .collect()
}
