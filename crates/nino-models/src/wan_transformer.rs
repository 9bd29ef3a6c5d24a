//! The video transformer of Wan 2.1 and 2.2: text to video, image to video with and without CLIP's
//! view of the picture, first and last frame, Fun's inpainting, control and camera, VACE.
//! Behaviour: <https://github.com/Wan-Video/Wan2.1> `wan/modules/model.py`, whose names are
//! canonical, and ComfyUI's `comfy/ldm/wan/model.py` where it adds to that.
//! Latent `[b, t, h, w, c]`, timestep `[b]` or `[b·t]`, text `[b, n, d]` → velocity of the latent's
//! shape.
//!
//! ```text
//!   latent ── patch_embedding ──────── blocks ── head ── velocity
//!   text ──── text_embedding ───────┐  ▲  ▲
//!   picture ─ img_emb ──────────────┴──┘  │   (cross-attention)
//!   timestep ─ time_embedding ────────────┘   (shift, scale and gate)
//! ```
//! With VACE, a second row of blocks sees the frames to follow and adds to the main one.

mod block;
mod camera;
mod config;
mod positions;

pub use config::{Config, ImageEmbedding, Stretch, Vace};

use crate::flux::even;
use crate::{ConvShape, Params};
use block::{Attended, block, modulated};
use nino_graph::{Act, Graph, Node};

/// Latent pixels along one side of a token. A token has one frame.
const PATCH: usize = 2;
/// PyTorch's default, which the norms around CLIP's view of the picture have.
const IMAGE_EPS: f32 = 1e-5;

/// What the network sees.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// `[b, t, h, w, in_channels]`
    pub x: Node,
    /// Timesteps from 0 to 1000, f32: `[b]`, or `[b·t]` where every frame has its own.
    pub t: Node,
    /// The text, `[b, n, context_dim]`.
    pub context: Node,
    /// CLIP's view of one or two pictures, `[b, n, width]`; only models with an
    /// [`ImageEmbedding`] look at it.
    pub image: Option<Node>,
    /// A frame to look at, `[b, h, w, c]`; only models with [`Config::reference`] take it, and only
    /// where all frames have one timestep.
    pub reference: Option<Node>,
    /// What a VACE model follows. It needs at least one.
    pub controls: &'a [Control],
    /// How the camera sees every pixel, `[b, t, h, w, camera]`; only models with
    /// [`Config::camera`] take it.
    pub camera: Option<Node>,
    /// Blocks that are left out, for guidance away from what the network makes without them.
    pub skipped: &'a [usize],
}

/// Frames for VACE to follow.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// `[b, t, h, w, 96]`: what to keep, what to change and the mask.
    pub frames: Node,
    /// `[1]`, how much it counts.
    pub strength: Node,
}

/// `p` is the place of the transformer's names (`model.diffusion_model` in a checkpoint).
pub fn transformer(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs<'_>) -> Node {
    let [b, t, h, w] = [0, 1, 2, 3].map(|axis| g.shape(inputs.x)[axis]);
    let [rows, columns] = [h, w].map(|n| n.div_ceil(PATCH));
    let mut x = patches(g, p, c, "patch_embedding", inputs.x);
    if let Some(seen) = inputs.camera.filter(|_| c.camera.is_some()) {
        let seen = camera::tokens(g, &p.at("control_adapter"), c, seen);
        x = g.add(x, seen);
    }
    let reference = inputs.reference.filter(|_| c.reference.is_some());
    let n_reference = reference.map_or(0, |reference| {
        let reference = even(g, reference, [1, 2]);
        let tokens = p.conv_with(g, "ref_conv", reference, patch_conv(c.hidden));
        let n = g.shape(tokens)[1] * g.shape(tokens)[2];
        let tokens = g.reshape(tokens, [b, n, c.hidden]);
        x = g.concat(&[tokens, x], 1);
        n
    });

    let (time, modulation) = times(g, p, c, inputs);
    let text = mlp(
        g,
        &p.at("text_embedding"),
        inputs.context,
        c.hidden,
        Act::GeluTanh,
    );
    let image = c.image.map(|embedding| match inputs.image {
        Some(seen) => image_embedding(g, &p.at("img_emb"), c, embedding, seen),
        // ComfyUI lets the keys for the picture read the text where there is no picture.
        None => text,
    });
    let frames = t + usize::from(reference.is_some());
    let attended = Attended {
        modulation,
        text,
        image,
        table: positions::table(g, c, [frames, rows, columns]),
    };
    let mut controls: Vec<(Node, Node)> = Vec::new();
    for control in inputs.controls.iter().filter(|_| c.vace.is_some()) {
        let frames = patches(g, p, c, "vace_patch_embedding", control.frames);
        controls.push((frames, control.strength));
    }
    let start = x;
    for i in 0..c.n_layers {
        if !inputs.skipped.contains(&i) {
            x = block(g, &p.at(format_args!("blocks.{i}")), c, x, &attended);
        }
        let Some(at) = c.vace.and_then(|v| v.block_after(i, c.n_layers)) else {
            continue;
        };
        // VACE's blocks see the text alone.
        let attended = Attended {
            image: None,
            ..attended
        };
        let p = &p.at(format_args!("vace_blocks.{at}"));
        for (state, strength) in &mut controls {
            if at == 0 {
                let before = p.linear(g, "before_proj", *state, c.hidden);
                *state = g.add(before, start);
            }
            *state = block(g, p, c, *state, &attended);
            let skip = p.linear(g, "after_proj", *state, c.hidden);
            let skip = g.mul(skip, *strength);
            x = g.add(x, skip);
        }
    }

    let p = &p.at("head");
    let told = p.small(g, "modulation", [1, 2, c.hidden]);
    let n_times = g.shape(time)[0];
    let time = g.reshape(time, [n_times, 1, c.hidden]);
    let told = g.add(time, told); // [n_times, 2, d]
    let [shift, scale] = [0, 1].map(|i| block::part(g, told, i));
    let x = modulated(g, x, shift, scale);
    let x = p.linear(g, "head", x, PATCH * PATCH * c.out_channels);
    let n = g.shape(x)[1];
    let x = g.slice(x, 1, n_reference, n);
    // [b·t·rows, columns, 2, 2·out] → [b·t·rows, 2, columns, 2·out]
    let x = g.reshape(x, [b * t * rows, columns, PATCH, PATCH * c.out_channels]);
    let x = g.permute(x, &[0, 2, 1, 3]);
    let x = g.reshape(x, [b, t, rows * PATCH, columns * PATCH, c.out_channels]);
    let x = g.slice(x, 2, 0, h);
    g.slice(x, 3, 0, w)
}

/// The time vector `[n_times, d]` and what all blocks' modulations are made of,
/// `[n_times, 6, d]`.
fn times(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs<'_>) -> (Node, Node) {
    let n_times = g.shape(inputs.t)[0];
    let time = g.timestep_embed(inputs.t, c.freq_dim);
    let time = g.cast(time, g.dtype(inputs.x));
    let time = mlp(g, &p.at("time_embedding"), time, c.hidden, Act::Silu);
    let time = p.at("time_embedding").label(g, time);
    let all = g.silu(time);
    let all = p.linear(g, "time_projection.1", all, 6 * c.hidden);
    (time, g.reshape(all, [n_times, 6, c.hidden]))
}

/// `[b, t, h, w, c]` as tokens `[b, n, d]`.
fn patches(g: &mut Graph, p: &Params, c: &Config, name: &str, x: Node) -> Node {
    let x = even(g, x, [2, 3]);
    let x = p.conv_with(g, name, x, patch_conv(c.hidden)); // [b, t, h/2, w/2, d]
    let [b, t, h, w] = [0, 1, 2, 3].map(|axis| g.shape(x)[axis]);
    g.reshape(x, [b, t * h * w, c.hidden])
}

/// A token for every square of latent pixels.
fn patch_conv(hidden: usize) -> ConvShape {
    ConvShape {
        cout: hidden,
        kernel: [1, PATCH, PATCH],
        stride: [1, PATCH, PATCH],
        pad: [0; 4],
        bias: true,
    }
}

/// Layers `0` and `2` with an activation between.
fn mlp(g: &mut Graph, p: &Params, x: Node, width: usize, act: Act) -> Node {
    let h = p.linear(g, "0", x, width);
    let h = g.act(h, act);
    p.linear(g, "2", h, width)
}

/// CLIP's view of the picture, `[b, n, 1280]`, as tokens `[b, n, d]`. First-and-last-frame models
/// tell the two pictures apart by their places.
fn image_embedding(g: &mut Graph, p: &Params, c: &Config, of: ImageEmbedding, seen: Node) -> Node {
    let mut x = seen;
    if let Some(places) = of.places {
        let n = g.shape(x)[1].min(places);
        let table = p.small(g, "emb_pos", [1, places, of.width]);
        let table = g.slice(table, 1, 0, n);
        x = g.slice(x, 1, 0, n);
        x = g.add(x, table);
    }
    let x = p.layer_norm(g, "proj.0", x, IMAGE_EPS);
    let x = p.linear(g, "proj.1", x, of.width);
    let x = g.act(x, Act::Gelu);
    let x = p.linear(g, "proj.3", x, c.hidden);
    let x = p.layer_norm(g, "proj.4", x, IMAGE_EPS);
    p.label(g, x)
}
