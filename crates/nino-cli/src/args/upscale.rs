//! The grammar of `upscale` and `plan upscale`.

use super::{DeviceArgs, PrecisionArg, ProfileArgs, number};
use crate::size::Size;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpscaleArgs {
    /// Picture: png, jpg, webp or gif
    #[arg(value_name = "PICTURE")]
    pub(crate) picture: PathBuf,
    #[command(flatten)]
    pub(crate) how: UpscaleHowArgs,
    /// Picture to write (png, jpg, webp), a folder, or - for a PNG to standard output [default:
    /// named after the picture]
    #[arg(short, long, value_name = "FILE|FOLDER/")]
    pub(crate) output: Option<PathBuf>,
    /// Leave out what the picture's file says about how it was made
    #[arg(long)]
    pub(crate) no_metadata: bool,
    /// Write over files that the run reads, and over models
    #[arg(long)]
    pub(crate) force: bool,
}

/// What a plan of an upscale depends on, beside the picture's size.
#[derive(Debug, Args)]
pub(crate) struct UpscaleHowArgs {
    /// ESRGAN, Real-ESRGAN or compact file, .pth or .safetensors [default: the only one there is]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// Times that the result is wider and higher, 0.1 to 16: what the model makes is scaled to it
    /// [default: the model's]
    #[arg(long, value_name = "N", value_parser = number(0.1..=16.0))]
    pub(crate) scale: Option<f64>,
    /// How activations are stored [default: auto]
    #[arg(long, value_name = "MODE")]
    pub(crate) precision: Option<PrecisionArg>,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = PLAN_EXAMPLES)]
pub(crate) struct PlanUpscaleArgs {
    /// Picture whose size is taken
    #[arg(value_name = "PICTURE", required_unless_present = "size")]
    pub(crate) picture: Option<PathBuf>,
    /// Pixels in place of a picture's, such as 1024x1024
    #[arg(long, value_name = "WxH")]
    pub(crate) size: Option<Size>,
    #[command(flatten)]
    pub(crate) how: UpscaleHowArgs,
    #[arg(short, long, value_name = "FILE", hide = true)]
    pub(crate) output: Option<PathBuf>,
    #[arg(long, hide = true)]
    pub(crate) no_metadata: bool,
    #[arg(long, hide = true)]
    pub(crate) force: bool,
}

const EXAMPLES: &str = "\
Examples:
  # To fox-4x.png
  nino upscale fox.png --model RealESRGAN_x4plus.pth
  # Twice as large, with a model that makes it four times as large
  nino upscale fox.png --model RealESRGAN_x4plus.pth --scale 2 -o large.jpg
  # The same picture in less memory
  nino upscale big.png --model 4x-UltraSharp.pth --budget 2GiB

Where memory is short, the picture is computed in bands that overlap by as much as the model sees: \
the result is the same, without seams. Prompts and settings in the picture's file are kept.";

const PLAN_EXAMPLES: &str = "\
Examples:
  nino plan upscale fox.png --model RealESRGAN_x4plus.pth
  nino plan upscale --size 2048x2048 --model 4x-UltraSharp.pth --on rx580-8gb";
