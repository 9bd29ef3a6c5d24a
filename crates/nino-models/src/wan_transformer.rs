//! The video transformer of Wan 2.1 and 2.2: text to video, image to video with and without CLIP
//! vision embeddings, first and last frame, Fun inpainting, Fun control, Fun camera, VACE, sound to
//! video.
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
//!
//! A sound-to-video model has further tokens after the video's, for a reference latent and for the
//! frames before the video; after some blocks, the video's tokens attend to the audio.

mod audio;
mod block;
mod camera;
mod config;
mod motion;
mod positions;

pub use audio::{FRAMES as AUDIO_FRAMES, latent_frames as audio_latent_frames};
pub use config::{Audio, Config, ImageEmbedding, RopeScale, Vace};
pub use motion::MOTION_FRAMES;

use crate::flux::pad_to_patch;
use crate::{ConvShape, Params};
use block::{BlockArgs, Modulation, block};
use nino_dtype::DType;
use nino_graph::{Act, Graph, Node};
use positions::Axis;

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
    /// Reference latent, `[b, h, w, c]`. Only models with [`Config::reference`] or
    /// [`Config::audio`] use it, and only where all frames have the same timestep.
    pub reference: Option<Node>,
    /// Control videos of a VACE model, which requires at least one.
    pub controls: &'a [Control],
    /// Camera embeddings (Plücker coordinates), `[b, t, h, w, camera]`. Only models with
    /// [`Config::camera`] use them.
    pub camera: Option<Node>,
    /// What only models with [`Config::audio`] use.
    pub sound: SoundInputs,
    /// Blocks to skip, for skip-layer guidance.
    pub skipped: &'a [usize],
}

/// The inputs of a sound-to-video model, each optional.
#[derive(Clone, Copy, Debug, Default)]
pub struct SoundInputs {
    /// Hidden states of the audio encoder, `[b, states, n, width]`: [`AUDIO_FRAMES`] for every
    /// latent frame. The video's tokens must be a multiple of the latent frames that `n` is for.
    pub audio: Option<Node>,
    /// Latent of a control video, of the latent's shape.
    pub control: Option<Node>,
    /// Latent frames before the video, `[b, 19, h, w, c]` ([`MOTION_FRAMES`]).
    pub motion: Option<Node>,
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
    let frames = t + usize::from(reference.is_some());
    let grid = positions::video(c.rope_scale, [frames, rows, columns]);
    let (n_video, mut n_at_t) = (t * rows * columns, n_reference + t * rows * columns);
    let mut grids = vec![grid];
    if c.audio.is_some() {
        (x, n_at_t) = with_given(g, p, c, inputs, x, &mut grids);
    }

    let dtype = g.dtype(inputs.x);
    let [time, modulation] = time_embedding(g, p, c, inputs.t, dtype);
    let [time_zero, modulation_zero] = if n_at_t < g.shape(x)[1] {
        let zero = g.affine(inputs.t, 0.0, 0.0);
        time_embedding(g, p, c, zero, dtype).map(Some)
    } else {
        [None; 2]
    };
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
    let args = BlockArgs {
        modulation: Modulation {
            at_t: modulation,
            at_zero: modulation_zero,
            n_at_t,
        },
        context,
        context_img,
        rope: positions::rope_table(g, c, &grids),
    };
    let audio = c.audio.zip(inputs.sound.audio).map(|(audio, features)| {
        audio::encode(g, &p.at("casual_audio_encoder"), c, audio, features)
    });
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
        if let Some(audio) = &audio {
            x = audio::inject(g, &p.at("audio_injector"), c, x, (i, n_video), audio);
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

    if g.shape(x)[1] > n_video {
        x = g.slice(x, 1, n_reference, n_reference + n_video);
    }
    let p = &p.at("head");
    let learned = p.small(g, "modulation", [1, 2, c.hidden]);
    let vector = |g: &mut Graph, time: Node| {
        let n_times = g.shape(time)[0];
        g.reshape(time, [n_times, 1, c.hidden])
    };
    let time = Modulation {
        at_t: vector(g, time),
        at_zero: time_zero.filter(|_| n_at_t < n_video).map(|t| vector(g, t)),
        n_at_t,
    };
    let x = time.modulate(g, x, learned);
    let x = p.linear(g, "head", x, PATCH * PATCH * c.out_channels);
    // [b·t·rows, columns, 2, 2·out] → [b·t·rows, 2, columns, 2·out]
    let x = g.reshape(x, [b * t * rows, columns, PATCH, PATCH * c.out_channels]);
    let x = g.permute(x, &[0, 2, 1, 3]);
    let x = g.reshape(x, [b, t, rows * PATCH, columns * PATCH, c.out_channels]);
    let x = g.slice(x, 2, 0, h);
    g.slice(x, 3, 0, w)
}

/// What a sound-to-video model is given, added to the video's tokens `[b, n, d]` and put after
/// them. Returns the tokens and how many of them are at the sampling timestep.
fn with_given(
    g: &mut Graph,
    p: &Params,
    c: &Config,
    inputs: Inputs<'_>,
    x: Node,
    grids: &mut Vec<positions::Grid>,
) -> (Node, usize) {
    // ComfyUI places the reference latent at least here.
    const REFERENCE_AT: usize = 30;
    const REFERENCE_AFTER: usize = 9;
    let t = g.shape(inputs.x)[1];
    let kinds = p.small(g, "trainable_cond_mask.weight", [3, c.hidden]);
    let kind = |g: &mut Graph, tokens: Node, i: usize| {
        let kind = g.slice(kinds, 0, i, i + 1);
        g.add(tokens, kind)
    };
    let mut x = x;
    if let Some(control) = inputs.sound.control {
        let control = patch_embedding(g, p, c, "cond_encoder", control);
        x = g.add(x, control);
    }
    let mut tokens = vec![kind(g, x, 0)];
    // Rows of the time embedding, at the sampling timestep and at 0, in ComfyUI.
    let (mut at_t, mut at_zero) = (t, 0);
    if let Some(reference) = inputs.reference {
        let shape = g.shape(reference);
        let reference = g.reshape(reference, [shape[0], 1, shape[1], shape[2], shape[3]]);
        let reference = patch_embedding(g, p, c, "patch_embedding", reference);
        tokens.push(kind(g, reference, 1));
        let first = REFERENCE_AT.max(t + REFERENCE_AFTER) as isize;
        grids.push([
            Axis::from(first, 1),
            Axis::count(shape[1].div_ceil(PATCH)),
            Axis::count(shape[2].div_ceil(PATCH)),
        ]);
        at_zero += 1;
    }
    if let Some(latents) = inputs.sound.motion {
        let (motion, places) = motion::motion_tokens(g, &p.at("frame_packer"), c, latents);
        tokens.push(kind(g, motion, 2));
        grids.extend(places);
        (at_t, at_zero) = (2 * at_t, 2 * at_zero + 3);
    }
    let x = if tokens.len() == 1 {
        tokens[0]
    } else {
        g.concat(&tokens, 1)
    };
    // ComfyUI gives each row an equal share of the tokens, rounded up: where sizes are odd, rows
    // and frames do not end together.
    let n = g.shape(x)[1];
    (x, (at_t * n.div_ceil(at_t + at_zero)).min(n))
}

/// The time embedding `[n_times, d]`, and its projection to the modulation of all blocks,
/// `[n_times, 6, d]`.
fn time_embedding(g: &mut Graph, p: &Params, c: &Config, t: Node, dtype: DType) -> [Node; 2] {
    let n_times = g.shape(t)[0];
    let time = g.timestep_embed(t, c.freq_dim);
    let time = g.cast(time, dtype);
    let time = mlp(g, &p.at("time_embedding"), time, c.hidden, Act::Silu);
    let time = p.at("time_embedding").label(g, time);
    let modulation = g.silu(time);
    let modulation = p.linear(g, "time_projection.1", modulation, 6 * c.hidden);
    [time, g.reshape(modulation, [n_times, 6, c.hidden])]
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
