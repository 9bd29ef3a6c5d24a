//! What to make: the whole of it, so that a request can be kept, repeated and written into a file.

use super::Checkpoint;
use super::denoise::LatentShape;
use crate::decode::DecodeOptions;
use nino_sample::{Rng, Sampler, Scheduler, Seed};

/// A picture to be made. [`GenerateRequest::new`] has the model's own settings; change what differs.
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

impl GenerateRequest {
    /// A request with the model's defaults and seed 0.
    pub fn new(model: &Checkpoint, prompt: &str) -> GenerateRequest {
        let defaults = model.defaults();
        GenerateRequest {
            prompt: prompt.to_owned(),
            negative: String::new(),
            seed: Seed {
                value: 0,
                rng: Rng::Torch,
            },
            steps: defaults.steps,
            cfg: defaults.cfg,
            sampler: Sampler::find(defaults.sampler).expect("defaults name samplers that exist"),
            scheduler: Scheduler::find(defaults.scheduler)
                .expect("defaults name schedulers that exist"),
            width: defaults.size,
            height: defaults.size,
            batch: 1,
            decode: DecodeOptions::default(),
        }
    }

    /// The latents it samples.
    pub(super) fn latent_shape(&self, model: &Checkpoint) -> LatentShape {
        let scale = model.vae.vae.scale();
        LatentShape {
            batch: self.batch,
            height: self.height / scale,
            width: self.width / scale,
            channels: model.unet().out_channels,
        }
    }
}
