//! How noise becomes a latent.

use clap::Args;

#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct SamplingArgs {
    /// Same seed, same picture [default: a new one, which is told]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Steps of sampling [default: the model's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) steps: Option<u32>,
    /// How closely to follow the prompt; 1 ignores --negative and is twice as fast [default: the model's]
    #[arg(long, value_name = "N")]
    pub(crate) cfg: Option<f32>,
    /// Sampler, by ComfyUI's names [default: the model's]
    #[arg(long, value_name = "NAME")]
    pub(crate) sampler: Option<String>,
    /// Scheduler, by ComfyUI's names [default: the model's]
    #[arg(long, value_name = "NAME")]
    pub(crate) scheduler: Option<String>,
    /// Stream of noise: torch (as ComfyUI) or philox (as A1111 on CUDA)
    #[arg(long, value_name = "NAME", default_value = "torch")]
    pub(crate) rng: String,
}
