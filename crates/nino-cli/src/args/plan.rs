//! The grammar of `plan`.

use super::{DeviceArgs, ModelArgs, PlanDecodeArgs, PrecisionArg, ProfileArgs};
use crate::size::Size;
use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum PlanVerb {
    /// How a latent would be decoded: memory, tiles, time
    Decode(PlanDecodeArgs),
    /// How a picture would be made: what is on the device when, what streams, how long
    Generate(PlanGenerateArgs),
}

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct PlanGenerateArgs {
    /// Prompt: a long one takes more chunks of tokens
    #[arg(value_name = "PROMPT", default_value = "")]
    pub(crate) prompt: String,
    /// Built-in description instead of a file: sd15, sd15-inpaint, sd15-edit, sd21, sd21-768, sdxl,
    /// sdxl-turbo
    #[arg(long, value_name = "NAME", conflicts_with_all = ["model", "vae", "clip", "lora"])]
    pub(crate) spec: Option<String>,
    /// Pixels, such as 512x768 [default: the model's]
    #[arg(long, value_name = "WxH")]
    pub(crate) size: Option<Size>,
    /// Pictures made at a time
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) batch: u16,
    /// Pictures made one after the other: with more than one, weights stay where they fit
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) count: usize,
    /// Steps of sampling [default: the model's]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) steps: Option<u32>,
    /// Guidance; 1 needs no second prompt [default: the model's]
    #[arg(long, value_name = "N")]
    pub(crate) cfg: Option<f32>,
    /// How activations are stored [default: auto]
    #[arg(long, value_name = "MODE")]
    pub(crate) precision: Option<PrecisionArg>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

const EXAMPLES: &str = "\
Examples:
  nino plan generate --spec sd21 --profile rx580-4gb
  nino plan generate --spec sdxl --size 1024x1024 --budget 6GiB --json
  nino plan generate --model sd15.safetensors --quantize q8_0 --batch 4
  nino plan generate --spec sd15 --count 8 --budget 2GiB --device cpu

A plan goes through the whole request without computing or reading weights: what it says is what \
`nino generate` does with the same flags. Streamed weights are brought to the device while it \
runs, in every run of the stage; `resident` ones stay for the next picture.";
