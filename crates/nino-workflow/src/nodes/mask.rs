//! Masks: made, inverted, grown and softened.

use crate::NodeError;
use crate::node::table::{MAX_SIDE, boolean, float, int, link, out};
use crate::node::{InputDef, NodeDef};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::Mask;

const SIDE: (i128, i128) = (0, MAX_SIDE);
pub(super) const MASK: InputDef = link("mask", Socket::Mask);

/// A node that gives a mask.
macro_rules! mask {
    ($class:literal, $name:literal, [$($input:expr),* $(,)?], $run:expr) => {
        NodeDef {
            class: $class,
            display_name: $name,
            category: "image/mask",
            inputs: &[$($input),*],
            outputs: &[out(Socket::Mask)],
            is_output: false,
            run: $run,
        }
    };
}

pub(super) use mask;

pub(super) static NODES: &[NodeDef] = &[
    mask!(
        "SolidMask",
        "Create Solid Mask",
        [
            float("value", 1.0, (0.0, 1.0), 0.01),
            int("width", 512, (1, MAX_SIDE), 1),
            int("height", 512, (1, MAX_SIDE), 1),
        ],
        solid
    ),
    mask!("InvertMask", "Invert Mask", [MASK], |call| {
        each(call, |mask| {
            mask.values.iter_mut().for_each(|v| *v = 1.0 - *v);
        })
    }),
    mask!(
        "GrowMask",
        "Grow Mask",
        [
            MASK,
            int("expand", 0, (-MAX_SIDE, MAX_SIDE), 1),
            boolean("tapered_corners", true),
        ],
        grow
    ),
    mask!(
        "FeatherMask",
        "Feather Mask",
        [
            MASK,
            int("left", 0, SIDE, 1),
            int("top", 0, SIDE, 1),
            int("right", 0, SIDE, 1),
            int("bottom", 0, SIDE, 1),
        ],
        feather
    ),
];

/// The only mask of a batch. Masks for each picture of a batch are not supported.
pub(super) fn one<'m>(masks: &'m [Mask], what: &str) -> Result<&'m Mask, NodeError> {
    match masks {
        [first, rest @ ..] if rest.iter().all(|mask| mask == first) => Ok(first),
        _ => Err(NodeError::Input(format!(
            "its {what} is a batch of {} different ones, where one is supported",
            masks.len()
        ))),
    }
}

pub(super) fn each(
    call: &mut Call<'_, '_>,
    change: impl Fn(&mut Mask),
) -> Result<Vec<Value>, NodeError> {
    let mut masks = call.masks("mask")?.to_vec();
    masks.iter_mut().for_each(change);
    Ok(vec![Value::from(masks)])
}

fn solid(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (width, height) = (call.size("width")?, call.size("height")?);
    call.room_for_new("a mask", &[width, height])?;
    let mask = Mask {
        width,
        height,
        values: vec![call.float("value")? as f32; width * height],
    };
    Ok(vec![Value::from(vec![mask])])
}

/// The largest value of every place's neighbours, or the smallest, as often as asked for.
fn grow(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let expand = call.int("expand")?;
    let tapered = call.boolean("tapered_corners")?;
    let better: fn(f32, f32) -> f32 = if expand < 0 { f32::min } else { f32::max };
    let times = expand.unsigned_abs() as usize;
    let mut masks = call.masks("mask")?.to_vec();
    for mask in &mut masks {
        // Beyond its sides nothing changes any more.
        for _ in 0..times.min(mask.width + mask.height) {
            if call
                .control
                .cancel
                .load(std::sync::atomic::Ordering::Relaxed)
            {
                return Err(nino_engine::EngineError::Cancelled.into());
            }
            let grown = grown(mask, tapered, better);
            if grown == mask.values {
                break;
            }
            mask.values = grown;
        }
    }
    Ok(vec![Value::from(masks)])
}

/// One step: beyond the border a mask repeats its border.
fn grown(mask: &Mask, tapered: bool, better: fn(f32, f32) -> f32) -> Vec<f32> {
    let (w, h) = (mask.width, mask.height);
    let at = |x: usize, y: usize| mask.values[y * w + x];
    let mut out = Vec::with_capacity(mask.values.len());
    for y in 0..h {
        let (above, below) = (y.saturating_sub(1), (y + 1).min(h - 1));
        for x in 0..w {
            let (left, right) = (x.saturating_sub(1), (x + 1).min(w - 1));
            let cross = [
                at(x, y),
                at(left, y),
                at(right, y),
                at(x, above),
                at(x, below),
            ];
            let mut best = cross.into_iter().reduce(better).unwrap_or(0.0);
            if !tapered {
                let corners = [(left, above), (right, above), (left, below), (right, below)];
                best = corners
                    .iter()
                    .fold(best, |best, &(x, y)| better(best, at(x, y)));
            }
            out.push(best);
        }
    }
    out
}

/// Rows and columns next to the sides fade.
fn feather(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let [left, top, right, bottom] = ["left", "top", "right", "bottom"].map(|s| call.size(s));
    let (left, top, right, bottom) = (left?, top?, right?, bottom?);
    each(call, |mask| {
        let (w, h) = (mask.width, mask.height);
        // How much is left at a distance from a side that fades over `n`.
        let rate = |distance: usize, n: usize| match n {
            0 => 1.0,
            n if distance < n => (distance + 1) as f32 / n as f32,
            _ => 1.0,
        };
        let (left, right) = (left.min(w), right.min(w));
        let (top, bottom) = (top.min(h), bottom.min(h));
        for (i, v) in mask.values.iter_mut().enumerate() {
            let (x, y) = (i % w, i / w);
            *v *= rate(x, left);
            *v *= rate(w - 1 - x, right);
            *v *= rate(y, top);
            *v *= rate(h - 1 - y, bottom);
        }
    })
}
