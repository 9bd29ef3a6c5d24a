//! Sampling: seed, steps, guidance, sampler, schedule.

use crate::args::{SeedArg, StepCacheArg, number, seed, whole};
use clap::Args;

#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// Seed of the noise: the same seed gives the same image; -1 is a random one [default: random,
    /// printed with the result]
    #[arg(long, value_name = "N", value_parser = seed)]
    pub(crate) seed: Option<SeedArg>,
    /// Sampling steps [default: the model's]
    #[arg(short, long, value_name = "N", value_parser = whole::<u32>(1..=10_000))]
    pub(crate) steps: Option<u32>,
    /// CFG scale: how closely to follow the prompt; 1 ignores --negative and is twice as fast
    /// [default: the model's]
    #[arg(long, alias = "cfg-scale", value_name = "N", value_parser = number(-100.0..=100.0))]
    pub(crate) cfg: Option<f64>,
    /// Flux's guidance embedding, independent of --cfg [default: 3.5]
    #[arg(long, value_name = "N", value_parser = number(0.0..=100.0))]
    pub(crate) guidance: Option<f64>,
    /// Remove the contrast that --cfg adds, as ComfyUI's RescaleCFG: 0 none, 1 all, 0.7 is usual
    #[arg(long, value_name = "N", default_value_t = 0.0, value_parser = number(0.0..=1.0))]
    pub(crate) cfg_rescale: f64,
    /// Reuse steps where little changes, as ComfyUI's EasyCache and LazyCache: easy or lazy, with
    /// their threshold; higher is faster and less exact [default threshold: 0.2]
    #[arg(long, value_name = "easy|lazy[:N]")]
    pub(crate) step_cache: Option<StepCacheArg>,
    /// Sampler, by ComfyUI's, A1111's or stable-diffusion.cpp's name; `nino samplers` lists them
    /// [default: the model's]
    #[arg(long, alias = "sampling-method", value_name = "NAME")]
    pub(crate) sampler: Option<String>,
    /// Scheduler, by the same names [default: the model's]
    #[arg(long, value_name = "NAME")]
    pub(crate) scheduler: Option<String>,
    /// Denoising strength, 0 to 1: 0 keeps the input image, 1 keeps nothing of it [default: 0.75
    /// with --image, else 1]
    #[arg(long, visible_alias = "strength", value_name = "N", value_parser = number(0.0..=1.0))]
    pub(crate) denoise: Option<f64>,
    /// Random number generator of the noise: torch (as ComfyUI) or philox (as A1111 on CUDA)
    #[arg(long, value_name = "NAME", default_value = "torch")]
    pub(crate) rng: String,
    /// First step to run, counted from 0, as ComfyUI's KSamplerAdvanced
    #[arg(long, value_name = "N", conflicts_with = "denoise",
          value_parser = whole::<u32>(0..=10_000))]
    pub(crate) start_at_step: Option<u32>,
    /// Stop before this step
    #[arg(long, value_name = "N", conflicts_with = "denoise",
          value_parser = whole::<u32>(0..=10_000))]
    pub(crate) end_at_step: Option<u32>,
    /// Add no noise, because the --latent already has it
    #[arg(long, requires = "from")]
    pub(crate) no_noise: bool,
    /// Keep the noise that remains at --end-at-step, so that another run can continue
    #[arg(long, requires = "end_at_step")]
    pub(crate) return_with_leftover_noise: bool,
}
