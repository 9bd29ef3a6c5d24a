//! The grammar of `generate`, in groups as its help shows them.

mod model;
mod sampling;

use super::DeviceArgs;
use crate::size::Size;
use clap::Args;
pub(crate) use model::ModelArgs;
pub(crate) use sampling::SamplingArgs;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct GenerateArgs {
    /// What the picture shows
    #[arg(value_name = "PROMPT")]
    pub(crate) prompt: String,
    /// What the picture should not show
    #[arg(long, value_name = "PROMPT", default_value = "")]
    pub(crate) negative: String,
    /// Pixels, such as 512x768 [default: the model's]
    #[arg(long, value_name = "WxH")]
    pub(crate) size: Option<Size>,
    /// Pictures made at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) batch: u16,
    /// Picture to write: png, jpg or webp [default: named after the prompt and the seed]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Also keep the latent, for `nino decode`
    #[arg(long, value_name = "FILE")]
    pub(crate) save_latent: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
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
