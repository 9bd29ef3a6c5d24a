//! Qwen-Image and Qwen-Image-Edit (2509, 2511) by Alibaba's Qwen team.
//! Behaviour: ComfyUI's `QwenImageTransformer2DModel`; names are the authors'.
//! Latent `[b, h, w, 16]`, noise level `[b]`, text `[b, n, d]` → velocity `[b, h, w, 16]`.
//!
//! ```text
//!   latent, pictures to look at ── patches ── img_in ──┐
//!                                                      ├─ transformer_blocks ─ norm_out ─ proj_out
//!   text ─────────────────────── txt_norm ── txt_in ───┘
//! ```
//! Blocks are the double blocks of Flux.1 with layers for queries, keys and values of their own.
//! The model of 2511 sees pictures to look at as free of noise.

mod block;
mod blockwise;
mod control;
mod positions;

use crate::flux::{modulated, patches};
use crate::mods::Mods;
use crate::{Find, Params};
use block::{Mod, Told, block};
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
    /// Width of one head.
    pub head: usize,
    pub mlp: usize,
    /// Width of the text's tokens.
    pub context_dim: usize,
    pub n_layers: usize,
    /// Whether it is told that pictures to look at have no noise, unless a prompt says otherwise.
    /// No weight says so: files have an empty tensor for it, [`CLEAN`].
    pub clean_references: bool,
}

/// What the network sees.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// `[b, h, w, channels]`
    pub x: Node,
    /// Noise levels from 0 to 1, `[b]`, f32.
    pub t: Node,
    /// The text, `[b, n, context_dim]`.
    pub context: Node,
    /// Latents to look at, `[b, h, w, channels]` each.
    pub references: &'a [Node],
    /// Whether it is told that they have no noise.
    pub clean: bool,
}

/// An empty tensor in files of models that are told so ([`Config::clean_references`]).
pub const CLEAN: &str = "__index_timestep_zero__";
/// Pixels of the latent along one side of a token.
const PATCH: usize = 2;
/// Length of the sinusoidal embedding of a noise level.
const SINUSOIDS: usize = 256;
const THOUSAND: f32 = 1000.0;
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
            clean_references: false,
        }
    }

    /// The same model, told that pictures to look at have no noise.
    #[must_use]
    pub fn with_clean_references(self) -> Config {
        Config {
            clean_references: true,
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
        let there = |i: usize| find(&format!("transformer_blocks.{i}.img_mod.1.weight")).is_some();
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
            n_layers: (0..256).take_while(|&i| there(i)).count(),
            clean_references: false,
        };
        // The rotary axes are an eighth of a head, and halves of the rest.
        let fits = head > 0 && head.is_multiple_of(16) && dim.is_multiple_of(head);
        (fits && config.channels > 0).then_some(config)
    }
}

/// What `ControlNet`s add.
#[derive(Default)]
pub struct Added<'a> {
    pub residuals: Vec<Residuals>,
    pub blockwise: Vec<Blockwise<'a>>,
}

/// `p` is the place of the transformer's names (`model.diffusion_model` in a checkpoint).
pub fn transformer(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    inputs: Inputs<'_>,
    added: &Added<'_>,
) -> Node {
    let [b, h, w] = [0, 1, 2].map(|axis| g.shape(inputs.x)[axis]);
    let n_txt = g.shape(inputs.context)[1];
    let (x, [rows, columns]) = patches(g, inputs.x);
    let (mut tokens, mut sizes) = (vec![x], vec![[rows, columns]]);
    for &reference in inputs.references {
        let (x, size) = patches(g, reference);
        tokens.push(x);
        sizes.push(size);
    }
    let x = g.concat(&tokens, 1); // [b, n_img, c·2·2]
    let mut img = p.linear(g, "img_in", x, c.dim);
    let mut txt = text(g, p, c, inputs.context);

    let dtype = g.dtype(inputs.x);
    let t = embedded(g, p, c, inputs.t, dtype);
    let clean = (inputs.clean && !inputs.references.is_empty()).then(|| {
        let zero = g.affine(inputs.t, 0.0, 0.0);
        embedded(g, p, c, zero, dtype)
    });
    let table = positions::table(g, c, n_txt, &sizes);
    let at = |i: usize| p.at(format_args!("transformer_blocks.{i}"));
    // Of all blocks at first, as in Flux.1: many small products keep a device busy.
    let mods: Vec<[Mods<Mod>; 2]> = (0..c.n_layers)
        .map(|i| {
            let mut of = |stream: &str, t: Node, clean: Option<Node>| Mods {
                noisy: block::mods(g, &at(i), c, stream, t),
                clean: clean.map(|t| block::mods(g, &at(i), c, stream, t)),
                n_noisy: rows * columns,
            };
            [of("img", t, clean), of("txt", t, None)]
        })
        .collect();
    for (i, mods) in mods.into_iter().enumerate() {
        (img, txt) = block(g, &at(i), c, [img, txt], Told { mods, table });
        for one in &added.blockwise {
            if let Some(residual) = one.behind(g, i, img) {
                img = with_first(g, img, residual);
            }
        }
        for residual in added.residuals.iter().filter_map(|one| one.behind(i)) {
            img = with_first(g, img, residual);
        }
    }

    let img = g.slice(img, 1, 0, rows * columns);
    let last = p.linear(g, "norm_out.linear", t, 2 * c.dim);
    let last = g.split(last, 1, 2);
    let x = modulated(g, img, last[1], last[0]);
    let width = c.channels * PATCH * PATCH;
    let x = p.linear(g, "proj_out", x, width);
    let x = g.reshape(x, [b, rows, columns, width]);
    let x = g.pixel_shuffle(x, PATCH); // [b, h, w, c]
    let x = g.slice(x, 1, 0, h);
    g.slice(x, 2, 0, w)
}

/// The text's tokens, `[b, n, d]`.
fn text(g: &mut Graph, p: &Params, c: &Config, context: Node) -> Node {
    let weight = p.vector(g, "txt_norm.weight", c.context_dim);
    let txt = g.rms_norm(context, Some(weight), EPS);
    p.linear(g, "txt_in", txt, c.dim)
}

/// Tokens with values added to the first of them.
fn with_first(g: &mut Graph, x: Node, added: Node) -> Node {
    let (n, first) = (g.shape(x)[1], g.shape(added)[1]);
    if n == first {
        return g.add(x, added);
    }
    let (head, rest) = (g.slice(x, 1, 0, first), g.slice(x, 1, first, n));
    let head = g.add(head, added);
    g.concat(&[head, rest], 1)
}

/// The embedding `[b, d]` of noise levels that all modulations start from, after their SiLU.
fn embedded(g: &mut Graph, p: &Params, c: &Config, t: Node, dtype: DType) -> Node {
    let p = &p.at("time_text_embed.timestep_embedder");
    let t = g.affine(t, THOUSAND, 0.0);
    let t = g.timestep_embed(t, SINUSOIDS);
    let t = g.cast(t, dtype);
    let h = p.linear(g, "linear_1", t, c.dim);
    let h = g.silu(h);
    let h = p.linear(g, "linear_2", h, c.dim);
    g.silu(h)
}
