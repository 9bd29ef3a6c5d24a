//! How noise becomes a latent.

use crate::args::{SeedArg, number, seed, whole};
use clap::Args;

#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// Same seed, same picture; -1 draws a new one [default: a new one, which the report names]
    #[arg(long, value_name = "N", value_parser = seed)]
    pub(crate) seed: Option<SeedArg>,
    /// Steps of sampling [default: the model's]
    #[arg(short, long, value_name = "N", value_parser = whole::<u32>(1..=10_000))]
    pub(crate) steps: Option<u32>,
    /// How closely to follow the prompt; 1 ignores --negative and is twice as fast [default: the
    /// model's]
    #[arg(long, alias = "cfg-scale", value_name = "N", value_parser = number(-100.0..=100.0))]
    pub(crate) cfg: Option<f64>,
    /// What Flux is told of the guidance, beside --cfg [default: 3.5]
    #[arg(long, value_name = "N", value_parser = number(0.0..=100.0))]
    pub(crate) guidance: Option<f64>,
    /// Take back the contrast that --cfg adds: 0 leaves it, 1 takes all, 0.7 is usual
    #[arg(long, value_name = "N", default_value_t = 0.0, value_parser = number(0.0..=1.0))]
    pub(crate) cfg_rescale: f64,
    /// Sampler, by ComfyUI's, A1111's or stable-diffusion.cpp's name; `nino samplers` lists them
    /// [default: the model's]
    #[arg(long, alias = "sampling-method", value_name = "NAME")]
    pub(crate) sampler: Option<String>,
    /// Scheduler, by the same names [default: the model's]
    #[arg(long, value_name = "NAME")]
    pub(crate) scheduler: Option<String>,
    /// Share of the noise to start with, 0 to 1: the same as ComfyUI's denoise and others' strength
    /// [default: 0.75 with --image, else 1]
    #[arg(long, visible_alias = "strength", value_name = "N", value_parser = number(0.0..=1.0))]
    pub(crate) denoise: Option<f64>,
    /// Stream of noise: torch (as ComfyUI) or philox (as A1111 on CUDA)
    #[arg(long, value_name = "NAME", default_value = "torch")]
    pub(crate) rng: String,
    /// Begin with this step, counted from 0, as ComfyUI's KSamplerAdvanced
    #[arg(long, value_name = "N", conflicts_with = "denoise",
          value_parser = whole::<u32>(0..=10_000))]
    pub(crate) start_at_step: Option<u32>,
    /// End before this step
    #[arg(long, value_name = "N", conflicts_with = "denoise",
          value_parser = whole::<u32>(0..=10_000))]
    pub(crate) end_at_step: Option<u32>,
    /// Add no noise: the --latent to start from has its own
    #[arg(long, requires = "from")]
    pub(crate) no_noise: bool,
    /// Leave the noise of the step it ends at in the latent, for another run to go on from
    #[arg(long, requires = "end_at_step")]
    pub(crate) return_with_leftover_noise: bool,
}
