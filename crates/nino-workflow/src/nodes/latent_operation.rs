//! Operations on latents: what they are told, and what they do to one.

use super::filters::bell;
use crate::NodeError;
use crate::node::NodeDef;
use crate::node::table::{float, int, link, named, out};
use crate::run::Call;
use crate::types::Socket;
use crate::value::{Latents, Value};
use nino_engine::Latent;

const OPERATIONS: &str = "model/latent/advanced/operations";
/// How much more than its alpha sharpening does, as ComfyUI has it.
const EDGES: f64 = 10.0;

/// What is done to a latent. ComfyUI's LATENT_OPERATION.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LatentOperation {
    /// Long vectors are made shorter, the more the longer they are.
    Reinhard { multiplier: f32 },
    Sharpen {
        radius: usize,
        sigma: f64,
        alpha: f64,
    },
}

pub(super) static NODES: &[NodeDef] = &[
    NodeDef {
        class: "LatentOperationTonemapReinhard",
        display_name: "LatentOperationTonemapReinhard",
        category: OPERATIONS,
        inputs: &[float("multiplier", 1.0, (0.0, 100.0), 0.01)],
        outputs: &[named("LATENT_OPERATION", Socket::LatentOperation)],
        is_output: false,
        run: |call| {
            let multiplier = call.float("multiplier")? as f32;
            let operation = LatentOperation::Reinhard { multiplier };
            Ok(vec![Value::LatentOperation(operation)])
        },
    },
    NodeDef {
        class: "LatentOperationSharpen",
        display_name: "LatentOperationSharpen",
        category: OPERATIONS,
        inputs: &[
            int("sharpen_radius", 9, (1, 31), 1),
            float("sigma", 1.0, (0.1, 10.0), 0.1),
            float("alpha", 0.1, (0.0, 5.0), 0.01),
        ],
        outputs: &[named("LATENT_OPERATION", Socket::LatentOperation)],
        is_output: false,
        run: |call| {
            let operation = LatentOperation::Sharpen {
                radius: call.size("sharpen_radius")?,
                sigma: call.float("sigma")?,
                alpha: call.float("alpha")?,
            };
            Ok(vec![Value::LatentOperation(operation)])
        },
    },
    NodeDef {
        class: "LatentApplyOperation",
        display_name: "LatentApplyOperation",
        category: OPERATIONS,
        inputs: &[
            link("samples", Socket::Latent),
            link("operation", Socket::LatentOperation),
        ],
        outputs: &[out(Socket::Latent)],
        is_output: false,
        run: apply,
    },
];

fn apply(call: &mut Call<'_, '_>) -> Result<Vec<Value>, NodeError> {
    let samples = call.latents("samples")?;
    let mut latent = samples.latent.clone();
    match call.latent_operation("operation")? {
        LatentOperation::Reinhard { multiplier } => tonemap(&mut latent, multiplier),
        LatentOperation::Sharpen {
            radius,
            sigma,
            alpha,
        } => sharpen(&mut latent, radius, sigma, alpha)?,
    }
    Ok(vec![Value::from(Latents {
        latent,
        ..Latents::clone(&samples)
    })])
}

/// The length of a pixel's vector.
fn length(pixel: &[f32]) -> f32 {
    pixel.iter().map(|v| v * v).sum::<f32>().sqrt()
}

/// Reinhard's curve over the lengths of pixels, which reaches its top where few are.
fn tonemap(latent: &mut Latent, multiplier: f32) {
    let channels = latent.channels.max(1);
    let each = (latent.values.len() / latent.batch.max(1)).max(1);
    for item in latent.values.chunks_exact_mut(each) {
        let lengths = item.chunks_exact(channels);
        let lengths: Vec<f32> = lengths.map(|pixel| length(pixel) + 1e-10).collect();
        let n = lengths.len() as f64;
        let mean = lengths.iter().map(|&l| f64::from(l)).sum::<f64>() / n;
        let spread = lengths.iter().map(|&l| (f64::from(l) - mean).powi(2));
        let spread = (spread.sum::<f64>() / (n - 1.0)).sqrt();
        let top = (spread * 5.0 + mean) as f32 * multiplier;
        for (pixel, old) in item.chunks_exact_mut(channels).zip(lengths) {
            let of_top = old * (1.0 / top);
            let new = of_top / (of_top + 1.0) * top;
            pixel.iter_mut().for_each(|v| *v = *v / old * new);
        }
    }
}

/// Edges of the directions of pixels, whose lengths stay.
fn sharpen(latent: &mut Latent, radius: usize, sigma: f64, alpha: f64) -> Result<(), NodeError> {
    let (w, h, c) = (latent.width, latent.height, latent.channels.max(1));
    if latent.is_video || radius >= w.min(h) {
        return Err(NodeError::Input(format!(
            "a latent of {w}x{h} and {} frames is not sharpened with a radius of {radius}: it has \
             to be of a picture, and larger",
            latent.frames
        )));
    }
    let weights = bell(radius, sigma);
    let edges = (alpha * EDGES) as f32;
    for item in latent.values.chunks_exact_mut(w * h * c) {
        let lengths: Vec<f32> = item
            .chunks_exact(c)
            .map(|pixel| length(pixel) + 1e-6)
            .collect();
        let pixels = item.chunks_exact_mut(c).zip(&lengths);
        pixels.for_each(|(pixel, by)| pixel.iter_mut().for_each(|v| *v /= by));
        let soft = super::filters::softened(item, (w, h, c), &weights);
        let pixels = item
            .chunks_exact_mut(c)
            .zip(soft.chunks_exact(c))
            .zip(&lengths);
        for ((pixel, soft), by) in pixels {
            let values = pixel.iter_mut().zip(soft);
            values.for_each(|(v, soft)| *v = (*v + edges * (*v - soft)) * by);
        }
    }
    Ok(())
}
