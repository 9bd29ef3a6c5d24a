//! Latents cut and put together along a side or along time.

use crate::NodeError;
use crate::node::table::{MAX_SIDE, combo, int, link, out};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::{Latents, Value};
use nino_engine::Latent;

const ADVANCED: &str = "model/latent/advanced";
const SAMPLES: InputDef = link("samples", Socket::Latent);
const COUNT: (i128, i128) = (1, MAX_SIDE);

/// A node that gives latents.
macro_rules! latent {
    ($class:literal, [$($input:expr),* $(,)?], $run:expr) => {
        NodeDef {
            class: $class,
            display_name: $class,
            category: ADVANCED,
            inputs: &[$($input),*],
            outputs: &[out(Socket::Latent)],
            is_output: false,
            run: $run,
        }
    };
}

pub(super) static NODES: &[NodeDef] = &[
    latent!(
        "LatentConcat",
        [
            link("samples1", Socket::Latent),
            link("samples2", Socket::Latent),
            combo("dim", || vec!["x", "-x", "y", "-y", "t", "-t"]),
        ],
        concat
    ),
    latent!(
        "LatentCut",
        [
            SAMPLES,
            combo("dim", || vec!["x", "y", "t"]),
            int("index", 0, (-MAX_SIDE, MAX_SIDE), 1),
            int("amount", 1, COUNT, 1),
        ],
        cut
    ),
    latent!(
        "LatentCutToBatch",
        [
            SAMPLES,
            combo("dim", || vec!["t", "x", "y"]),
            int("slice_size", 1, COUNT, 1),
        ],
        cut_to_batch
    ),
];

/// A way to go through a latent, `[b, t, h, w, c]`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Axis {
    Time,
    Down,
    Across,
}

impl Axis {
    fn of(call: &Call<'_, '_>) -> Result<Axis, NodeError> {
        Ok(match call.text("dim")?.trim_start_matches('-') {
            "x" => Axis::Across,
            "y" => Axis::Down,
            _ => Axis::Time,
        })
    }

    /// How many places a latent has along it.
    fn size(self, latent: &Latent) -> usize {
        match self {
            Axis::Time => latent.frames,
            Axis::Down => latent.height,
            Axis::Across => latent.width,
        }
    }

    /// Values of one place.
    fn inner(self, latent: &Latent) -> usize {
        let row = latent.width * latent.channels;
        match self {
            Axis::Time => latent.height * row,
            Axis::Down => row,
            Axis::Across => latent.channels,
        }
    }

    /// A latent of another size along it.
    fn resized(self, latent: &Latent, size: usize, values: Vec<f32>) -> Latent {
        let mut made = Latent { values, ..*latent };
        match self {
            Axis::Time => made.frames = size,
            Axis::Down => made.height = size,
            Axis::Across => made.width = size,
        }
        made
    }

    /// The part of a latent, or of some of its batch, from a place on.
    fn part(self, latent: &Latent, values: &[f32], start: usize, size: usize) -> Vec<f32> {
        let inner = self.inner(latent);
        let lines = values.chunks_exact((self.size(latent) * inner).max(1));
        let parts = lines.flat_map(|line| &line[start * inner..(start + size) * inner]);
        parts.copied().collect()
    }
}

/// Time is a thing of clips: of pictures, ComfyUI would cut channels.
fn has_axis(latent: &Latent, axis: Axis) -> Result<(), NodeError> {
    if axis == Axis::Time && !latent.is_video {
        let text = "its latent is of a picture, which has no time to cut".to_owned();
        return Err(NodeError::Input(text));
    }
    Ok(())
}

fn cut(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (samples, axis) = (call.latents("samples")?, Axis::of(call)?);
    let latent = &samples.latent;
    has_axis(latent, axis)?;
    let n = axis.size(latent);
    let (index, amount) = (call.int("index")?, call.size("amount")?);
    // Negative places are counted from the end.
    let start = match index {
        0.. => (index as usize).min(n.saturating_sub(1)),
        _ => n.saturating_sub(index.unsigned_abs() as usize),
    };
    let amount = amount.min(n - start);
    let values = axis.part(latent, &latent.values, start, amount);
    let mut made = Latents {
        latent: axis.resized(latent, amount, values),
        ..Latents::clone(&samples)
    };
    if axis == Axis::Time && !made.frame_mask.is_empty() {
        made.frame_mask = made
            .frame_mask
            .into_iter()
            .skip(start)
            .take(amount)
            .collect();
    }
    Ok(vec![Value::from(made)])
}

fn concat(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (samples, others) = (call.latents("samples1")?, call.latents("samples2")?);
    let (axis, is_before) = (Axis::of(call)?, call.text("dim")?.starts_with('-'));
    let (first, second) = (&samples.latent, &others.latent);
    has_axis(first, axis)?;
    let fits = |other: Axis| axis == other || other.size(first) == other.size(second);
    let same = [Axis::Time, Axis::Down, Axis::Across].into_iter().all(fits);
    if !same || first.channels != second.channels || second.batch == 0 {
        let shape = |l: &Latent| format!("{}x{}x{}x{}", l.channels, l.frames, l.height, l.width);
        return Err(NodeError::Input(format!(
            "latents of {} and {} (channels, frames, rows, columns) do not go together",
            shape(first),
            shape(second)
        )));
    }
    let sizes = [axis.size(first), axis.size(second)];
    let lines = first.values.len() / sizes[0].max(1);
    call.room_for("a latent", &[lines, sizes[0] + sizes[1]])?;
    let mut values = Vec::with_capacity(lines * (sizes[0] + sizes[1]));
    for b in 0..first.batch {
        // What is fewer begins anew.
        let both = [first.item(b), second.item(b % second.batch)];
        let inner = axis.inner(first);
        let n = first.item(b).len() / (sizes[0] * inner).max(1);
        for line in 0..n {
            let part = |i: usize| {
                let each = sizes[i] * inner;
                &both[i][line * each..(line + 1) * each]
            };
            let order = if is_before { [1, 0] } else { [0, 1] };
            order
                .iter()
                .for_each(|&i| values.extend_from_slice(part(i)));
        }
    }
    let mut made = Latents {
        latent: axis.resized(first, sizes[0] + sizes[1], values),
        ..Latents::clone(&samples)
    };
    if axis == Axis::Time {
        made.frame_mask = joined_masks(&samples, &others, is_before);
    }
    Ok(vec![Value::from(made)])
}

/// How much each frame of two clips one after the other is to be made.
fn joined_masks(first: &Latents, second: &Latents, is_before: bool) -> Vec<f32> {
    if first.frame_mask.is_empty() && second.frame_mask.is_empty() {
        return Vec::new();
    }
    let mask = |latents: &Latents| {
        if latents.frame_mask.is_empty() {
            vec![1.0; latents.latent.frames]
        } else {
            latents.frame_mask.clone()
        }
    };
    let (first, second) = (mask(first), mask(second));
    if is_before {
        [second, first].concat()
    } else {
        [first, second].concat()
    }
}

fn cut_to_batch(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (samples, axis) = (call.latents("samples")?, Axis::of(call)?);
    let latent = &samples.latent;
    if has_axis(latent, axis).is_err() {
        return Ok(vec![Value::Latent(samples)]);
    }
    let n = axis.size(latent);
    let size = call.size("slice_size")?.clamp(1, n.max(1));
    // What is left of the last piece is not kept.
    let pieces = n / size;
    let each = (0..latent.batch).flat_map(|b| (0..pieces).map(move |i| (b, i)));
    let values = each.flat_map(|(b, i)| axis.part(latent, latent.item(b), i * size, size));
    let mut made = axis.resized(latent, size, values.collect());
    made.batch = latent.batch * pieces;
    Ok(vec![Value::from(Latents {
        latent: made,
        noise_mask: samples.noise_mask.clone(),
        frame_mask: Vec::new(),
        batch_index: None,
        empty_scale: samples.empty_scale,
    })])
}
