//! The grammar of `upscale` and `plan upscale`.

use super::{DeviceArgs, PrecisionArg, ProfileArgs, number};
use crate::size::Size;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct UpscaleArgs {
    /// Image: png, jpg, webp or gif
    #[arg(value_name = "IMAGE")]
    pub(crate) picture: PathBuf,
    /// Image to write (png, jpg, webp), a folder, or - for a PNG to standard output [default: named
    /// after the image]
    #[arg(short, long, value_name = "FILE|FOLDER/")]
    pub(crate) output: Option<PathBuf>,
    /// Do not copy the image's metadata
    #[arg(long)]
    pub(crate) no_metadata: bool,
    /// Allow overwriting input files and models
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) how: UpscaleHowArgs,
}

/// What a plan of an upscale depends on, besides the image's size.
#[derive(Debug, Args)]
pub(crate) struct UpscaleHowArgs {
    /// ESRGAN, Real-ESRGAN or compact model, .pth or .safetensors [default: the only one installed]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// Scale factor of the result, 0.1 to 16; the model's output is resized to it [default: the
    /// model's]
    #[arg(long, value_name = "N", value_parser = number(0.1..=16.0))]
    pub(crate) scale: Option<f64>,
    /// Storage type of activations [default: auto]
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
    /// Image whose size is used
    #[arg(value_name = "IMAGE", required_unless_present = "size")]
    pub(crate) picture: Option<PathBuf>,
    /// Size in pixels instead of an image, such as 1024x1024
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
  # The same image in less memory
  nino upscale big.png --model 4x-UltraSharp.pth --budget 2GiB

If memory is short, the image is computed in bands that overlap by the model's receptive field: the \
result is the same, without seams. Prompts and settings in the image's metadata are kept.";

const PLAN_EXAMPLES: &str = "\
Examples:
  nino plan upscale fox.png --model RealESRGAN_x4plus.pth
  nino plan upscale --size 2048x2048 --model 4x-UltraSharp.pth --on rx580-8gb";
