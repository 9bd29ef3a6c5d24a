//! Text to pictures: encode the prompts, sample a latent, decode it. The three models are loaded one
//! after the other, so that the largest of them is what memory has to hold.

mod checkpoint;
mod denoise;
mod dry;
mod few_steps;
mod levels;
mod lora;
mod plan;
mod preview;
mod remade;
mod request;
mod residency;
mod sample;
mod spec;
mod start;
mod stopped;
#[cfg(test)]
mod tests;
mod text;

use crate::decode::{DecodeOptions, Decoded, LatentSize, decode, plan_decode};
use crate::{Control, EngineError, Latent, Mask, Picture};
pub use checkpoint::{Checkpoint, Defaults, Family, ModelFiles};
pub use lora::{Applied, LoraSpec};
use nino_graph::Device;
pub use plan::{GeneratePlan, Residency, StagePlan, plan_generate};
pub use request::{Fill, GenerateRequest, Hires, Inpaint, Preview, Start, Told};
pub use residency::Resident;
use sample::Work;
pub use spec::MODEL_SPECS;
use std::time::{Duration, Instant};
pub use stopped::{GoOn, Stopped};
pub use text::embedding_size;

/// Pictures, and how they came about.
#[derive(Debug)]
pub struct Generated {
    pub pictures: Vec<Picture>,
    pub decoded: Decoded,
    /// Weights and activations of the largest stage.
    pub peak_bytes: usize,
    pub text_time: Duration,
    pub load_time: Duration,
    pub sample_time: Duration,
}

/// A latent that took long to make.
#[derive(Clone, Copy, Debug)]
pub struct Kept<'a> {
    /// To be decoded: sampled, or the picture a stopped run had come to.
    pub latent: &'a Latent,
    pub stopped: Option<&'a Stopped>,
}

/// Hears the latent before it is decoded, or before an error in the midst of sampling is told, so that no
/// sampling is ever lost.
pub type OnLatent<'a> = dyn FnMut(Kept<'_>) -> Result<(), EngineError> + 'a;

pub fn generate(
    device: &dyn Device,
    model: &Checkpoint,
    request: &GenerateRequest,
    control: &mut Control<'_>,
    on_latent: &mut OnLatent<'_>,
) -> Result<Generated, EngineError> {
    request.check(model)?;
    let options = DecodeOptions {
        format: model.latent_format(),
        ..request.decode
    };
    plan_decode(device, &model.vae, latent_size(model, request), &options)?;

    control.stage("text")?;
    let started = Instant::now();
    let prompts = text::encode(device, model, request, control)?;
    let text_time = started.elapsed();

    let work = Work {
        device,
        model,
        request,
    };
    let planned = sample::plan(work, prompts.0.tokens)?;
    let canvas = start::prepare(device, model, request, control)?;
    let pasted = pasted(request, canvas.mask.as_ref());
    let sampled = sample::sample(work, &planned, canvas, &prompts, control, on_latent)?;
    on_latent(Kept {
        latent: &sampled.latent,
        stopped: None,
    })?;

    let mut pictures = Vec::new();
    let decoded = decode(
        device,
        &model.vae,
        &sampled.latent,
        &options,
        control,
        &mut |_, _, picture| {
            pictures.push(match &pasted {
                Some((original, mask)) => picture.painted_over(original, mask),
                None => picture,
            });
            Ok(())
        },
    )?;
    Ok(Generated {
        pictures,
        peak_bytes: sampled.peak_bytes.max(decoded.measured_peak),
        decoded,
        text_time,
        load_time: sampled.load_time,
        sample_time: sampled.sample_time,
    })
}

fn latent_size(model: &Checkpoint, request: &GenerateRequest) -> LatentSize {
    let scale = model.vae.vae.scale();
    let (width, height) = request.final_size();
    LatentSize {
        frames: 1,
        height: height / scale,
        width: width / scale,
    }
}

/// The start picture at the final size and the mask outside of which it shows, where that was asked for.
fn pasted(request: &GenerateRequest, mask: Option<&Mask>) -> Option<(Picture, Mask)> {
    let Start::Picture(picture) = &request.start else {
        return None;
    };
    request.inpaint.as_ref().filter(|i| i.paste)?;
    let (width, height) = request.final_size();
    Some((picture.fitted(width, height), mask?.resized(width, height)))
}
