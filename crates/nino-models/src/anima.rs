//! Anima by CircleStone Labs and Comfy Org, a transformer of Cosmos Predict2's kind.
//! Behaviour: ComfyUI's `Anima` and `MiniTrainDIT`; names are the authors'.
//! Latent `[b, h, w, 16]`, noise level `[b]`, text `[b, n, d]` and ids `[b, m]` → velocity
//! `[b, h, w, 16]`.
//!
//! ```text
//!   latent ── patches ── x_embedder ──────────────┬─ blocks ─ final_layer ── velocity
//!                                                 │ look at
//!   T5's ids ── llm_adapter ── 512 tokens ────────┘
//!                 │ looks at
//!   states of Qwen3
//! ```
//! The adapter turns what a small language model says into what a T5 would have said of the same
//! prompt, which the transformer was trained on.

mod adapter;
mod block;
pub(crate) mod lllite;

use crate::flux::patches;
use crate::{Find, Params};
pub(crate) use adapter::TOKENS;
use block::{Blocks, Level};
pub use lllite::{Control, ControlConfig};
use nino_dtype::DType;
use nino_graph::{Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Channels of the latent.
    pub channels: usize,
    /// Width of a token.
    pub dim: usize,
    /// Width of one head.
    pub head: usize,
    pub mlp: usize,
    /// Width of the layer between a noise level and the modulation of a block.
    pub lora: usize,
    /// Width of the text's tokens, as the language model and as the adapter give them.
    pub context_dim: usize,
    pub n_layers: usize,
    pub adapter: AdapterConfig,
}

/// The sizes of what stands between language model and transformer.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AdapterConfig {
    /// Rows of its table: T5's vocabulary.
    pub vocab: usize,
    /// Width of one head.
    pub head: usize,
    pub mlp: usize,
    pub n_layers: usize,
}

/// The words that ask, in T5's vocabulary.
#[derive(Clone, Copy, Debug)]
pub struct Queries {
    /// `[b, m]`, i32.
    pub ids: Node,
    /// How much each counts, `[b, m, 1]`.
    pub weights: Node,
}

/// What the network sees.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    /// `[b, h, w, channels]`
    pub x: Node,
    /// Noise levels from 0 to 1, `[b]`, f32.
    pub t: Node,
    /// The language model's states, `[b, n, context_dim]`.
    pub context: Node,
    /// The text is taken as it is without any.
    pub queries: Option<Queries>,
}

/// Pixels of the latent along one side of a token.
const PATCH: usize = 2;
/// Channels beside the latent's: a mask of what is padding, which pictures have none of.
const MASK: usize = 1;
/// The least number of tokens of the text.
const TOKENS_SEEN: usize = 512;
const EPS: f32 = 1e-6;

impl Config {
    pub fn published() -> Config {
        Config {
            channels: 16,
            dim: 2048,
            head: 128,
            mlp: 8192,
            lora: 256,
            context_dim: 1024,
            n_layers: 28,
            adapter: AdapterConfig {
                vocab: 32128,
                head: 64,
                mlp: 4096,
                n_layers: 6,
            },
        }
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not Anima.
    pub fn detect(find: &Find) -> Option<Config> {
        let matrix = |name: &str| match *find(name)?.0 {
            [rows, columns] => Some((rows, columns)),
            _ => None,
        };
        let vector = |name: &str| match *find(name)?.0 {
            [n] => Some(n),
            _ => None,
        };
        let count = |blocks: &str| {
            let name = |i: &usize| format!("{blocks}.{i}.cross_attn.q_proj.weight");
            (0..256).take_while(|i| find(&name(i)).is_some()).count()
        };
        let (vocab, context_dim) = matrix(TOKENS)?;
        let (dim, patch) = matrix("x_embedder.proj.1.weight")?;
        let head = vector("blocks.0.self_attn.q_norm.weight")?;
        let (mlp, _) = matrix("blocks.0.mlp.layer1.weight")?;
        let (lora, _) = matrix("blocks.0.adaln_modulation_mlp.1.weight")?;
        let channels = (patch / (PATCH * PATCH)).checked_sub(MASK)?;
        let adapter = AdapterConfig {
            vocab,
            head: vector("llm_adapter.blocks.0.self_attn.q_norm.weight")?,
            mlp: matrix("llm_adapter.blocks.0.mlp.0.weight")?.0,
            n_layers: count("llm_adapter.blocks"),
        };
        let divides = |width: usize, head: usize| {
            head > 0 && head.is_multiple_of(2) && width.is_multiple_of(head)
        };
        // Rows and columns each turn a third of a head, and at least two pairs of it.
        let fits = divides(dim, head) && head >= 12 && divides(context_dim, adapter.head);
        (fits && channels > 0 && context_dim > 0).then(|| Config {
            channels,
            dim,
            head,
            mlp,
            lora,
            context_dim,
            n_layers: count("blocks"),
            adapter,
        })
    }
}

/// `p` is the place of the transformer's names (`model.diffusion_model` in a checkpoint).
pub fn transformer(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    inputs: Inputs,
    controls: &[Control<'_>],
) -> Node {
    let [b, h, w] = [0, 1, 2].map(|axis| g.shape(inputs.x)[axis]);
    let dtype = g.dtype(inputs.x);
    let context = match inputs.queries {
        Some(queries) => {
            let text = adapter::adapter(g, &p.at("llm_adapter"), c, inputs.context, queries);
            padded(g, text)
        }
        None => inputs.context,
    };

    let (x, [rows, columns]) = patches(g, inputs.x);
    let mask = zeros(g, [b, rows * columns, MASK * PATCH * PATCH], dtype);
    let x = g.concat(&[x, mask], 2); // [b, n, (c + 1)·2·2]
    let x = p.linear_no_bias(g, "x_embedder.proj.1", x, c.dim);
    let x = p.at("x_embedder").label(g, x);

    let t = g.timestep_embed(inputs.t, c.dim);
    let t = g.cast(t, dtype);
    let shared = p.linear_no_bias(g, "t_embedder.1.linear_1", t, c.dim);
    let shared = g.silu(shared);
    let shared = p.linear_no_bias(g, "t_embedder.1.linear_2", shared, 3 * c.dim);
    let weight = p.vector(g, "t_embedding_norm.weight", c.dim);
    let t = g.rms_norm(t, Some(weight), EPS);
    let t = p.at("t_embedding_norm").label(g, t);
    let level = Level {
        t: g.silu(t), // [b, d]
        shared,       // [b, 3d]
    };

    // The tokens grow beyond f16, what is made of them does not: like ComfyUI, f16 has them in f32.
    let wide = if dtype == DType::F16 {
        DType::F32
    } else {
        dtype
    };
    let mut x = g.cast(x, wide);
    let blocks = Blocks {
        config: c,
        level,
        context,
        table: table(g, c, [rows, columns]),
        dtype,
        controls,
    };
    for i in 0..c.n_layers {
        x = blocks.block(g, &p.at(format_args!("blocks.{i}")), i, x);
    }

    let last = &p.at("final_layer");
    let width = 2 * c.dim;
    let told = block::told(g, last, c, "adaln_modulation", level.t, width);
    let shared = g.slice(shared, 1, 0, width);
    let told = g.add(told, shared);
    let parts = g.split(told, 1, 2);
    let x = block::norm(g, x, [parts[0], parts[1]]);
    let x = g.cast(x, dtype);
    let x = last.linear_no_bias(g, "linear", x, c.channels * PATCH * PATCH);
    let x = g.reshape(x, [b, rows, columns, PATCH, PATCH, c.channels]);
    let x = g.permute(x, &[0, 1, 3, 2, 4, 5]); // [b, rows, 2, columns, 2, c]
    let x = g.reshape(x, [b, rows * PATCH, columns * PATCH, c.channels]);
    let x = g.slice(x, 1, 0, h);
    g.slice(x, 2, 0, w)
}

fn zeros(g: &mut Graph, shape: [usize; 3], dtype: DType) -> Node {
    let values = vec![0.0; shape.iter().product()];
    let zeros = g.constant(&format!("zeros {shape:?}"), shape, &values);
    g.cast(zeros, dtype)
}

/// Zeros behind tokens `[b, n, d]` that are fewer than the transformer was trained on.
fn padded(g: &mut Graph, x: Node) -> Node {
    let [b, n, d] = [0, 1, 2].map(|axis| g.shape(x)[axis]);
    let Some(more) = TOKENS_SEEN.checked_sub(n).filter(|&more| more > 0) else {
        return x;
    };
    let zeros = zeros(g, [b, more, d], g.dtype(x));
    g.concat(&[x, zeros], 1)
}

/// Where tokens are: `[n, head/2, 2]` of cosine and sine. The first third of a head turns with the
/// frame, of which a picture has one; the others with row and column, more slowly than the model
/// was first trained with. Angles are products in f32, as in ComfyUI.
fn table(g: &mut Graph, c: &Config, [rows, columns]: [usize; 2]) -> Node {
    const THETA: f64 = 10000.0;
    const LARGER: f64 = 4.0;
    let side = c.head / 6 * 2;
    let theta = THETA * LARGER.powf(side as f64 / (side as f64 - 2.0));
    let frequency = |i: usize| 1.0 / (theta as f32).powf((2 * i) as f32 / side as f32);
    let frequencies: Vec<f32> = (0..side / 2).map(frequency).collect();
    let frames = (c.head - 2 * side) / 2;
    let mut values = Vec::with_capacity(rows * columns * c.head);
    for place in 0..rows * columns {
        values.extend([1.0, 0.0].repeat(frames));
        for at in [place / columns, place % columns] {
            for f in &frequencies {
                let angle = f64::from(at as f32 * f);
                values.extend([angle.cos() as f32, angle.sin() as f32]);
            }
        }
    }
    let name = format!("rotations of {rows}x{columns}, heads of {}", c.head);
    g.constant(&name, [rows * columns, c.head / 2, 2], &values)
}
