//! Latents added, blended, put together, cut and turned.

use super::latent::{SCALE, centered, picture_latents};
use crate::NodeError;
use crate::node::table::{MAX_SIDE, combo, float, int, link, out};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::{Latents, Value};
use nino_engine::{Latent, Upscale};

const ADVANCED: &str = "model/latent/advanced";
const TRANSFORM: &str = "model/latent/transform";
const FIRST: InputDef = link("samples1", Socket::Latent);
const SECOND: InputDef = link("samples2", Socket::Latent);
const SAMPLES: InputDef = link("samples", Socket::Latent);
/// The least side that `LatentCrop` leaves, in latent pixels.
const LEAST: usize = 8;

/// A node that gives latents.
macro_rules! latent {
    ($class:literal, $name:literal, $category:expr, [$($input:expr),* $(,)?], $run:expr) => {
        NodeDef {
            class: $class,
            display_name: $name,
            category: $category,
            inputs: &[$($input),*],
            outputs: &[out(Socket::Latent)],
            is_output: false,
            run: $run,
        }
    };
}

pub(super) static NODES: &[NodeDef] = &[
    latent!(
        "LatentAdd",
        "LatentAdd",
        ADVANCED,
        [FIRST, SECOND],
        |call| { both(call, Upscale::Bilinear, |a, b| a + b) }
    ),
    latent!(
        "LatentSubtract",
        "LatentSubtract",
        ADVANCED,
        [FIRST, SECOND],
        |call| both(call, Upscale::Bilinear, |a, b| a - b)
    ),
    latent!(
        "LatentMultiply",
        "LatentMultiply",
        ADVANCED,
        [SAMPLES, float("multiplier", 1.0, (-10.0, 10.0), 0.01)],
        |call| {
            let by = call.float("multiplier")? as f32;
            changed(call, |latent| {
                let mut latent = latent.clone();
                latent.values.iter_mut().for_each(|v| *v *= by);
                latent
            })
        }
    ),
    latent!(
        "LatentBlend",
        "Latent Blend",
        "experimental",
        [FIRST, SECOND, float("blend_factor", 0.5, (0.0, 1.0), 0.01)],
        |call| {
            let share = call.float("blend_factor")? as f32;
            both(call, Upscale::Bicubic, |a, b| a * share + b * (1.0 - share))
        }
    ),
    latent!(
        "LatentBatch",
        "Batch Latents (DEPRECATED)",
        "model/latent/batch",
        [FIRST, SECOND],
        batch
    ),
    latent!(
        "LatentCrop",
        "Crop Latent",
        TRANSFORM,
        [
            SAMPLES,
            int("width", 512, (64, MAX_SIDE), 8),
            int("height", 512, (64, MAX_SIDE), 8),
            int("x", 0, (0, MAX_SIDE), 8),
            int("y", 0, (0, MAX_SIDE), 8),
        ],
        crop
    ),
    latent!(
        "LatentFlip",
        "Flip Latent",
        TRANSFORM,
        [
            SAMPLES,
            combo("flip_method", || {
                vec!["x-axis: vertically", "y-axis: horizontally"]
            }),
        ],
        |call| {
            let vertically = call.text("flip_method")?.starts_with('x');
            changed(call, |latent| {
                let (w, h) = (latent.width, latent.height);
                placed(latent, (w, h), |x, y| {
                    if vertically {
                        (x, h - 1 - y)
                    } else {
                        (w - 1 - x, y)
                    }
                })
            })
        }
    ),
    latent!(
        "LatentRotate",
        "Rotate Latent",
        TRANSFORM,
        [
            SAMPLES,
            combo("rotation", || {
                vec!["none", "90 degrees", "180 degrees", "270 degrees"]
            }),
        ],
        rotate
    ),
];

fn changed(
    call: &Call<'_, '_>,
    change: impl FnOnce(&Latent) -> Latent,
) -> Result<Vec<Value>, NodeError> {
    let samples = call.latents("samples")?;
    Ok(vec![Value::from(Latents {
        latent: change(picture_latents(&samples)?),
        ..Latents::clone(&samples)
    })])
}

/// The second latent at the size of the first one.
fn like(second: &Latent, first: &Latent, how: Upscale) -> Result<Latent, NodeError> {
    if second.channels != first.channels || second.batch == 0 {
        return Err(NodeError::Input(format!(
            "latents of {} and of {} channels do not go together",
            first.channels, second.channels
        )));
    }
    if (second.width, second.height) == (first.width, first.height) {
        return Ok(second.clone());
    }
    let part = centered(second, first.width as f64 / first.height as f64);
    Ok(part.resized(first.height, first.width, how))
}

/// The first latents changed by the second ones, which are repeated where they are fewer.
fn both(
    call: &Call<'_, '_>,
    how: Upscale,
    f: impl Fn(f32, f32) -> f32,
) -> Result<Vec<Value>, NodeError> {
    let (samples, others) = (call.latents("samples1")?, call.latents("samples2")?);
    let mut first = picture_latents(&samples)?.clone();
    let second = like(picture_latents(&others)?, &first, how)?;
    let each = second.values.len() / second.batch;
    for (i, item) in first.values.chunks_exact_mut(each.max(1)).enumerate() {
        let other = second.item(i % second.batch);
        item.iter_mut().zip(other).for_each(|(a, b)| *a = f(*a, *b));
    }
    Ok(vec![Value::from(Latents {
        latent: first,
        ..Latents::clone(&samples)
    })])
}

fn batch(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (samples, others) = (call.latents("samples1")?, call.latents("samples2")?);
    let mut first = picture_latents(&samples)?.clone();
    let second = like(picture_latents(&others)?, &first, Upscale::Bilinear)?;
    call.room_for("a latent", &[first.values.len() + second.values.len()])?;
    let places = |samples: &Latents| {
        let own = (0..samples.latent.batch).collect();
        samples.batch_index.clone().unwrap_or(own)
    };
    let batch_index = [places(&samples), places(&others)].concat();
    first.batch += second.batch;
    first.values.extend(second.values);
    Ok(vec![Value::from(Latents {
        latent: first,
        batch_index: Some(batch_index),
        ..Latents::clone(&samples)
    })])
}

/// A latent of that size, whose pixels are those at the places that `from` gives.
fn placed(
    latent: &Latent,
    (width, height): (usize, usize),
    from: impl Fn(usize, usize) -> (usize, usize),
) -> Latent {
    let c = latent.channels;
    let mut values = Vec::with_capacity(latent.batch * width * height * c);
    for b in 0..latent.batch {
        let item = latent.item(b);
        for (y, x) in (0..height).flat_map(|y| (0..width).map(move |x| (y, x))) {
            let (x, y) = from(x, y);
            let at = (y * latent.width + x) * c;
            values.extend_from_slice(&item[at..at + c]);
        }
    }
    Latent {
        width,
        height,
        values,
        ..latent.clone()
    }
}

fn crop(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let sizes = ["x", "y", "width", "height"].map(|input| call.size(input));
    let [x, y, width, height] = sizes;
    let (x, y, width, height) = (x? / SCALE, y? / SCALE, width? / SCALE, height? / SCALE);
    changed(call, |latent| {
        let x = x.min(latent.width.saturating_sub(LEAST));
        let y = y.min(latent.height.saturating_sub(LEAST));
        let size = (width.min(latent.width - x), height.min(latent.height - y));
        placed(latent, size, |column, row| (column + x, row + y))
    })
}

fn rotate(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let rotation = call.text("rotation")?;
    changed(call, |latent| {
        let (w, h) = (latent.width, latent.height);
        match &*rotation {
            "90 degrees" => placed(latent, (h, w), |x, y| (y, h - 1 - x)),
            "180 degrees" => placed(latent, (w, h), |x, y| (w - 1 - x, h - 1 - y)),
            "270 degrees" => placed(latent, (h, w), |x, y| (w - 1 - y, x)),
            _ => latent.clone(),
        }
    })
}
