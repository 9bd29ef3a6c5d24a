//! The sampling stage: a UNet on the device, moved through the noise levels of a request.

use super::denoise::{self, LatentShape, Unet};
use super::text::Conditioning;
use super::{Checkpoint, GenerateRequest};
use crate::{Control, EngineError, Latent};
use nino_graph::Device;
use nino_sample::ksampler::{self, Job};
use nino_sample::{Guided, Options, Step, Stop, needs_negative, noise};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A finished latent, and what it took.
pub(super) struct Sampled {
    /// In the VAE's units, as files hold it.
    pub(super) latent: Latent,
    /// Weights and activations.
    pub(super) peak_bytes: usize,
    pub(super) load_time: Duration,
    pub(super) sample_time: Duration,
}

pub(super) fn sample(
    device: &dyn Device,
    model: &Checkpoint,
    request: &GenerateRequest,
    (positive, negative): &(Conditioning, Conditioning),
    control: &mut Control<'_>,
) -> Result<Sampled, EngineError> {
    let shape = request.latent_shape(model);
    let sigmas = ksampler::sigmas(
        &model.sampling,
        request.sampler,
        request.scheduler,
        request.steps,
        1.0,
    )?;

    control.stage("load")?;
    let started = Instant::now();
    let guided = needs_negative(request.cfg) || request.sampler.name.contains("cfg_pp");
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
        positive,
        negative,
        cancel,
        error: &mut error,
    };
    let mut denoiser = Guided::new(unet, &model.sampling, request.cfg);
    let n = shape.batch * shape.image_len();
    let job = Job {
        model: &model.sampling,
        sampler: request.sampler,
        sigmas: &sigmas,
        seed: request.seed,
        options: &Options::default(),
        latent: &vec![0.0; n],
        noise: &noise::initial(request.seed, n),
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
    Ok(Sampled {
        latent: finished(model, shape, &sampled?),
        peak_bytes: plan.plan.device_bytes(),
        load_time,
        sample_time: started.elapsed(),
    })
}

/// The sampled latent in the VAE's units.
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
