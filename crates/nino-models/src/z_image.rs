//! Z-Image by Alibaba's Tongyi Lab (Turbo and base), a transformer with the architecture of Lumina.
//! Behavior: ComfyUI's `NextDiT`, whose names are canonical.
//! Latent `[b, h, w, 16]`, timestep `[b]`, text `[b, n, d]` → velocity `[b, h, w, 16]`.
//!
//! ```text
//!   latent ── patchify ── x_embedder ── noise_refiner ───┐
//!                                                        ├─ layers ─ final_layer ── velocity
//!   text ─── cap_embedder ── context_refiner ────────────┘
//! ```
//! All blocks are of one kind; those of `context_refiner` have no modulation. Both streams are
//! padded to a multiple of 32 tokens with a learned token.

mod block;
mod control;
mod positions;

use crate::flux::pad_to_patch;
use crate::{Find, Params};
use block::{BlockArgs, block};
pub(crate) use control::Control;
pub use control::ControlConfig;
use nino_graph::{Graph, Node, NormKind, RowNorm, Shape};
use positions::Tokens;

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
    pub cap_dim: usize,
    /// Widths of the two layers of `t_embedder`.
    pub time: [usize; 2],
    pub n_layers: usize,
    /// Number of blocks of `context_refiner`, and of `noise_refiner`.
    pub n_refiners: usize,
}

/// The inputs of the network.
#[derive(Clone, Copy, Debug)]
pub struct Inputs {
    /// `[b, h, w, channels]`
    pub x: Node,
    /// Timesteps (sigmas) from 0 to 1, `[b]`, f32.
    pub t: Node,
    /// Text embeddings, `[b, n, cap_dim]`.
    pub context: Node,
}

/// Patch size: latent pixels along one side of a token.
const PATCH: usize = 2;
/// The number of tokens of a stream is padded to a multiple of this.
const MULTIPLE: usize = 32;
/// Width of the sinusoidal embedding of a timestep.
const FREQ_DIM: usize = 256;
/// Timesteps are embedded in thousandths.
const TIME_FACTOR: f32 = 1000.0;
const FINAL_EPS: f32 = 1e-6;

impl Config {
    /// The sizes of Z-Image Turbo and of the base model.
    pub fn published() -> Config {
        Config {
            channels: 16,
            dim: 3840,
            head: 128,
            mlp: 10240,
            cap_dim: 2560,
            time: [1024, 256],
            n_layers: 30,
            n_refiners: 2,
        }
    }

    pub fn heads(&self) -> usize {
        self.dim / self.head.max(1)
    }

    /// Reads sizes from tensor shapes alone; `None` when this is not Z-Image.
    pub fn detect(find: &Find) -> Option<Config> {
        let matrix = |name: &str| match *find(name)?.0 {
            [rows, columns] => Some((rows, columns)),
            _ => None,
        };
        let count = |kind: &str| {
            let exists = |&i: &usize| find(&format!("{kind}.{i}.attention.qkv.weight")).is_some();
            (0..256).take_while(exists).count()
        };
        let (dim, cap_dim) = matrix("cap_embedder.1.weight")?;
        let [head] = *find("noise_refiner.0.attention.k_norm.weight")?.0 else {
            return None;
        };
        let (_, patch) = matrix("x_embedder.weight")?;
        let (time_hidden, _) = matrix("t_embedder.mlp.0.weight")?;
        // In Lumina 2 an activation precedes this layer, so that its name ends in 1.
        let (_, time_out) = matrix("noise_refiner.0.adaLN_modulation.0.weight")?;
        let (mlp, _) = matrix("noise_refiner.0.feed_forward.w1.weight")?;
        find("x_pad_token")?;
        let config = Config {
            channels: patch / (PATCH * PATCH),
            dim,
            head,
            mlp,
            cap_dim,
            time: [time_hidden, time_out],
            n_layers: count("layers"),
            n_refiners: count("noise_refiner"),
        };
        // The RoPE axes have a quarter of the head dimension, and half of the rest each.
        let fits = head > 0 && head.is_multiple_of(16) && dim.is_multiple_of(head);
        (fits && config.channels > 0).then_some(config)
    }
}

/// `p` is at the transformer's prefix (`model.diffusion_model` in a checkpoint).
pub(crate) fn transformer(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    inputs: Inputs,
    controls: &[Control<'_>],
) -> Node {
    let [b, h, w] = [0, 1, 2].map(|axis| g.shape(inputs.x)[axis]);
    let dtype = g.dtype(inputs.x);
    let t = g.affine(inputs.t, -TIME_FACTOR, TIME_FACTOR);
    let t = g.timestep_embed(t, FREQ_DIM);
    let t = g.cast(t, dtype);
    let t = p.linear(g, "t_embedder.mlp.0", t, c.time[0]);
    let t = g.silu(t);
    let t = p.linear(g, "t_embedder.mlp.2", t, c.time[1]);
    let t = p.at("t_embedder").label(g, t); // [b, time[1]]

    let weight = p.vector(g, "cap_embedder.0.weight", c.cap_dim);
    let txt = g.rms_norm(inputs.context, Some(weight), block::EPS);
    let txt = p.linear(g, "cap_embedder.1", txt, c.dim);
    let mut txt = pad_tokens(g, p, "cap_pad_token", txt);
    let n_txt = g.shape(txt)[1];
    let args = BlockArgs {
        rope: positions::rope_table(g, c, n_txt, Tokens::Text),
        t: None,
    };
    for i in 0..c.n_refiners {
        txt = block(g, &p.at(format_args!("context_refiner.{i}")), c, txt, args);
    }

    let (x, [rows, columns]) = patchify(g, inputs.x);
    let n_img = rows * columns;
    let img = p.linear(g, "x_embedder", x, c.dim);
    let mut img = pad_tokens(g, p, "x_pad_token", img);
    let args = BlockArgs {
        rope: positions::rope_table(g, c, n_txt, Tokens::Image([rows, columns])),
        t: Some(t),
    };
    // The tokens of a ControlNet are not padded.
    let control_args = match controls {
        [] => args,
        _ => BlockArgs {
            rope: g.slice(args.rope, 0, 0, n_img),
            ..args
        },
    };
    let embed = |control: &Control<'_>| control.embed(g, control_args);
    let mut hints: Vec<Node> = controls.iter().map(embed).collect();
    let unpadded = (!controls.is_empty()).then(|| g.slice(img, 1, 0, n_img));
    for i in 0..c.n_refiners {
        img = block(g, &p.at(format_args!("noise_refiner.{i}")), c, img, args);
        for ((control, hint), x) in controls.iter().zip(&mut hints).zip(unpadded.iter().cycle()) {
            let (residual, next) = control.after_refiner(g, i, [*hint, *x], control_args);
            (img, *hint) = (control.add_residual(g, img, 0, residual), next);
        }
    }
    let unpadded = (!controls.is_empty()).then(|| g.slice(img, 1, 0, n_img));

    let mut x = g.concat(&[txt, img], 1); // [b, n_txt + n_img, d]
    let args = BlockArgs {
        rope: positions::rope_table(g, c, n_txt, Tokens::TextAndImage([rows, columns])),
        t: Some(t),
    };
    for i in 0..c.n_layers {
        x = block(g, &p.at(format_args!("layers.{i}")), c, x, args);
        for ((control, hint), img) in controls.iter().zip(&mut hints).zip(unpadded.iter().cycle()) {
            let (residual, next) = control.after_layer(g, i, [*hint, *img], control_args);
            (x, *hint) = (control.add_residual(g, x, n_txt, residual), next);
        }
    }
    let img = g.slice(x, 1, n_txt, n_txt + n_img);
    let t = g.silu(t);
    let scale = p.linear(g, "final_layer.adaLN_modulation.1", t, c.dim);
    let img = g.push(RowNorm {
        scale: Some(scale),
        ..RowNorm::plain(img, NormKind::Layer, None, None, FINAL_EPS)
    });
    let width = c.channels * PATCH * PATCH;
    let x = p.linear(g, "final_layer.linear", img, width);
    // The network predicts the negative velocity, from noise to image.
    let x = g.affine(x, -1.0, 0.0);
    let x = g.reshape(x, [b, rows, columns, PATCH, PATCH, c.channels]);
    let x = g.permute(x, &[0, 1, 3, 2, 4, 5]); // [b, rows, 2, columns, 2, c]
    let x = g.reshape(x, [b, rows * PATCH, columns * PATCH, c.channels]);
    let x = g.slice(x, 1, 0, h);
    g.slice(x, 2, 0, w)
}

/// Patches of the latent as tokens `[b, n, 2·2·c]`, and their rows and columns. Unlike Flux's, the
/// channels are the innermost axis of a patch.
fn patchify(g: &mut Graph, x: Node) -> (Node, [usize; 2]) {
    let x = pad_to_patch(g, x, [1, 2]);
    let [b, h, w, c] = [0, 1, 2, 3].map(|axis| g.shape(x)[axis]);
    let (rows, columns) = (h / PATCH, w / PATCH);
    let x = g.reshape(x, [b, rows, PATCH, columns, PATCH, c]);
    let x = g.permute(x, &[0, 1, 3, 2, 4, 5]); // [b, rows, columns, 2, 2, c]
    let x = g.reshape(x, [b, rows * columns, PATCH * PATCH * c]);
    (x, [rows, columns])
}

/// Pads tokens `[b, n, d]` to a multiple of [`MULTIPLE`] with the learned token `name`.
fn pad_tokens(g: &mut Graph, p: &Params, name: &str, x: Node) -> Node {
    let [b, n, d] = [0, 1, 2].map(|axis| g.shape(x)[axis]);
    let token = p.small(g, name, [1, d]);
    let more = n.next_multiple_of(MULTIPLE) - n;
    if more == 0 {
        return x;
    }
    let shape = Shape::from([b, more, 1]);
    let zeros = g.constant(
        &format!("{b} times {more} zeros"),
        shape,
        &vec![0.0; b * more],
    );
    let zeros = g.cast(zeros, g.dtype(x));
    let token = g.reshape(token, [1, 1, d]);
    let padding = g.add(zeros, token); // [b, more, d]
    g.concat(&[x, padding], 1)
}
