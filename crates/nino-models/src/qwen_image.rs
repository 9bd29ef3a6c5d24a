//! Qwen-Image and Qwen-Image-Edit (2509, 2511) by Alibaba's Qwen team.
//! Behavior: ComfyUI's `QwenImageTransformer2DModel`; names are the authors'.
//! Latent `[b, h, w, 16]`, timestep `[b]`, text `[b, n, d]` → velocity `[b, h, w, 16]`.
//!
//! ```text
//!   latent, reference latents ── patchify ── img_in ───┐
//!                                                      ├─ transformer_blocks ─ norm_out ─ proj_out
//!   text ─────────────────────── txt_norm ── txt_in ───┘
//! ```
//! The blocks are double stream blocks as in Flux.1, with separate layers for queries, keys and
//! values. In the model of 2511 the reference tokens are at timestep 0.

mod block;
mod blockwise;
mod control;
mod positions;

use crate::flux::{add_at, modulated, patchify};
use crate::mods::Mods;
use crate::{Find, Params};
use block::{BlockArgs, Mod, block};
pub use blockwise::{Blockwise, BlockwiseConfig};
pub use control::{ControlConfig, Residuals, control};
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
    /// Width of the text embeddings.
    pub context_dim: usize,
    pub n_layers: usize,
    /// Whether reference tokens are at timestep 0 unless the conditioning says otherwise
    /// (`ReferenceMethod::IndexTimestepZero`). Files mark it with an empty tensor,
    /// [`INDEX_TIMESTEP_ZERO`].
    pub index_timestep_zero: bool,
}

/// The inputs of the network.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// `[b, h, w, channels]`
    pub x: Node,
    /// Timesteps (sigmas) from 0 to 1, `[b]`, f32.
    pub t: Node,
    /// Text embeddings, `[b, n, context_dim]`.
    pub context: Node,
    /// Reference latents, `[b, h, w, channels]` each.
    pub references: &'a [Node],
    /// Whether the reference tokens are modulated for timestep 0 instead of `t`.
    pub references_at_zero: bool,
}

/// The empty tensor that marks files of models with [`Config::index_timestep_zero`].
pub const INDEX_TIMESTEP_ZERO: &str = "__index_timestep_zero__";
/// Patch size: latent pixels along one side of a token.
const PATCH: usize = 2;
/// Width of the sinusoidal embedding of a timestep.
const FREQ_DIM: usize = 256;
/// Timesteps are embedded in thousandths.
const TIME_FACTOR: f32 = 1000.0;
const EPS: f32 = 1e-6;

impl Config {
    /// The sizes of all published models.
    pub fn published() -> Config {
        Config {
            channels: 16,
            dim: 3072,
            head: 128,
            mlp: 12288,
            context_dim: 3584,
            n_layers: 60,
            index_timestep_zero: false,
        }
    }

    /// The same with reference tokens at timestep 0.
    #[must_use]
    pub fn with_index_timestep_zero(self) -> Config {
        Config {
            index_timestep_zero: true,
            ..self
        }
    }

    pub fn heads(&self) -> usize {
        self.dim / self.head.max(1)
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not Qwen-Image.
    pub fn detect(find: &Find) -> Option<Config> {
        let matrix = |name: &str| match *find(name)?.0 {
            [rows, columns] => Some((rows, columns)),
            _ => None,
        };
        let exists = |i: usize| find(&format!("transformer_blocks.{i}.img_mod.1.weight")).is_some();
        find("txt_norm.weight")?;
        let (dim, patch) = matrix("img_in.weight")?;
        let (_, context_dim) = matrix("txt_in.weight")?;
        let (mlp, _) = matrix("transformer_blocks.0.img_mlp.net.0.proj.weight")?;
        let [head] = *find("transformer_blocks.0.attn.norm_q.weight")?.0 else {
            return None;
        };
        let config = Config {
            channels: patch / (PATCH * PATCH),
            dim,
            head,
            mlp,
            context_dim,
            n_layers: (0..256).take_while(|&i| exists(i)).count(),
            index_timestep_zero: false,
        };
        // The RoPE axes have an eighth of the head dimension, and half of the rest each.
        let fits = head > 0 && head.is_multiple_of(16) && dim.is_multiple_of(head);
        (fits && config.channels > 0).then_some(config)
    }
}

/// What ControlNets add to the image tokens.
#[derive(Default)]
pub struct Added<'a> {
    pub residuals: Vec<Residuals>,
    pub blockwise: Vec<Blockwise<'a>>,
}

/// `p` is at the transformer's prefix (`model.diffusion_model` in a checkpoint).
pub fn transformer(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    inputs: Inputs<'_>,
    added: &Added<'_>,
) -> Node {
    let [b, h, w] = [0, 1, 2].map(|axis| g.shape(inputs.x)[axis]);
    let n_txt = g.shape(inputs.context)[1];
    let (x, [rows, columns]) = patchify(g, inputs.x);
    let (mut tokens, mut sizes) = (vec![x], vec![[rows, columns]]);
    for &reference in inputs.references {
        let (x, size) = patchify(g, reference);
        tokens.push(x);
        sizes.push(size);
    }
    let x = g.concat(&tokens, 1); // [b, n_img, c·2·2]
    let mut img = p.linear(g, "img_in", x, c.dim);
    let mut txt = text(g, p, c, inputs.context);

    let dtype = g.dtype(inputs.x);
    let temb = time_embedding(g, p, c, inputs.t, dtype);
    let temb_zero = (inputs.references_at_zero && !inputs.references.is_empty()).then(|| {
        let zero = g.affine(inputs.t, 0.0, 0.0);
        time_embedding(g, p, c, zero, dtype)
    });
    let rope = positions::rope_table(g, c, n_txt, &sizes);
    let block_at = |i: usize| p.at(format_args!("transformer_blocks.{i}"));
    // The modulations of all blocks are recorded first, as in Flux.1: many small GEMMs keep a
    // device busy.
    let mods: Vec<[Mods<Mod>; 2]> = (0..c.n_layers)
        .map(|i| {
            let mut mods = |stream: &str, temb_zero: Option<Node>| Mods {
                at_t: block::modulation(g, &block_at(i), c, stream, temb),
                at_zero: temb_zero.map(|t| block::modulation(g, &block_at(i), c, stream, t)),
                n_at_t: rows * columns,
            };
            [mods("img", temb_zero), mods("txt", None)]
        })
        .collect();
    for (i, mods) in mods.into_iter().enumerate() {
        (img, txt) = block(g, &block_at(i), c, [img, txt], BlockArgs { mods, rope });
        for control in &added.blockwise {
            if let Some(residual) = control.after(g, i, img) {
                img = add_at(g, img, 0, residual);
            }
        }
        for residual in added.residuals.iter().filter_map(|one| one.after(i)) {
            img = add_at(g, img, 0, residual);
        }
    }

    let img = g.slice(img, 1, 0, rows * columns);
    let scale_shift = p.linear(g, "norm_out.linear", temb, 2 * c.dim);
    let scale_shift = g.split(scale_shift, 1, 2);
    let x = modulated(g, img, scale_shift[1], scale_shift[0]);
    let width = c.channels * PATCH * PATCH;
    let x = p.linear(g, "proj_out", x, width);
    let x = g.reshape(x, [b, rows, columns, width]);
    let x = g.pixel_shuffle(x, PATCH); // [b, h, w, c]
    let x = g.slice(x, 1, 0, h);
    g.slice(x, 2, 0, w)
}

/// Text tokens, `[b, n, d]`.
fn text(g: &mut Graph, p: &Params, c: &Config, context: Node) -> Node {
    let weight = p.vector(g, "txt_norm.weight", c.context_dim);
    let txt = g.rms_norm(context, Some(weight), EPS);
    p.linear(g, "txt_in", txt, c.dim)
}

/// SiLU of the embedding `[b, d]` of timesteps: the input of every modulation.
fn time_embedding(g: &mut Graph, p: &Params, c: &Config, t: Node, dtype: DType) -> Node {
    let p = &p.at("time_text_embed.timestep_embedder");
    let t = g.affine(t, TIME_FACTOR, 0.0);
    let t = g.timestep_embed(t, FREQ_DIM);
    let t = g.cast(t, dtype);
    let h = p.linear(g, "linear_1", t, c.dim);
    let h = g.silu(h);
    let h = p.linear(g, "linear_2", h, c.dim);
    g.silu(h)
}
