//! Text to pictures: encode the prompts, sample a latent, decode it. The three models are loaded one
//! after the other, so that the largest of them is what memory has to hold.

mod checkpoint;
mod denoise;
mod text;

use crate::decode::{DecodeOptions, Decoded, decode};
use crate::{Control, EngineError, Latent, Picture};
pub use checkpoint::{Checkpoint, Defaults, Family};
use denoise::{LatentShape, Unet};
use nino_graph::Device;
use nino_sample::ksampler::{self, Job};
use nino_sample::{Guided, Options, Sampler, Scheduler, Seed, Step, Stop, needs_negative, noise};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What to make.
#[derive(Clone, Debug)]
pub struct GenerateRequest {
    pub prompt: String,
    pub negative: String,
    pub seed: Seed,
    pub steps: usize,
    pub cfg: f32,
    pub sampler: &'static Sampler,
    pub scheduler: Scheduler,
    /// Pixels, multiples of 8.
    pub width: usize,
    pub height: usize,
    /// Pictures at a time, from one stream of noise.
    pub batch: usize,
    pub decode: DecodeOptions,
}

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
    let scale = model.vae.vae.scale();
    let shape = LatentShape {
        batch: request.batch,
        height: request.height / scale,
        width: request.width / scale,
        channels: model.unet().out_channels,
    };
    let sigmas = ksampler::sigmas(
        &model.sampling,
        request.sampler,
        request.scheduler,
        request.steps,
        1.0,
    )?;

    control.stage("text")?;
    let started = Instant::now();
    let guided = needs_negative(request.cfg) || request.sampler.name.contains("cfg_pp");
    let (positive, negative) = text::encode(device, model, request, control)?;
    let text_time = started.elapsed();

    control.stage("load")?;
    let started = Instant::now();
    let plan = denoise::plan(device, model, shape, positive.tokens, guided)?;
    let weights = device.load(&[&plan.plan], Arc::new(model.unet_params()))?;
    let session = device.session(plan.plan.clone(), &weights)?;
    let load_time = started.elapsed();

    control.stage("sample")?;
    let started = Instant::now();
    let mut error = None;
    let cancel = control.cancel;
    let unet = Unet {
        session,
        plan: &plan,
        shape,
        positive: &positive,
        negative: &negative,
        cancel,
        error: &mut error,
    };
    let mut denoiser = Guided::new(unet, &model.sampling, request.cfg);
    let n = shape.batch * shape.image_len();
    let initial = noise::initial(request.seed, n);
    let job = Job {
        model: &model.sampling,
        sampler: request.sampler,
        sigmas: &sigmas,
        seed: request.seed,
        options: &Options::default(),
        latent: &vec![0.0; n],
        noise: &initial,
        mask: None,
    };
    let mut on_step = |step: &Step<'_>| {
        control
            .progress(step.index + 1, step.total)
            .map_err(|_| Stop)
    };
    let sampled = ksampler::sample(&job, &mut denoiser, &mut on_step);
    drop(denoiser);
    if let Some(error) = error {
        return Err(error);
    }
    control.check()?;
    let sampled = sampled?;
    let sample_time = started.elapsed();
    let peak = plan.plan.weight_bytes() + plan.plan.arena_bytes();
    drop((weights, plan));

    let latent = finished(model, shape, &sampled);
    on_latent(&latent)?;
    let options = DecodeOptions {
        format: model.latent_format(),
        ..request.decode
    };
    let mut pictures = Vec::new();
    let decoded = decode(
        device,
        &model.vae,
        &latent,
        &options,
        control,
        &mut |_, _, picture| {
            pictures.push(picture);
            Ok(())
        },
    )?;
    let peak_bytes = peak.max(decoded.measured_peak);
    Ok(Generated {
        pictures,
        decoded,
        peak_bytes,
        text_time,
        load_time,
        sample_time,
    })
}

/// The sampled latent in the VAE's units, as files hold it.
fn finished(model: &Checkpoint, shape: LatentShape, sampled: &[f32]) -> Latent {
    let mut latent = Latent {
        batch: shape.batch,
        frames: 1,
        height: shape.height,
        width: shape.width,
        channels: shape.channels,
        values: denoise::channels_last(sampled, shape),
        is_video: false,
    };
    if let Some(format) = model.latent_format() {
        latent.scale_to_vae(format);
    }
    latent
}
