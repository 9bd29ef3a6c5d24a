//! Flux.2 by Black Forest Labs (klein 4B and 9B, distilled and base; dev).
//! Behavior: ComfyUI's `Flux` with one modulation for all blocks; names are the authors'.
//! Latent `[b, h, w, 128]`, timestep `[b]`, text `[b, n, d]` → velocity `[b, h, w, 128]`.
//!
//! The blocks are those of Flux.1 (see `flux.rs`) with these differences: the patch size is 1,
//! layers have no biases, MLPs are gated (SwiGLU), all blocks of a kind share one modulation, and
//! text tokens have positions of their own (RoPE).

mod block;
mod config;
mod positions;

pub use config::Config;

use crate::Params;
use crate::flux::modulated;
pub(crate) use block::Kv;
use block::{AttentionArgs, Modulation, double_block, single_block};
use nino_graph::{Graph, Node};

/// The inputs of the network.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// `[b, h, w, channels]`
    pub x: Node,
    /// Timesteps (sigmas) from 0 to 1, `[b]`, f32.
    pub t: Node,
    /// Text embeddings, `[b, n, context_dim]`.
    pub context: Node,
    /// Distilled guidance `[b]`, f32. Only for configs with a guidance embedding.
    pub guidance: Option<Node>,
    /// Reference latents, `[b, h, w, channels]` each.
    pub references: &'a [Node],
    /// Whether the reference tokens are modulated for timestep 0 instead of `t`. Their keys and
    /// values then do not depend on the step, and can be cached.
    pub references_at_zero: bool,
    /// Cached keys and values of reference tokens, one entry per block, instead of `references`.
    pub reference_kv: &'a [Kv],
}

/// Width of the sinusoidal embedding of a timestep or a guidance.
const FREQ_DIM: usize = 256;
/// Timesteps and guidance are embedded in thousandths.
const TIME_FACTOR: f32 = 1000.0;

/// Returns the velocity and, with [`Inputs::references_at_zero`], the keys and values of the
/// reference tokens in every block. `p` is at the transformer's prefix (`model.diffusion_model` in
/// a checkpoint).
pub fn transformer(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs<'_>) -> (Node, Vec<Kv>) {
    let shape = g.shape(inputs.x);
    let n_txt = g.shape(inputs.context)[1];
    let latents: Vec<Node> = std::iter::once(inputs.x)
        .chain(inputs.references.iter().copied())
        .collect();
    let sizes: Vec<[usize; 2]> = latents
        .iter()
        .map(|&x| [g.shape(x)[1], g.shape(x)[2]])
        .collect();
    let tokens: Vec<Node> = latents.iter().map(|&x| patchify(g, x)).collect();
    let x = g.concat(&tokens, 1); // [b, n_img, c]

    let mut img = p.linear_no_bias(g, "img_in", x, c.hidden);
    let mut txt = p.linear_no_bias(g, "txt_in", inputs.context, c.hidden);
    let n_ref = if inputs.references_at_zero {
        sizes[1..].iter().map(|[h, w]| h * w).sum()
    } else {
        0
    };
    let vec = time_embedding(g, p, c, inputs, inputs.t);
    let vec_zero = (n_ref > 0).then(|| {
        let zero = g.affine(inputs.t, 0.0, 0.0);
        time_embedding(g, p, c, inputs, zero)
    });
    // The modulations of a stream: one for every three vectors that its layer gives.
    let modulations = |g: &mut Graph, name: &str, n: usize, vec_zero: Option<Node>| {
        let mut vectors = |vec: Node| {
            let all = p.linear_no_bias(g, name, vec, n * c.hidden);
            g.split(all, 1, n)
        };
        let (at_t, at_zero) = (vectors(vec), vec_zero.map(&mut vectors));
        let modulation = |i: usize| {
            let at_zero = at_zero.as_ref().map(|v| (&v[i..i + 3], n_ref));
            Modulation::new(&at_t[i..i + 3], at_zero)
        };
        let all: Vec<Modulation> = (0..n).step_by(3).map(modulation).collect();
        all
    };
    let double_mods = [("img", vec_zero), ("txt", None)].map(|(stream, vec_zero)| {
        let name = format!("double_stream_modulation_{stream}.lin");
        let mods = modulations(g, &name, 6, vec_zero);
        [mods[0], mods[1]]
    });
    let rope = positions::rope_table(g, c, n_txt, &sizes);
    let attention_args = |block: usize| AttentionArgs {
        rope,
        cached: inputs.reference_kv.get(block).copied(),
        n_ref,
    };
    let mut reference_kv = Vec::new();
    for i in 0..c.depth {
        let p = &p.at(format_args!("double_blocks.{i}"));
        let kv;
        ([img, txt], kv) = double_block(g, p, c, [img, txt], double_mods, attention_args(i));
        reference_kv.push(kv);
    }
    let mut x = g.concat(&[txt, img], 1); // [b, n_txt + n_img, d]
    let single_mod = modulations(g, "single_stream_modulation.lin", 3, vec_zero)[0];
    for i in 0..c.depth_single {
        let p = &p.at(format_args!("single_blocks.{i}"));
        let kv;
        (x, kv) = single_block(g, p, c, x, single_mod, attention_args(c.depth + i));
        reference_kv.push(kv);
    }
    let img = g.slice(x, 1, n_txt, n_txt + shape[1] * shape[2]);
    let shift_scale = p.linear_no_bias(g, "final_layer.adaLN_modulation.1", vec, 2 * c.hidden);
    let shift_scale = g.split(shift_scale, 1, 2);
    let x = modulated(g, img, shift_scale[0], shift_scale[1]);
    let x = p.linear_no_bias(g, "final_layer.linear", x, c.channels);
    if n_ref == 0 {
        reference_kv.clear();
    }
    (g.reshape(x, shape), reference_kv)
}

/// `[b, h, w, c]` → tokens `[b, h·w, c]`
fn patchify(g: &mut Graph, x: Node) -> Node {
    let shape = g.shape(x);
    g.reshape(x, [shape[0], shape[1] * shape[2], shape[3]])
}

/// SiLU of the embedding `[b, d]` of a timestep and the guidance: the input of every modulation.
fn time_embedding(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs<'_>, t: Node) -> Node {
    let dtype = g.dtype(inputs.x);
    let mut embed = |name: &str, t: Node| {
        let t = g.affine(t, TIME_FACTOR, 0.0);
        let t = g.timestep_embed(t, FREQ_DIM);
        let t = g.cast(t, dtype);
        let p = &p.at(name);
        let h = p.linear_no_bias(g, "in_layer", t, c.hidden);
        let h = g.silu(h);
        p.linear_no_bias(g, "out_layer", h, c.hidden)
    };
    let mut vec = embed("time_in", t);
    if let Some(guidance) = inputs.guidance {
        let guidance = embed("guidance_in", guidance);
        vec = g.add(vec, guidance);
    }
    g.silu(vec)
}
