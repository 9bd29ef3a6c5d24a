//! Anima by CircleStone Labs and Comfy Org, a transformer with the architecture of Cosmos Predict2.
//! Behavior: ComfyUI's `Anima` and `MiniTrainDIT`; names are the authors'.
//! Latent `[b, h, w, 16]`, timestep `[b]`, text `[b, n, d]` and T5 token ids `[b, m]` → velocity
//! `[b, h, w, 16]`.
//!
//! ```text
//!   latent ── patchify ── x_embedder ─────────────── blocks ─ final_layer ── velocity
//!                                                    ▲
//!   T5 token ids ── llm_adapter ── text tokens ──────┘ (cross-attention)
//!                   ▲
//!   Qwen3 states ───┘ (cross-attention)
//! ```
//! The transformer was trained with T5 embeddings. The adapter computes their equivalent from the
//! hidden states of Qwen3, with the prompt's T5 tokens as queries.

mod adapter;
mod block;
pub(crate) mod lllite;

use crate::flux::patchify;
use crate::{Find, Params};
pub(crate) use adapter::TOKENS;
use block::{Blocks, TimeEmbedding};
pub use lllite::{Control, ControlConfig};
use nino_dtype::DType;
use nino_graph::{Graph, Node};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Channels of the latent.
    pub channels: usize,
    /// Width of a token.
    pub dim: usize,
    /// Head dimension.
    pub head: usize,
    pub mlp: usize,
    /// Rank of the low-rank layers that compute the modulations (adaLN-LoRA).
    pub adaln_lora_dim: usize,
    /// Width of the text embeddings, of the language model and of the adapter.
    pub context_dim: usize,
    pub n_layers: usize,
    pub adapter: AdapterConfig,
}

/// Hyperparameters of `llm_adapter`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AdapterConfig {
    /// Size of T5's vocabulary.
    pub vocab: usize,
    /// Head dimension.
    pub head: usize,
    pub mlp: usize,
    pub n_layers: usize,
}

/// The prompt's T5 tokens, the queries of the adapter.
#[derive(Clone, Copy, Debug)]
pub struct T5Tokens {
    /// Token ids `[b, m]`, i32.
    pub ids: Node,
    /// Prompt weights of the tokens, `[b, m, 1]`.
    pub weights: Node,
}

/// The inputs of the network.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    /// `[b, h, w, channels]`
    pub x: Node,
    /// Timesteps (sigmas) from 0 to 1, `[b]`, f32.
    pub t: Node,
    /// Hidden states of the language model, `[b, n, context_dim]`.
    pub context: Node,
    /// Without T5 tokens, `context` is used directly, without the adapter.
    pub t5_tokens: Option<T5Tokens>,
}

/// Patch size: latent pixels along one side of a token.
const PATCH: usize = 2;
/// Channels concatenated to the latent: a padding mask, which is zero for images.
const MASK: usize = 1;
/// The adapter's output is padded with zeros to at least this many tokens.
const MIN_TOKENS: usize = 512;
const EPS: f32 = 1e-6;

impl Config {
    pub fn published() -> Config {
        Config {
            channels: 16,
            dim: 2048,
            head: 128,
            mlp: 8192,
            adaln_lora_dim: 256,
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
        let (adaln_lora_dim, _) = matrix("blocks.0.adaln_modulation_mlp.1.weight")?;
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
        // The RoPE axes of rows and of columns have a third of the head dimension each, at least
        // two pairs.
        let fits = divides(dim, head) && head >= 12 && divides(context_dim, adapter.head);
        (fits && channels > 0 && context_dim > 0).then(|| Config {
            channels,
            dim,
            head,
            mlp,
            adaln_lora_dim,
            context_dim,
            n_layers: count("blocks"),
            adapter,
        })
    }
}

/// `p` is at the transformer's prefix (`model.diffusion_model` in a checkpoint).
pub fn transformer(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    inputs: Inputs,
    controls: &[Control<'_>],
) -> Node {
    let [b, h, w] = [0, 1, 2].map(|axis| g.shape(inputs.x)[axis]);
    let dtype = g.dtype(inputs.x);
    let context = match inputs.t5_tokens {
        Some(tokens) => {
            let text = adapter::adapter(g, &p.at("llm_adapter"), c, inputs.context, tokens);
            pad_tokens(g, text)
        }
        None => inputs.context,
    };

    let (x, [rows, columns]) = patchify(g, inputs.x);
    let mask = zeros(g, [b, rows * columns, MASK * PATCH * PATCH], dtype);
    let x = g.concat(&[x, mask], 2); // [b, n, (c + 1)·2·2]
    let x = p.linear_no_bias(g, "x_embedder.proj.1", x, c.dim);
    let x = p.at("x_embedder").label(g, x);

    let t = g.timestep_embed(inputs.t, c.dim);
    let t = g.cast(t, dtype);
    let adaln_lora = p.linear_no_bias(g, "t_embedder.1.linear_1", t, c.dim);
    let adaln_lora = g.silu(adaln_lora);
    let adaln_lora = p.linear_no_bias(g, "t_embedder.1.linear_2", adaln_lora, 3 * c.dim);
    let weight = p.vector(g, "t_embedding_norm.weight", c.dim);
    let t = g.rms_norm(t, Some(weight), EPS);
    let t = p.at("t_embedding_norm").label(g, t);
    let time = TimeEmbedding {
        t: g.silu(t), // [b, d]
        adaln_lora,   // [b, 3d]
    };

    // The residual stream exceeds f16, the outputs of the branches do not. As in ComfyUI, the
    // stream is stored in f32 when the branches compute in f16.
    let stream_dtype = if dtype == DType::F16 {
        DType::F32
    } else {
        dtype
    };
    let mut x = g.cast(x, stream_dtype);
    let blocks = Blocks {
        config: c,
        time,
        context,
        rope: rope_table(g, c, [rows, columns]),
        dtype,
        controls,
    };
    for i in 0..c.n_layers {
        x = blocks.block(g, &p.at(format_args!("blocks.{i}")), i, x);
    }

    let last = &p.at("final_layer");
    let width = 2 * c.dim;
    let modulation = block::modulation(g, last, c, "adaln_modulation", time.t, width);
    let adaln_lora = g.slice(adaln_lora, 1, 0, width);
    let modulation = g.add(modulation, adaln_lora);
    let shift_scale = g.split(modulation, 1, 2);
    let x = block::norm(g, x, [shift_scale[0], shift_scale[1]]);
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

/// Pads tokens `[b, n, d]` with zeros to [`MIN_TOKENS`].
fn pad_tokens(g: &mut Graph, x: Node) -> Node {
    let [b, n, d] = [0, 1, 2].map(|axis| g.shape(x)[axis]);
    let Some(more) = MIN_TOKENS.checked_sub(n).filter(|&more| more > 0) else {
        return x;
    };
    let zeros = zeros(g, [b, more, d], g.dtype(x));
    g.concat(&[x, zeros], 1)
}

/// RoPE table `[n, hd/2, 2]` of cosine and sine. The axes are frame, row and column; an image has
/// one frame. Rows and columns have an NTK-scaled base. Angles are products in f32, as in ComfyUI.
fn rope_table(g: &mut Graph, c: &Config, [rows, columns]: [usize; 2]) -> Node {
    const THETA: f64 = 10000.0;
    const NTK_FACTOR: f64 = 4.0;
    let side_dim = c.head / 6 * 2;
    let theta = THETA * NTK_FACTOR.powf(side_dim as f64 / (side_dim as f64 - 2.0));
    let frequency = |i: usize| 1.0 / (theta as f32).powf((2 * i) as f32 / side_dim as f32);
    let frequencies: Vec<f32> = (0..side_dim / 2).map(frequency).collect();
    let frame_pairs = (c.head - 2 * side_dim) / 2;
    let mut values = Vec::with_capacity(rows * columns * c.head);
    for token in 0..rows * columns {
        values.extend([1.0, 0.0].repeat(frame_pairs));
        for position in [token / columns, token % columns] {
            for f in &frequencies {
                let angle = f64::from(position as f32 * f);
                values.extend([angle.cos() as f32, angle.sin() as f32]);
            }
        }
    }
    let name = format!("rotations of {rows}x{columns}, heads of {}", c.head);
    g.constant(&name, [rows * columns, c.head / 2, 2], &values)
}
