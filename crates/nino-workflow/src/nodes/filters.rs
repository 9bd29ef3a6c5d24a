//! Pictures blended, blurred and sharpened.

use super::batch::{image, like};
use super::image::IMAGE;
use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{combo, float, int, link, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::Value;
use nino_engine::{Image, Upscale};

const FILTERS: &str = "image/filters";
/// How much the edges that [`sharpened`] adds count at an alpha of 1.
const EDGES: f64 = 10.0;

pub(super) static NODES: &[NodeDef] = &[
    image!(
        "ImageBlend",
        "Blend Images",
        FILTERS,
        [
            link("image1", Socket::Image),
            link("image2", Socket::Image),
            float("blend_factor", 0.5, (0.0, 1.0), 0.01),
            combo("blend_mode", || {
                vec![
                    "normal",
                    "multiply",
                    "screen",
                    "overlay",
                    "soft_light",
                    "difference",
                ]
            }),
        ],
        blend
    ),
    image!(
        "ImageBlur",
        "Blur Image",
        FILTERS,
        [
            IMAGE,
            int("blur_radius", 1, (1, 31), 1),
            float("sigma", 1.0, (0.1, 10.0), 0.1),
        ],
        |call| {
            let (radius, sigma) = (call.size("blur_radius")?, call.float("sigma")?);
            each(call, |image| blurred(image, radius, sigma))
        }
    ),
    image!(
        "ImageSharpen",
        "Sharpen Image",
        FILTERS,
        [
            IMAGE,
            int("sharpen_radius", 1, (1, 31), 1),
            float("sigma", 1.0, (0.1, 10.0), 0.01),
            float("alpha", 1.0, (0.0, 5.0), 0.01),
        ],
        |call| {
            let (radius, sigma) = (call.size("sharpen_radius")?, call.float("sigma")?);
            let alpha = call.float("alpha")?;
            each(call, |image| sharpened(image, radius, sigma, alpha))
        }
    ),
];

fn each(
    call: &Call<'_, '_>,
    change: impl Fn(&Image) -> Result<Image, NodeError>,
) -> Result<Vec<Value>, NodeError> {
    let images = call.images("image")?;
    let changed: Result<Vec<Image>, NodeError> = images.iter().map(change).collect();
    Ok(vec![Value::from(changed?)])
}

fn blend(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let (first, second) = (call.images("image1")?, call.images("image2")?);
    let share = call.float("blend_factor")? as f32;
    let mode = call.text("blend_mode")?;
    let mixed: fn(f32, f32) -> f32 = match &*mode {
        "multiply" => |a, b| a * b,
        "screen" => |a, b| 1.0 - (1.0 - a) * (1.0 - b),
        "overlay" => |a, b| {
            if a <= 0.5 {
                2.0 * a * b
            } else {
                1.0 - 2.0 * (1.0 - a) * (1.0 - b)
            }
        },
        "soft_light" => soft_light,
        "difference" => |a, b| a - b,
        _ => |_, b| b,
    };
    let n = first.len().max(second.len());
    let broadcast = |images: &[Image]| images.len() == 1 || images.len() == n;
    if !broadcast(&first) || !broadcast(&second) {
        let text = format!(
            "its pictures are batches of {} and {}, which do not go together",
            first.len(),
            second.len()
        );
        return Err(NodeError::Input(text));
    }
    let pairs = (0..n).map(|i| (&first[i % first.len()], &second[i % second.len()]));
    let blended = pairs.map(|(a, b)| {
        let b = like(b, a, Upscale::Bicubic);
        let values = a.values.iter().zip(&b.values);
        let values =
            values.map(|(&a, &b)| (a * (1.0 - share) + mixed(a, b) * share).clamp(0.0, 1.0));
        Image {
            values: values.collect(),
            ..*a
        }
    });
    Ok(vec![Value::from(blended.collect::<Vec<_>>())])
}

fn soft_light(a: f32, b: f32) -> f32 {
    if b <= 0.5 {
        return a - (1.0 - 2.0 * b) * a * (1.0 - a);
    }
    let light = if a <= 0.25 {
        ((16.0 * a - 12.0) * a + 4.0) * a
    } else {
        a.sqrt()
    };
    a + (2.0 * b - 1.0) * (light - a)
}

/// Weights of the neighbours along one axis: of a bell that spans -1 to 1.
pub(super) fn bell(radius: usize, sigma: f64) -> Vec<f32> {
    let at = |i: usize| (i as f64 - radius as f64) / radius as f64;
    let weights = (0..=2 * radius).map(|i| (-at(i) * at(i) / (2.0 * sigma * sigma)).exp());
    let weights: Vec<f64> = weights.collect();
    let sum: f64 = weights.iter().sum();
    weights.iter().map(|w| (w / sum) as f32).collect()
}

/// Beyond its edges a picture goes on as its mirror image.
fn blurred(image: &Image, radius: usize, sigma: f64) -> Result<Image, NodeError> {
    let (w, h) = (image.width, image.height);
    if radius >= w.min(h) {
        return Err(NodeError::Input(format!(
            "a radius of {radius} is too large for a picture of {w}x{h}"
        )));
    }
    Ok(Image {
        values: softened(&image.values, (w, h, 3), &bell(radius, sigma)),
        ..*image
    })
}

/// Rows of pixels of which each is the weighted mean of its neighbours: an odd number of them along
/// each side, of which the picture has more.
pub(super) fn softened(
    values: &[f32],
    (w, h, channels): (usize, usize, usize),
    weights: &[f32],
) -> Vec<f32> {
    let radius = weights.len() / 2;
    // The place of neighbour `k` of place `i` on a side of `n` pixels.
    let neighbour = |i: usize, k: usize, n: usize| {
        let at = (i + k).abs_diff(radius);
        if at < n { at } else { 2 * (n - 1) - at }
    };
    let along = |values: &[f32], sizes: [usize; 2], step: [usize; 2]| {
        let mut out = vec![0.0; values.len()];
        for line in 0..sizes[1] {
            for i in 0..sizes[0] {
                for c in 0..channels {
                    let value =
                        |k: usize| values[neighbour(i, k, sizes[0]) * step[0] + line * step[1] + c];
                    let sum = weights.iter().enumerate().map(|(k, w)| w * value(k)).sum();
                    out[i * step[0] + line * step[1] + c] = sum;
                }
            }
        }
        out
    };
    let across = along(values, [w, h], [channels, channels * w]);
    along(&across, [h, w], [channels * w, channels])
}

fn sharpened(image: &Image, radius: usize, sigma: f64, alpha: f64) -> Result<Image, NodeError> {
    let soft = blurred(image, radius, sigma)?;
    let edges = (alpha * EDGES) as f32;
    let pairs = image.values.iter().zip(&soft.values);
    let values = pairs.map(|(v, soft)| (v + edges * (v - soft)).clamp(0.0, 1.0));
    Ok(Image {
        values: values.collect(),
        ..*image
    })
}
