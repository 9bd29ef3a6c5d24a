//! The grammar of `generate`.

use super::DeviceArgs;
use crate::size::Size;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GenerateArgs {
    /// What the picture shows
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: String,
    /// Checkpoint file or diffusers folder [default: nino-emoji, which is built in]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// VAE to use instead of the model's own
    #[arg(long, value_name = "FILE")]
    pub(crate) vae: Option<PathBuf>,
    /// What the picture should not show
    #[arg(long, value_name = "PROMPT", default_value = "")]
    pub(crate) negative: String,
    /// Same seed, same picture [default: a new one, which is told]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Steps of sampling [default: the model's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) steps: Option<u32>,
    /// How closely to follow the prompt; 1 ignores --negative and is twice as fast [default: the model's]
    #[arg(long, value_name = "N")]
    pub(crate) cfg: Option<f32>,
    /// Sampler, by ComfyUI's names [default: euler]
    #[arg(long, value_name = "NAME")]
    pub(crate) sampler: Option<String>,
    /// Scheduler, by ComfyUI's names [default: the model's]
    #[arg(long, value_name = "NAME")]
    pub(crate) scheduler: Option<String>,
    /// Pixels, such as 512x768 [default: the model's]
    #[arg(long, value_name = "WxH")]
    pub(crate) size: Option<Size>,
    /// Pictures made at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) batch: u16,
    /// Stream of noise: torch (as ComfyUI) or philox (as A1111 on CUDA)
    #[arg(long, value_name = "NAME", default_value = "torch")]
    pub(crate) rng: String,
    /// Picture to write: png, jpg or webp [default: named after the prompt and the seed]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Also keep the latent, for `nino decode`
    #[arg(long, value_name = "FILE")]
    pub(crate) save_latent: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

const EXAMPLES: &str = "\
Examples:
  nino generate \"a smiling sun wearing sunglasses\"            the built-in model, in seconds
  nino generate \"red fox in snow\" --model sd15.safetensors --seed 7
  nino generate \"a castle\" --model sdxl.safetensors --size 1024x1024 --sampler dpmpp_2m --scheduler karras
  nino generate \"a cat\" --steps 4 --cfg 2.5 -o cat.png

A sampled latent is written beside the picture before it is decoded and removed afterwards: if the
decode fails, `nino decode` goes on from it.";
