//! Text to pictures: encode the prompts, sample a latent, decode it. The three models are loaded one
//! after the other, so that the largest of them is what memory has to hold.

mod checkpoint;
mod denoise;
mod lora;
mod request;
mod sample;
mod text;

use crate::decode::{DecodeOptions, Decoded, decode};
use crate::{Control, EngineError, Latent, Picture};
pub use checkpoint::{Checkpoint, Defaults, Family, ModelFiles};
pub use lora::{Applied, LoraSpec};
use nino_graph::Device;
pub use request::GenerateRequest;
use std::time::{Duration, Instant};

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

/// Hears the finished latent before it is decoded, so that no sampling is ever lost.
pub type OnLatent<'a> = dyn FnMut(&Latent) -> Result<(), EngineError> + 'a;

pub fn generate(
    device: &dyn Device,
    model: &Checkpoint,
    request: &GenerateRequest,
    control: &mut Control<'_>,
    on_latent: &mut OnLatent<'_>,
) -> Result<Generated, EngineError> {
    control.stage("text")?;
    let started = Instant::now();
    let prompts = text::encode(device, model, request, control)?;
    let text_time = started.elapsed();

    let sampled = sample::sample(device, model, request, &prompts, control)?;
    on_latent(&sampled.latent)?;

    let options = DecodeOptions {
        format: model.latent_format(),
        ..request.decode
    };
    let mut pictures = Vec::new();
    let decoded = decode(
        device,
        &model.vae,
        &sampled.latent,
        &options,
        control,
        &mut |_, _, picture| {
            pictures.push(picture);
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
