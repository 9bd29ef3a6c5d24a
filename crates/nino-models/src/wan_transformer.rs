//! The video transformer of Wan 2.1 and 2.2: text to video, image to video with and without CLIP
//! vision embeddings, first and last frame, Fun inpainting, Fun control, Fun camera, VACE.
//! Behavior: <https://github.com/Wan-Video/Wan2.1> `wan/modules/model.py`, whose names are
//! canonical, and ComfyUI's `comfy/ldm/wan/model.py` where it adds to that.
//! Latent `[b, t, h, w, c]`, timestep `[b]` or `[b·t]`, text `[b, n, d]` → velocity of the latent's
//! shape.
//!
//! ```text
//!   latent ── patch_embedding ──────── blocks ── head ── velocity
//!   text ──── text_embedding ───────┐  ▲  ▲
//!   CLIP ──── img_emb ──────────────┴──┘  │   (cross-attention)
//!   timestep ─ time_embedding ────────────┘   (modulation: shift, scale and gate)
//! ```
//! VACE adds a second sequence of blocks, which processes the control video. Their outputs are
//! added to the tokens after blocks of the main sequence.

mod block;
mod camera;
mod config;
mod positions;

pub use config::{Config, ImageEmbedding, RopeScale, Vace};

use crate::flux::pad_to_patch;
use crate::{ConvShape, Params};
use block::{BlockArgs, block, modulated};
use nino_graph::{Act, Graph, Node};

/// Patch size: latent pixels along one side of a token. A patch has one latent frame.
const PATCH: usize = 2;
/// Epsilon of the norms of `img_emb`: PyTorch's default.
const IMG_EMB_EPS: f32 = 1e-5;

/// The inputs of the network.
#[derive(Clone, Copy, Debug)]
pub struct Inputs<'a> {
    /// `[b, t, h, w, in_channels]`
    pub x: Node,
    /// Timesteps from 0 to 1000, f32: `[b]`, or `[b·t]` where every frame has its own.
    pub t: Node,
    /// Text embeddings, `[b, n, context_dim]`.
    pub context: Node,
    /// CLIP vision hidden states of one or two images, `[b, n, width]`. Only models with an
    /// [`ImageEmbedding`] use them.
    pub clip_fea: Option<Node>,
    /// Reference latent, `[b, h, w, c]`. Only models with [`Config::reference`] use it, and only
    /// where all frames have the same timestep.
    pub reference: Option<Node>,
    /// Control videos of a VACE model, which requires at least one.
    pub controls: &'a [Control],
    /// Camera embeddings (Plücker coordinates), `[b, t, h, w, camera]`. Only models with
    /// [`Config::camera`] use them.
    pub camera: Option<Node>,
    /// Blocks to skip, for skip-layer guidance.
    pub skipped: &'a [usize],
}

/// A control video of VACE.
#[derive(Clone, Copy, Debug)]
pub struct Control {
    /// `[b, t, h, w, 96]`: inactive frames, reactive frames and the mask.
    pub frames: Node,
    /// Factor of the outputs of VACE's blocks, `[1]`.
    pub strength: Node,
}

/// `p` is at the transformer's prefix (`model.diffusion_model` in a checkpoint).
pub fn transformer(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs<'_>) -> Node {
    let [b, t, h, w] = [0, 1, 2, 3].map(|axis| g.shape(inputs.x)[axis]);
    let [rows, columns] = [h, w].map(|n| n.div_ceil(PATCH));
    let mut x = patch_embedding(g, p, c, "patch_embedding", inputs.x);
    if let Some(camera) = inputs.camera.filter(|_| c.camera.is_some()) {
        let camera = camera::control_adapter(g, &p.at("control_adapter"), c, camera);
        x = g.add(x, camera);
    }
    let reference = inputs.reference.filter(|_| c.reference.is_some());
    let n_reference = reference.map_or(0, |reference| {
        let reference = pad_to_patch(g, reference, [1, 2]);
        let tokens = p.conv_with(g, "ref_conv", reference, patch_conv(c.hidden));
        let n = g.shape(tokens)[1] * g.shape(tokens)[2];
        let tokens = g.reshape(tokens, [b, n, c.hidden]);
        x = g.concat(&[tokens, x], 1);
        n
    });

    let (time, modulation) = time_embedding(g, p, c, inputs);
    let context = mlp(
        g,
        &p.at("text_embedding"),
        inputs.context,
        c.hidden,
        Act::GeluTanh,
    );
    let context_img = c.image.map(|embedding| match inputs.clip_fea {
        Some(clip_fea) => image_embedding(g, &p.at("img_emb"), c, embedding, clip_fea),
        // Without an image, the image keys and values come from the text, as in ComfyUI.
        None => context,
    });
    let frames = t + usize::from(reference.is_some());
    let args = BlockArgs {
        modulation,
        context,
        context_img,
        rope: positions::rope_table(g, c, [frames, rows, columns]),
    };
    let mut controls: Vec<(Node, Node)> = Vec::new();
    for control in inputs.controls.iter().filter(|_| c.vace.is_some()) {
        let tokens = patch_embedding(g, p, c, "vace_patch_embedding", control.frames);
        controls.push((tokens, control.strength));
    }
    let embedded = x;
    for i in 0..c.n_layers {
        if !inputs.skipped.contains(&i) {
            x = block(g, &p.at(format_args!("blocks.{i}")), c, x, &args);
        }
        let Some(vace_idx) = c.vace.and_then(|v| v.block_after(i, c.n_layers)) else {
            continue;
        };
        // VACE's blocks have no cross-attention to an image.
        let args = BlockArgs {
            context_img: None,
            ..args
        };
        let p = &p.at(format_args!("vace_blocks.{vace_idx}"));
        for (tokens, strength) in &mut controls {
            if vace_idx == 0 {
                let before = p.linear(g, "before_proj", *tokens, c.hidden);
                *tokens = g.add(before, embedded);
            }
            *tokens = block(g, p, c, *tokens, &args);
            let skip = p.linear(g, "after_proj", *tokens, c.hidden);
            let skip = g.mul(skip, *strength);
            x = g.add(x, skip);
        }
    }

    let p = &p.at("head");
    let modulation = p.small(g, "modulation", [1, 2, c.hidden]);
    let n_times = g.shape(time)[0];
    let time = g.reshape(time, [n_times, 1, c.hidden]);
    let modulation = g.add(time, modulation); // [n_times, 2, d]
    let [shift, scale] = [0, 1].map(|i| block::row(g, modulation, i));
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

/// The time embedding `[n_times, d]`, and its projection to the modulation of all blocks,
/// `[n_times, 6, d]`.
fn time_embedding(g: &mut Graph, p: &Params, c: &Config, inputs: Inputs<'_>) -> (Node, Node) {
    let n_times = g.shape(inputs.t)[0];
    let time = g.timestep_embed(inputs.t, c.freq_dim);
    let time = g.cast(time, g.dtype(inputs.x));
    let time = mlp(g, &p.at("time_embedding"), time, c.hidden, Act::Silu);
    let time = p.at("time_embedding").label(g, time);
    let modulation = g.silu(time);
    let modulation = p.linear(g, "time_projection.1", modulation, 6 * c.hidden);
    (time, g.reshape(modulation, [n_times, 6, c.hidden]))
}

/// `[b, t, h, w, c]` as tokens `[b, n, d]`.
fn patch_embedding(g: &mut Graph, p: &Params, c: &Config, name: &str, x: Node) -> Node {
    let x = pad_to_patch(g, x, [2, 3]);
    let x = p.conv_with(g, name, x, patch_conv(c.hidden)); // [b, t, h/2, w/2, d]
    let [b, t, h, w] = [0, 1, 2, 3].map(|axis| g.shape(x)[axis]);
    g.reshape(x, [b, t * h * w, c.hidden])
}

/// The convolution that maps every patch to a token.
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

/// CLIP vision hidden states `[b, n, 1280]` to tokens `[b, n, d]`. First-and-last-frame models add
/// position embeddings, which distinguish the two images.
fn image_embedding(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    embedding: ImageEmbedding,
    clip_fea: Node,
) -> Node {
    let mut x = clip_fea;
    if let Some(max_tokens) = embedding.emb_pos {
        let n = g.shape(x)[1].min(max_tokens);
        let emb_pos = p.small(g, "emb_pos", [1, max_tokens, embedding.width]);
        let emb_pos = g.slice(emb_pos, 1, 0, n);
        x = g.slice(x, 1, 0, n);
        x = g.add(x, emb_pos);
    }
    let x = p.layer_norm(g, "proj.0", x, IMG_EMB_EPS);
    let x = p.linear(g, "proj.1", x, embedding.width);
    let x = g.act(x, Act::Gelu);
    let x = p.linear(g, "proj.3", x, c.hidden);
    let x = p.layer_norm(g, "proj.4", x, IMG_EMB_EPS);
    p.label(g, x)
}
