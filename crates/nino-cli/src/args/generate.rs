//! The grammar of `generate`, in groups as its help shows them.

mod hires;
mod model;
mod preview;
mod sampling;
mod start;

use super::{DeviceArgs, PrecisionArg, ProfileArgs};
use crate::size::Size;
use clap::{ArgGroup, Args};
pub(crate) use hires::{HiresArg, HiresArgs, UpscaleArg};
pub(crate) use model::{LoraArg, ModelArgs, PredictionArg, QuantizeArg};
pub(crate) use preview::PreviewArgs;
pub(crate) use sampling::SamplingArgs;
pub(crate) use start::{FillArg, OutpaintArg, StartArgs};
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    group = ArgGroup::new("from").args(["image", "latent"]),
    group = ArgGroup::new("masked").args(["mask", "outpaint"]),
)]
pub(crate) struct GenerateArgs {
    /// What the picture shows
    #[arg(
        value_name = "PROMPT",
        required_unless_present = "from_file",
        default_value = ""
    )]
    pub(crate) prompt: String,
    /// What the picture should not show
    #[arg(long, value_name = "PROMPT", default_value = "")]
    pub(crate) negative: String,
    /// Pixels, such as 512x768 [default: the start picture's, or the model's]
    #[arg(long, value_name = "WxH")]
    pub(crate) size: Option<Size>,
    /// Zeros in place of the encoded --negative, as ComfyUI's ConditioningZeroOut
    #[arg(long)]
    pub(crate) zero_negative: bool,
    /// Size SDXL is told the picture had before it was cut [default: its size]
    #[arg(long, value_name = "WxH")]
    pub(crate) original_size: Option<Size>,
    /// Pixels SDXL is told were cut off at the left and the top
    #[arg(long, value_name = "X,Y")]
    pub(crate) crop: Option<CropArg>,
    /// Size SDXL is told to aim at [default: the original size]
    #[arg(long, value_name = "WxH")]
    pub(crate) target_size: Option<Size>,
    /// Pictures made one after the other, with the seeds N, N+1, ...
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) count: u32,
    /// Pictures made at a time from one seed, as ComfyUI's batch_size
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) batch: u16,
    /// How activations are stored in the UNet and the VAE [default: auto]
    #[arg(long, value_name = "MODE")]
    pub(crate) precision: Option<PrecisionArg>,
    /// Picture to write: png, jpg or webp [default: named after the prompt and the seed]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Repeat this picture, made by nino, ComfyUI or A1111, or run this graph of ComfyUI's (API
    /// .json); flags given beside it win
    #[arg(long = "from", visible_alias = "from-png", value_name = "FILE")]
    pub(crate) from_file: Option<PathBuf>,
    /// Also keep the latent, for `nino decode` or --latent
    #[arg(long, value_name = "FILE")]
    pub(crate) save_latent: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) start: StartArgs,
    #[command(flatten)]
    pub(crate) hires: HiresArgs,
    #[command(flatten)]
    pub(crate) preview: PreviewArgs,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

/// Two numbers of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CropArg {
    pub(crate) left: usize,
    pub(crate) top: usize,
}

impl FromStr for CropArg {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<CropArg, &'static str> {
        let number = |n: &str| n.trim().parse().ok().filter(|n| *n <= 65_536);
        let both = text.split_once(',');
        both.and_then(|(left, top)| Some((number(left)?, number(top)?)))
            .map(|(left, top)| CropArg { left, top })
            .ok_or("a crop is LEFT,TOP in pixels, such as 0,128")
    }
}

const EXAMPLES: &str = "\
Examples:
  nino generate \"a smiling sun wearing sunglasses\"            the built-in model, in seconds
  nino generate \"red fox in snow\" --model sd15.safetensors --seed 7
  nino generate \"a castle\" --model sdxl.safetensors --size 1024x1024 --sampler dpmpp_2m --scheduler karras
  nino generate \"a cat\" --steps 4 --cfg 2.5 -o cat.png
  nino generate \"a cat\" --seed 1 --count 8                     eight pictures, seeds 1 to 8
  nino generate \"oil painting\" --model sd15.safetensors --image photo.jpg --strength 0.6
  nino generate \"a hat\" --model sd15.safetensors --image me.png --mask hat.png --mask-feather 8
  nino generate \"a beach\" --model sd15-inpainting.safetensors --image me.png --outpaint 128,0,128,0
  nino generate \"a castle\" --model sd15.safetensors --hires 2x
  nino generate \"a fox\" --model sd15 --lora ink:0.8 --lora wool   names are looked up, see docs/models.md
  nino generate --from cat.png --seed 8                       the same again with another seed

A sampled latent is written beside the picture before it is decoded and removed afterwards: if the
decode fails, `nino decode` goes on from it. Ctrl-C while sampling keeps the latent as it is, and says what
to type to look at it and to go on.";
