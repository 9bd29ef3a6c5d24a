//! What Wan is shown: pictures to begin and end with, clips to follow, empty latents of clips.

pub(super) mod camera;
pub(super) mod sound;
pub(super) mod tracks;

use crate::NodeError;
use crate::node::table::{MAX_SIDE, float, int, link, named, optional, out};
use crate::node::{InputDef, NodeDef, OutputDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::{Latents, Value};
use nino_engine::{
    ClipHints, ClipSize, Conditioning, Given, ImageStates, Latent, LatentSize, VaeFile,
};
use std::sync::Arc;

const WAN: &str = "model/conditioning/wan";
const POSITIVE: InputDef = link("positive", Socket::Conditioning);
const NEGATIVE: InputDef = link("negative", Socket::Conditioning);
const VAE: InputDef = link("vae", Socket::Vae);
const WIDTH: InputDef = int("width", 832, (16, MAX_SIDE), 16);
const HEIGHT: InputDef = int("height", 480, (16, MAX_SIDE), 16);
const LENGTH: InputDef = int("length", 81, (1, MAX_SIDE), 4);
const BATCH: InputDef = int("batch_size", 1, (1, 4096), 1);
const START: InputDef = optional(link("start_image", Socket::Image));
const END: InputDef = optional(link("end_image", Socket::Image));
const SEEN: InputDef = optional(link("clip_vision_output", Socket::ClipVisionOutput));
const OUTPUTS: [OutputDef; 3] = [
    named("positive", Socket::Conditioning),
    named("negative", Socket::Conditioning),
    named("latent", Socket::Latent),
];
/// Frames under one latent frame.
const TIME: usize = 4;

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "WanImageToVideo",
        display_name: "WanImageToVideo",
        category: WAN,
        inputs: &[
            POSITIVE, NEGATIVE, VAE, WIDTH, HEIGHT, LENGTH, BATCH, SEEN, START,
        ],
        outputs: &OUTPUTS,
        is_output: false,
        run: image_to_video,
    },
    NodeDef {
        class: "WanFirstLastFrameToVideo",
        display_name: "WanFirstLastFrameToVideo",
        category: WAN,
        inputs: &[
            POSITIVE,
            NEGATIVE,
            VAE,
            WIDTH,
            HEIGHT,
            LENGTH,
            BATCH,
            optional(link("clip_vision_start_image", Socket::ClipVisionOutput)),
            optional(link("clip_vision_end_image", Socket::ClipVisionOutput)),
            START,
            END,
        ],
        outputs: &OUTPUTS,
        is_output: false,
        run: |call| first_last(call, ["clip_vision_start_image", "clip_vision_end_image"]),
    },
    NodeDef {
        class: "WanFunInpaintToVideo",
        display_name: "WanFunInpaintToVideo",
        category: "model/conditioning/wan/fun inpaint",
        inputs: &[
            POSITIVE, NEGATIVE, VAE, WIDTH, HEIGHT, LENGTH, BATCH, SEEN, START, END,
        ],
        outputs: &OUTPUTS,
        is_output: false,
        run: |call| first_last(call, ["clip_vision_output", ""]),
    },
    NodeDef {
        class: "WanFunControlToVideo",
        display_name: "WanFunControlToVideo",
        category: "model/conditioning/wan/fun control",
        inputs: &[
            POSITIVE,
            NEGATIVE,
            VAE,
            WIDTH,
            HEIGHT,
            LENGTH,
            BATCH,
            SEEN,
            START,
            optional(link("control_video", Socket::Image)),
        ],
        outputs: &OUTPUTS,
        is_output: false,
        run: |call| controlled(call, false),
    },
    NodeDef {
        class: "Wan22FunControlToVideo",
        display_name: "Wan22FunControlToVideo",
        category: "model/conditioning/wan/fun control",
        inputs: &[
            POSITIVE,
            NEGATIVE,
            VAE,
            WIDTH,
            HEIGHT,
            LENGTH,
            BATCH,
            optional(link("ref_image", Socket::Image)),
            optional(link("control_video", Socket::Image)),
        ],
        outputs: &OUTPUTS,
        is_output: false,
        run: |call| controlled(call, true),
    },
    NodeDef {
        class: "WanVaceToVideo",
        display_name: "WanVaceToVideo",
        category: "model/conditioning/wan/vace",
        inputs: &[
            POSITIVE,
            NEGATIVE,
            VAE,
            WIDTH,
            HEIGHT,
            LENGTH,
            BATCH,
            float("strength", 1.0, (0.0, 1000.0), 0.01),
            optional(link("control_video", Socket::Image)),
            optional(link("control_masks", Socket::Mask)),
            optional(link("reference_image", Socket::Image)),
        ],
        outputs: &[
            OUTPUTS[0],
            OUTPUTS[1],
            OUTPUTS[2],
            named("trim_latent", Socket::Int),
        ],
        is_output: false,
        run: vace,
    },
    NodeDef {
        class: "TrimVideoLatent",
        display_name: "Trim Video Latent",
        category: "model/latent",
        inputs: &[
            link("samples", Socket::Latent),
            int("trim_amount", 0, (0, 99_999), 1),
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: trim,
    },
    NodeDef {
        class: "Wan22ImageToVideoLatent",
        display_name: "Wan22ImageToVideoLatent",
        category: WAN,
        inputs: &[
            VAE,
            int("width", 1280, (32, MAX_SIDE), 32),
            int("height", 704, (32, MAX_SIDE), 32),
            int("length", 49, (1, MAX_SIDE), 4),
            BATCH,
            START,
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: fixed,
    },
    NodeDef {
        class: "EmptyHunyuanLatentVideo",
        display_name: "Empty HunyuanVideo 1.0 Latent",
        category: "model/latent/hunyuan video",
        inputs: &[
            int("width", 848, (16, MAX_SIDE), 16),
            int("height", 480, (16, MAX_SIDE), 16),
            int("length", 25, (1, MAX_SIDE), 4),
            BATCH,
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: empty,
    },
];

/// A node's clip, with what frames are encoded with.
fn given<'a, 'c: 'a>(call: &Call<'c, '_>, vae: &'a VaeFile) -> Result<Given<'a>, NodeError> {
    let size = size(call)?;
    let side = vae.kind.scale().max(1);
    // Sides that are no whole latent pixels are cut, as ComfyUI's division cuts them.
    let size = ClipSize {
        width: size.width / side * side,
        height: size.height / side * side,
        ..size
    };
    Ok(Given {
        store: call.store,
        vae,
        size,
        precision: call.settings.precision,
        beside: call.held_bytes,
    })
}

fn size(call: &Call<'_, '_>) -> Result<ClipSize, NodeError> {
    let size = ClipSize {
        width: call.size("width")?,
        height: call.size("height")?,
        frames: call.size("length")?.max(1),
    };
    let latent = [size.width / 8, size.height / 8, size.frames / TIME + 1, 48];
    call.room_for_new("a clip's latent", &latent)?;
    Ok(size)
}

/// CLIP's states of inputs that may not be linked, one after the other.
fn states(
    call: &Call<'_, '_>,
    inputs: &[&'static str],
) -> Result<Option<Arc<ImageStates>>, NodeError> {
    let mut all: Option<ImageStates> = None;
    for input in inputs.iter().filter(|i| call.get(i).is_some()) {
        let seen = call.clip_states(input)?;
        all = Some(match all {
            Some(before) => before.followed_by(&seen),
            None => ImageStates::clone(&seen),
        });
    }
    Ok(all.map(Arc::new))
}

/// The node's prompts with what they show, and a latent to start from.
fn shown(
    call: &Call<'_, '_>,
    change: impl Fn(&Conditioning) -> Conditioning,
    latent: Latent,
) -> Result<Vec<Value>, NodeError> {
    let side = |input| -> Result<Value, NodeError> {
        let prompts = call.prompts(input)?;
        Ok(Value::from(prompts.iter().map(&change).collect::<Vec<_>>()))
    };
    Ok(vec![
        side("positive")?,
        side("negative")?,
        Value::latent(latent),
    ])
}

/// The same hints with others in the place of what is given.
fn with(prompt: &Conditioning, hints: &ClipHints) -> Conditioning {
    let mut clip = prompt.clip.clone();
    if hints.image.is_some() {
        clip.image.clone_from(&hints.image);
    }
    if hints.frames.is_some() {
        clip.frames.clone_from(&hints.frames);
    }
    if hints.camera.is_some() {
        clip.camera.clone_from(&hints.camera);
    }
    clip.controls.extend(hints.controls.iter().cloned());
    prompt.with_clip(clip)
}

/// An empty latent of the node's batch.
fn nothing(call: &Call<'_, '_>, channels: usize, size: LatentSize) -> Result<Latent, NodeError> {
    Ok(Latent {
        is_video: true,
        ..Latent::empty(call.size("batch_size")?, channels, size)
    })
}

fn image_to_video(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (vae, start) = (call.vae("vae")?, call.images_if_linked("start_image")?);
    let given = given(call, &vae)?;
    let mut hints = ClipHints {
        image: states(call, &["clip_vision_output"])?,
        ..ClipHints::default()
    };
    let latent = nothing(call, vae.kind.latent_channels(), given.size.latent(&vae))?;
    if !start.is_empty() {
        hints.frames = Some(Arc::new(given.first_frames(&start, &mut call.control)?));
    }
    shown(call, |p| with(p, &hints), latent)
}

fn first_last(call: &mut Call<'_, '_>, views: [&'static str; 2]) -> Result<Vec<Value>, NodeError> {
    let vae = call.vae("vae")?;
    let (start, end) = (
        call.images_if_linked("start_image")?,
        call.images_if_linked("end_image")?,
    );
    let given = given(call, &vae)?;
    let frames = given.first_and_last(&start, &end, &mut call.control)?;
    let hints = ClipHints {
        image: states(call, &views)?,
        frames: Some(Arc::new(frames)),
        ..ClipHints::default()
    };
    let latent = nothing(call, vae.kind.latent_channels(), given.size.latent(&vae))?;
    shown(call, |p| with(p, &hints), latent)
}

/// A clip to follow; `masked` is the node of Wan 2.2, which may look at a picture.
fn controlled(call: &mut Call<'_, '_>, masked: bool) -> Result<Vec<Value>, NodeError> {
    let vae = call.vae("vae")?;
    let clip = call.images_if_linked("control_video")?;
    let start = if masked {
        Arc::default()
    } else {
        call.images_if_linked("start_image")?
    };
    let given = given(call, &vae)?;
    let frames = given.controlled(&clip, &start, masked, &mut call.control)?;
    let hints = ClipHints {
        image: states(call, &["clip_vision_output"])?,
        frames: Some(Arc::new(frames)),
        ..ClipHints::default()
    };
    let latent = nothing(call, vae.kind.latent_channels(), given.size.latent(&vae))?;
    let looked_at = call.images_if_linked("ref_image")?;
    let reference = match looked_at.first() {
        Some(image) => {
            let size = given.size;
            let fitted = image.fitted(size.width, size.height);
            Some(Arc::new(super::vae::encoded(call, &vae, &[fitted])?))
        }
        None => None,
    };
    let change = |p: &Conditioning| match &reference {
        Some(latent) => with(p, &hints).with_reference(Arc::clone(latent)),
        None => with(p, &hints),
    };
    shown(call, change, latent)
}

fn vace(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let vae = call.vae("vae")?;
    let clip = call.images_if_linked("control_video")?;
    let reference = call.images_if_linked("reference_image")?;
    let masks = match call.get("control_masks") {
        Some(_) => call.masks("control_masks")?,
        None => Arc::default(),
    };
    let strength = call.float("strength")? as f32;
    let given = given(call, &vae)?;
    let mut size = given.size.latent(&vae);
    let (followed, trim) = given.followed(
        &clip,
        &masks,
        reference.first(),
        strength,
        &mut call.control,
    )?;
    let hints = ClipHints {
        controls: vec![Arc::new(followed)],
        ..ClipHints::default()
    };
    size.frames += trim;
    let latent = nothing(call, vae.kind.latent_channels(), size)?;
    let mut values = shown(call, |p| with(p, &hints), latent)?;
    values.push(Value::Int(trim as i128));
    Ok(values)
}

fn trim(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (samples, amount) = (call.latents("samples")?, call.size("trim_amount")?);
    let latent = &samples.latent;
    if amount >= latent.frames {
        let text = format!("it leaves none of {} latent frames", latent.frames);
        return Err(NodeError::Input(text));
    }
    Ok(vec![Value::from(Latents {
        latent: latent.without_first(amount),
        ..Latents::clone(&samples)
    })])
}

fn fixed(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (vae, start) = (call.vae("vae")?, call.images_if_linked("start_image")?);
    let given = given(call, &vae)?;
    let batch = call.size("batch_size")?;
    if start.is_empty() {
        let latent = nothing(call, vae.kind.latent_channels(), given.size.latent(&vae))?;
        return Ok(vec![Value::latent(latent)]);
    }
    let (latent, frame_mask) = given.fixed_frames(&start, &mut call.control)?;
    Ok(vec![Value::from(Latents {
        latent: Latent {
            batch,
            values: latent.values.repeat(batch),
            ..latent
        },
        noise_mask: None,
        frame_mask,
        batch_index: None,
        empty_scale: None,
    })])
}

fn empty(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let size = size(call)?;
    let latent = LatentSize {
        frames: (size.frames - 1) / TIME + 1,
        height: size.height / 8,
        width: size.width / 8,
    };
    Ok(vec![Value::empty_latent(nothing(call, 16, latent)?)])
}
