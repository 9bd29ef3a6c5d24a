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
pub(crate) use block::Looked;
use block::{Attended, Mods, Told, double_block, single_block};
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
    /// Whether those are told that they have no noise.
    pub clean: bool,
    /// Keys and values of such latents in every block, in their place.
    pub kept: &'a [Looked],
}

/// Sinusoids of a noise level or a guidance.
const SINUSOIDS: usize = 256;
const THOUSAND: f32 = 1000.0;

/// `p` is the place of the transformer's names (`model.diffusion_model` in a checkpoint). Gives the
/// velocity and, of clean latents to look at, the keys and values in every block.
pub fn transformer(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    inputs: Inputs<'_>,
) -> (Node, Vec<Looked>) {
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
    let n_clean = if inputs.clean {
        sizes[1..].iter().map(|[h, w]| h * w).sum()
    } else {
        0
    };
    let now = vec(g, p, c, inputs, inputs.t);
    let clean = (n_clean > 0).then(|| {
        let none = g.affine(inputs.t, 0.0, 0.0);
        vec(g, p, c, inputs, none)
    });
    let mods = |g: &mut Graph, name: &str, of: usize, clean: Option<Node>| -> Vec<Mods> {
        let mut parts = |vec: Node| {
            let all = p.linear_no_bias(g, name, vec, of * c.hidden);
            g.split(all, 1, of)
        };
        let (now, clean) = (parts(now), clean.map(&mut parts));
        let half = |i: usize| {
            let clean = clean.as_ref().map(|parts| (&parts[i..i + 3], n_clean));
            Mods::of(&now[i..i + 3], clean)
        };
        (0..of).step_by(3).map(half).collect()
    };
    let both = [("img", clean), ("txt", None)].map(|(stream, clean)| {
        let name = format!("double_stream_modulation_{stream}.lin");
        let halves = mods(g, &name, 6, clean);
        [halves[0], halves[1]]
    });
    let table = positions::table(g, c, n_txt, &sizes);
    let attended = |block: usize| Attended {
        table,
        kept: inputs.kept.get(block).copied(),
        wanted: n_clean,
    };
    let mut looked = Vec::new();
    for i in 0..c.depth {
        let p = &p.at(format_args!("double_blocks.{i}"));
        let told = Told {
            mods: both,
            attended: attended(i),
        };
        let made;
        ([img, txt], made) = double_block(g, p, c, [img, txt], told);
        looked.push(made);
    }
    let mut x = g.concat(&[txt, img], 1); // [b, n_txt + n_img, d]
    let mods = mods(g, "single_stream_modulation.lin", 3, clean)[0];
    for i in 0..c.depth_single {
        let p = &p.at(format_args!("single_blocks.{i}"));
        let made;
        (x, made) = single_block(g, p, c, x, mods, attended(c.depth + i));
        looked.push(made);
    }
    let img = g.slice(x, 1, n_txt, n_txt + shape[1] * shape[2]);
    let last = p.linear_no_bias(g, "final_layer.adaLN_modulation.1", now, 2 * c.hidden);
    let last = g.split(last, 1, 2);
    let x = modulated(g, img, last[0], last[1]);
    let x = p.linear_no_bias(g, "final_layer.linear", x, c.channels);
    if n_clean == 0 {
        looked.clear();
    }
    (g.reshape(x, shape), looked)
}

/// `[b, h, w, c]` → `[b, h·w, c]`
fn as_tokens(g: &mut Graph, x: Node) -> Node {
    let shape = g.shape(x);
    g.reshape(x, [shape[0], shape[1] * shape[2], shape[3]])
}

/// The embedding of a noise level and of the guidance that all modulations start from, after their
/// SiLU.
fn vec(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs<'_>, level: Node) -> Node {
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
    let mut vec = embedded("time_in", level);
    if let Some(guidance) = inputs.guidance {
        let told = embedded("guidance_in", guidance);
        vec = g.add(vec, told);
    }
    g.silu(vec)
}
