//! Latents: empty ones, files of them, and batches cut, repeated and resized.

use crate::NodeError;
use crate::host::{Folder, Made};
use crate::node::NodeDef;
use crate::node::table::{MAX_SIDE, combo, file, float, int, link, named, out, text};
use crate::run::Call;
use crate::types::Socket;
use crate::value::{Latents, Value};
use nino_engine::{Latent, LatentSize, Upscale};

const LATENT: &str = "model/latent";
/// Pixels of a latent pixel, as ComfyUI counts sizes.
pub(super) const SCALE: usize = 8;
/// Channels of an empty latent; a model of others makes them its own.
const CHANNELS: usize = 4;
/// The same of SD3 and Flux.
const SD3_CHANNELS: usize = 16;
/// The least side that `LatentUpscale` makes, in pixels.
const LEAST_SIDE: usize = 64;

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "EmptyLatentImage",
        display_name: "Empty Latent Image",
        category: LATENT,
        inputs: &[
            int("width", 512, (16, MAX_SIDE), 8),
            int("height", 512, (16, MAX_SIDE), 8),
            int("batch_size", 1, (1, 4096), 1),
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: |call| empty(call, CHANNELS),
    },
    NodeDef {
        class: "EmptySD3LatentImage",
        display_name: "EmptySD3LatentImage",
        category: "model/latent/stable diffusion",
        inputs: &[
            int("width", 1024, (16, MAX_SIDE), 16),
            int("height", 1024, (16, MAX_SIDE), 16),
            int("batch_size", 1, (1, 4096), 1),
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: |call| empty(call, SD3_CHANNELS),
    },
    NodeDef {
        class: "LatentUpscale",
        display_name: "Upscale Latent",
        category: LATENT,
        inputs: &[
            link("samples", Socket::Latent),
            combo("upscale_method", methods),
            int("width", 512, (0, MAX_SIDE), 8),
            int("height", 512, (0, MAX_SIDE), 8),
            combo("crop", || vec!["disabled", "center"]),
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: upscale,
    },
    NodeDef {
        class: "LatentUpscaleBy",
        display_name: "Upscale Latent By",
        category: LATENT,
        inputs: &[
            link("samples", Socket::Latent),
            combo("upscale_method", methods),
            float("scale_by", 1.5, (0.01, 8.0), 0.01),
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: upscale_by,
    },
    NodeDef {
        class: "LatentFromBatch",
        display_name: "Get Latent From Batch",
        category: "model/latent/batch",
        inputs: &[
            link("samples", Socket::Latent),
            int("batch_index", 0, (-MAX_SIDE, MAX_SIDE), 1),
            int("length", 1, (1, 64), 1),
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: from_batch,
    },
    NodeDef {
        class: "RepeatLatentBatch",
        display_name: "Repeat Latent Batch",
        category: "model/latent/batch",
        inputs: &[
            link("samples", Socket::Latent),
            int("amount", 1, (1, 64), 1),
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: repeat,
    },
    NodeDef {
        class: "SetLatentNoiseMask",
        display_name: "Set Latent Noise Mask",
        category: LATENT,
        inputs: &[link("samples", Socket::Latent), link("mask", Socket::Mask)],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: set_noise_mask,
    },
    NodeDef {
        class: "LoadLatent",
        display_name: "Load Latent",
        category: LATENT,
        inputs: &[file("latent", Folder::InputLatents)],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: |call| Ok(vec![Value::latent(Latent::open(&call.file("latent")?)?)]),
    },
    NodeDef {
        class: "SaveLatent",
        display_name: "Save Latent",
        category: LATENT,
        inputs: &[
            link("samples", Socket::Latent),
            text("filename_prefix", "latents/ComfyUI"),
        ],
        outputs: &[named("samples", Socket::Latent)],
        is_output: true,
        run: save,
    },
];

fn methods() -> Vec<&'static str> {
    Upscale::ALL.map(Upscale::name).to_vec()
}

/// How values between others are found, by its name.
pub(super) fn method(call: &Call<'_, '_>) -> Result<Upscale, NodeError> {
    method_of(&call.text("upscale_method")?)
}

/// The way to resize that ComfyUI calls by this name.
pub(super) fn method_of(name: &str) -> Result<Upscale, NodeError> {
    let found = Upscale::ALL.into_iter().find(|how| how.name() == name);
    found.ok_or_else(|| NodeError::Input(format!("nothing is resized by {name}")))
}

fn empty(call: &mut Call<'_, '_>, channels: usize) -> Result<Vec<Value>, NodeError> {
    let (width, height) = (call.size("width")? / SCALE, call.size("height")? / SCALE);
    let batch = call.size("batch_size")?;
    call.room_for_new("a latent", &[batch, channels, height, width])?;
    let latent = Latent::empty(batch, channels, LatentSize::picture(height, width));
    Ok(vec![Value::empty_latent(latent)])
}

fn upscale(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let samples = call.latents("samples")?;
    let (width, height) = (call.size("width")?, call.size("height")?);
    let latent = &samples.latent;
    let scaled = |side: usize, by: usize, of: usize| {
        let side = (side as f64 * by as f64 / of as f64).round_ties_even();
        (side as usize).max(LEAST_SIDE)
    };
    let (width, height) = match (width, height) {
        (0, 0) => return Ok(vec![Value::Latent(samples)]),
        (0, height) => {
            let height = height.max(LEAST_SIDE);
            (scaled(latent.width, height, latent.height), height)
        }
        (width, 0) => {
            let width = width.max(LEAST_SIDE);
            (width, scaled(latent.height, width, latent.width))
        }
        (width, height) => (width.max(LEAST_SIDE), height.max(LEAST_SIDE)),
    };
    let (width, height) = (width / SCALE, height / SCALE);
    let part = match &*call.text("crop")? {
        "center" => centered(latent, width as f64 / height as f64),
        _ => latent.clone(),
    };
    resized(call, &samples, &part, width, height)
}

fn upscale_by(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let samples = call.latents("samples")?;
    let by = call.float("scale_by")?;
    let side = |n: usize| (n as f64 * by).round_ties_even() as usize;
    let latent = &samples.latent;
    let (width, height) = (side(latent.width), side(latent.height));
    resized(call, &samples, latent, width, height)
}

fn resized(
    call: &Call<'_, '_>,
    samples: &Latents,
    part: &Latent,
    width: usize,
    height: usize,
) -> Result<Vec<Value>, NodeError> {
    if width == 0 || height == 0 {
        return Err(NodeError::Input(format!(
            "a latent of {width}x{height} has no pixels"
        )));
    }
    let sizes = [part.batch, part.frames, part.channels, height, width];
    call.room_for("a latent", &sizes)?;
    let latent = part.resized(height, width, method(call)?);
    Ok(vec![Value::from(Latents {
        latent,
        ..samples.clone()
    })])
}

/// The largest part of that aspect ratio in the middle, as ComfyUI cuts it.
pub(super) fn centered(latent: &Latent, aspect: f64) -> Latent {
    let (w, h) = (latent.width as f64, latent.height as f64);
    let old = w / h;
    let (mut x, mut y) = (0, 0);
    if old > aspect {
        x = ((w - w * (aspect / old)) / 2.0).round_ties_even() as usize;
    } else if old < aspect {
        y = ((h - h * (old / aspect)) / 2.0).round_ties_even() as usize;
    }
    // A sliver of a latent still has a pixel.
    let (x, y) = (
        x.min((latent.width - 1) / 2),
        y.min((latent.height - 1) / 2),
    );
    let (width, height) = (latent.width - 2 * x, latent.height - 2 * y);
    let c = latent.channels;
    let rows = (0..latent.batch * latent.frames).flat_map(|frame| {
        let first = frame * latent.height + y;
        first..first + height
    });
    let values = rows.flat_map(|row| {
        let at = (row * latent.width + x) * c;
        &latent.values[at..at + width * c]
    });
    Latent {
        width,
        height,
        values: values.copied().collect(),
        ..latent.clone()
    }
}

fn from_batch(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let samples = call.latents("samples")?;
    let latent = &samples.latent;
    let (index, batch) = (call.int("batch_index")?, latent.batch as i128);
    let index = if index < 0 { index + batch } else { index };
    let start = index.clamp(0, (batch - 1).max(0)) as usize;
    let length = call.size("length")?.min(latent.batch - start);
    let part = start..start + length;
    let values = part.clone().flat_map(|b| latent.item(b)).copied();
    let masks = samples.noise_mask.as_ref().map(|masks| match masks.len() {
        0 | 1 => masks.clone(),
        n => part
            .clone()
            .map(|b| masks[b % n].clone())
            .collect::<Vec<_>>()
            .into(),
    });
    let known = samples.batch_index.as_ref();
    let batch_index = part.clone().map(|b| known.map_or(b, |known| known[b]));
    Ok(vec![Value::from(Latents {
        frame_mask: Vec::new(),
        latent: Latent {
            batch: length,
            values: values.collect(),
            ..latent.clone()
        },
        noise_mask: masks,
        batch_index: Some(batch_index.collect()),
        empty_scale: samples.empty_scale,
    })])
}

fn repeat(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let samples = call.latents("samples")?;
    let amount = call.size("amount")?;
    let latent = &samples.latent;
    call.room_for("a latent", &[latent.values.len(), amount])?;
    let masks = samples.noise_mask.as_ref().map(|masks| match masks.len() {
        0 | 1 => masks.clone(),
        n => (0..latent.batch * amount)
            .map(|b| masks[b % latent.batch % n].clone())
            .collect::<Vec<_>>()
            .into(),
    });
    let batch_index = samples.batch_index.as_ref().map(|known| {
        let (least, most) = (known.iter().min(), known.iter().max());
        let span = most.unwrap_or(&0) - least.unwrap_or(&0) + 1;
        (0..amount)
            .flat_map(|i| known.iter().map(move |at| at + i * span))
            .collect()
    });
    Ok(vec![Value::from(Latents {
        frame_mask: Vec::new(),
        latent: Latent {
            batch: latent.batch * amount,
            values: latent.values.repeat(amount),
            ..latent.clone()
        },
        noise_mask: masks,
        batch_index,
        empty_scale: samples.empty_scale,
    })])
}

/// Latents of pictures; an error where they are of a video.
pub(super) fn picture_latents(samples: &Latents) -> Result<&Latent, NodeError> {
    match samples.latent.frames {
        1 => Ok(&samples.latent),
        frames => Err(NodeError::Input(format!(
            "its latent has {frames} frames, and this node is for pictures"
        ))),
    }
}

fn set_noise_mask(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let samples = call.latents("samples")?;
    Ok(vec![Value::from(Latents {
        noise_mask: Some(call.masks("mask")?),
        ..Latents::clone(&samples)
    })])
}

fn save(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (samples, prefix) = (call.latents("samples")?, call.text("filename_prefix")?);
    call.output(Made::Latent(samples.clone()), prefix)?;
    Ok(vec![Value::Latent(samples)])
}
