//! Schedules, samplers, guidance, prediction types and torch-compatible noise: host f32 math.
//!
//! A run goes: [`ksampler::sigmas`] picks noise levels for a [`ModelSampling`], [`noise::initial`]
//! draws the noise a seed names, [`Guided`] makes a denoiser of a network, [`ksampler::sample`]
//! moves the latent through the levels. Names, defaults and numbers are ComfyUI's; latents are
//! flat, in torch's order [b, c, h, w].

mod ancestral;
mod brownian;
mod error;
mod exact;
mod guidance;
mod inpaint;
pub mod ksampler;
mod linear;
pub mod model;
mod names;
pub mod noise;
mod parallel;
mod prediction;
mod registry;
pub mod rng;
mod sampler;
pub mod samplers;
pub mod schedule;
mod step_cache;

pub use brownian::BrownianTree;
pub use error::{Error, Stop};
pub use guidance::{
    Beside, Blend, Correction, Guided, Items, Network, Perpendicular, Rescale, SelfAttention,
    SkippedLayers, ThreeWay, combine, combine_normed, combine_rescaled, needs_negative,
};
pub use inpaint::Inpaint;
pub use model::ModelSampling;
pub use names::{Labelled, Name, SAMPLER_NAMES, SCHEDULER_NAMES};
pub use noise::Seed;
pub use prediction::Prediction;
pub use registry::{Restart, SAMPLERS, Sampler, StepNoiseKind, nearest};
pub use rng::Rng;
pub use sampler::{Adams, Adaptive, Denoise, Options, Output, Run, Solver, Step};
pub use schedule::Scheduler;
pub use step_cache::{CacheWay, Reuses, StepCache};
