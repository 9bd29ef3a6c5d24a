//! Flux.2 by Black Forest Labs (klein 4B and 9B, distilled and base; dev).
//! Behaviour: ComfyUI's `Flux` with one modulation for all blocks; names are the authors'.
//! Latent `[b, h, w, 128]`, noise level `[b]`, text `[b, n, d]` → velocity `[b, h, w, 128]`.
//!
//! The blocks are those of Flux.1 (see `flux.rs`) with these differences: a pixel of the latent is
//! a token, layers have no biases, MLPs are gated (SwiGLU), all blocks of a kind share one
//! modulation, and text tokens have rotary positions.

mod block;
mod config;
mod positions;

pub use config::Config;

use crate::Params;
use crate::flux::modulated;
use block::{Mod, Told, double_block, single_block};
use nino_graph::{Graph, Node};

/// What the network sees.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// `[b, h, w, channels]`
    pub x: Node,
    /// Noise levels from 0 to 1, `[b]`, f32.
    pub t: Node,
    /// The text, `[b, n, context_dim]`.
    pub context: Node,
    /// `[b]`, f32. Given exactly when the config takes guidance.
    pub guidance: Option<Node>,
    /// Latents to look at, `[b, h, w, channels]` each.
    pub references: &'a [Node],
}

/// Sinusoids of a noise level or a guidance.
const SINUSOIDS: usize = 256;
const THOUSAND: f32 = 1000.0;

/// `p` is the place of the transformer's names (`model.diffusion_model` in a checkpoint).
pub fn transformer(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs<'_>) -> Node {
    let shape = g.shape(inputs.x);
    let n_txt = g.shape(inputs.context)[1];
    let latents: Vec<Node> = std::iter::once(inputs.x)
        .chain(inputs.references.iter().copied())
        .collect();
    let sizes: Vec<[usize; 2]> = latents
        .iter()
        .map(|&x| [g.shape(x)[1], g.shape(x)[2]])
        .collect();
    let tokens: Vec<Node> = latents.iter().map(|&x| as_tokens(g, x)).collect();
    let x = g.concat(&tokens, 1); // [b, n_img, c]

    let mut img = p.linear_no_bias(g, "img_in", x, c.hidden);
    let mut txt = p.linear_no_bias(g, "txt_in", inputs.context, c.hidden);
    let vec = vec(g, p, c, inputs);
    let table = positions::table(g, c, n_txt, &sizes);
    let both = ["img", "txt"].map(|stream| {
        let name = format!("double_stream_modulation_{stream}.lin");
        let all = p.linear_no_bias(g, &name, vec, 6 * c.hidden);
        let parts = g.split(all, 1, 6);
        [Mod::of(&parts[..3]), Mod::of(&parts[3..])]
    });
    let told = Told { mods: both, table };
    for i in 0..c.depth {
        let p = &p.at(format_args!("double_blocks.{i}"));
        (img, txt) = double_block(g, p, c, [img, txt], told);
    }
    let mut x = g.concat(&[txt, img], 1); // [b, n_txt + n_img, d]
    let mods = p.linear_no_bias(g, "single_stream_modulation.lin", vec, 3 * c.hidden);
    let mods = Mod::of(&g.split(mods, 1, 3));
    for i in 0..c.depth_single {
        let p = &p.at(format_args!("single_blocks.{i}"));
        x = single_block(g, p, c, x, mods, table);
    }
    let img = g.slice(x, 1, n_txt, n_txt + shape[1] * shape[2]);
    let last = p.linear_no_bias(g, "final_layer.adaLN_modulation.1", vec, 2 * c.hidden);
    let last = g.split(last, 1, 2);
    let x = modulated(g, img, last[0], last[1]);
    let x = p.linear_no_bias(g, "final_layer.linear", x, c.channels);
    g.reshape(x, shape)
}

/// `[b, h, w, c]` → `[b, h·w, c]`
fn as_tokens(g: &mut Graph, x: Node) -> Node {
    let shape = g.shape(x);
    g.reshape(x, [shape[0], shape[1] * shape[2], shape[3]])
}

/// The embedding of noise level and guidance that all modulations start from, after their SiLU.
fn vec(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs<'_>) -> Node {
    let dtype = g.dtype(inputs.x);
    let mut embedded = |name: &str, number: Node| {
        let number = g.affine(number, THOUSAND, 0.0);
        let number = g.timestep_embed(number, SINUSOIDS);
        let number = g.cast(number, dtype);
        let p = &p.at(name);
        let h = p.linear_no_bias(g, "in_layer", number, c.hidden);
        let h = g.silu(h);
        p.linear_no_bias(g, "out_layer", h, c.hidden)
    };
    let mut vec = embedded("time_in", inputs.t);
    if let Some(guidance) = inputs.guidance {
        let told = embedded("guidance_in", guidance);
        vec = g.add(vec, told);
    }
    g.silu(vec)
}
