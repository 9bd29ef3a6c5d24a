//! The grammar of `generate`, in groups as its help shows them.

mod control;
mod hires;
mod model;
mod preview;
mod sampling;
mod start;

use super::{DeviceArgs, PrecisionArg, ProfileArgs, TextDeviceArgs, whole};
use crate::size::Size;
use clap::{ArgGroup, Args};
pub(crate) use control::{ControlArgs, PreprocessArg, StyleArgs, StyleTypeArg};
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
    /// The prompt; `-` reads prompts from standard input, one image per line
    #[arg(
        value_name = "PROMPT",
        required_unless_present_any = ["from_file", "prompts", "prompt_text"],
        conflicts_with = "prompt_text"
    )]
    pub(crate) prompt: Vec<String>,
    /// The prompt as a flag, as in other programs
    #[arg(short, long = "prompt", value_name = "PROMPT")]
    pub(crate) prompt_text: Option<String>,
    /// File of prompts, one image per line; `-` is standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["prompt", "prompt_text"])]
    pub(crate) prompts: Option<PathBuf>,
    /// Negative prompt: what the image should not show
    #[arg(
        long,
        alias = "negative-prompt",
        value_name = "PROMPT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) negative: String,
    /// Size in pixels, such as 512x768, or 512 for a square [default: the input image's, else the
    /// model's]
    #[arg(long, value_name = "WxH", allow_hyphen_values = true)]
    pub(crate) size: Option<Size>,
    /// Width, instead of --size
    #[arg(short = 'W', long, value_name = "PIXELS", conflicts_with = "size",
          value_parser = whole::<usize>(1..=65_536))]
    pub(crate) width: Option<usize>,
    /// Height, instead of --size
    #[arg(short = 'H', long, value_name = "PIXELS", conflicts_with = "size",
          value_parser = whole::<usize>(1..=65_536))]
    pub(crate) height: Option<usize>,
    /// Zero the negative conditioning, as ComfyUI's ConditioningZeroOut
    #[arg(long)]
    pub(crate) zero_negative: bool,
    /// SDXL's size conditioning: size before cropping [default: the image's]
    #[arg(long, value_name = "WxH")]
    pub(crate) original_size: Option<Size>,
    /// SDXL's crop conditioning: pixels cropped at the left and the top
    #[arg(long, value_name = "X,Y")]
    pub(crate) crop: Option<CropArg>,
    /// SDXL's target size conditioning [default: --original-size]
    #[arg(long, value_name = "WxH")]
    pub(crate) target_size: Option<Size>,
    /// Number of images, made one after the other with consecutive seeds
    #[arg(short = 'n', long, value_name = "N", default_value_t = 1, value_parser = whole::<u32>(1..=100_000))]
    pub(crate) count: u32,
    /// Images made at once from one seed, as ComfyUI's batch_size; max is the largest batch that
    /// keeps everything on the device
    #[arg(long, value_name = "N|max", default_value = "1", value_parser = batch)]
    pub(crate) batch: BatchArg,
    /// Storage type of activations in the diffusion model and the VAE [default: auto]
    #[arg(long, value_name = "MODE")]
    pub(crate) precision: Option<PrecisionArg>,
    /// Image file (png, jpg or webp), a folder with / at its end, or - for standard output.
    /// {prompt}, {seed} and {model} are filled in, and n in braces is the next free number
    /// [default: named after the prompt and the seed]
    #[arg(short, long, value_name = "FILE|FOLDER/|-")]
    pub(crate) output: Option<PathBuf>,
    /// Allow overwriting input files and models
    #[arg(long)]
    pub(crate) force: bool,
    /// Do not write prompt and settings to the image file
    #[arg(long)]
    pub(crate) no_metadata: bool,
    /// JPEG quality, 1 to 100 [default: 95]
    #[arg(long, value_name = "N", value_parser = whole::<u8>(1..=100))]
    pub(crate) quality: Option<u8>,
    /// Repeat an image made by nino, ComfyUI or A1111, or run a ComfyUI workflow (.json); flags
    /// take precedence over the file
    #[arg(long = "from", visible_alias = "from-png", value_name = "FILE")]
    pub(crate) from_file: Option<PathBuf>,
    /// Also save the latent, for `nino decode` or --latent
    #[arg(long, value_name = "FILE")]
    pub(crate) save_latent: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) sampling: SamplingArgs,
    #[command(flatten)]
    pub(crate) start: StartArgs,
    #[command(flatten)]
    pub(crate) control: ControlArgs,
    #[command(flatten)]
    pub(crate) style: StyleArgs,
    #[command(flatten)]
    pub(crate) hires: HiresArgs,
    #[command(flatten)]
    pub(crate) preview: PreviewArgs,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) text: TextDeviceArgs,
}

impl GenerateArgs {
    /// The one prompt of the command line; words that were not quoted are joined.
    pub(crate) fn prompt(&self) -> String {
        let words = || self.prompt.join(" ");
        self.prompt_text.clone().unwrap_or_else(words)
    }
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
  # The built-in model, in seconds
  nino generate a smiling sun wearing sunglasses
  nino generate \"a cat\" --steps 4 --cfg 2.5 -o cat.png
  # A model of your own, with a fixed seed
  nino generate \"red fox in snow\" -m sd15.safetensors --seed 7
  # Eight images, with seeds 1 to 8
  nino generate \"a castle\" -m sd15.safetensors --seed 1 --count 8
  # One image per line of a file, into a folder
  nino generate --prompts prompts.txt -o pictures/
  nino generate \"a castle\" -m sdxl.safetensors --sampler \"DPM++ 2M Karras\"
  # Hires: upscale the latent and sample again
  nino generate \"a castle\" -m sd15.safetensors --hires 2x
  # img2img, inpainting and outpainting
  nino generate \"oil painting\" -m sd15 --image photo.jpg --strength 0.6
  nino generate \"a hat\" -m sd15 --image me.png --mask hat.png --paste
  nino generate \"a beach\" -m sd15 --image me.png --outpaint 128,0,128,0
  # LoRAs, by file or by name (docs/models.md says where names are looked up)
  nino generate \"a fox\" -m sd15 --lora ink:0.8 --lora wool
  nino generate \"a fox <lora:ink:0.8>\" -m sd15
  # ControlNet, with the edges of an image as the hint image
  nino generate \"a fox\" -m sd15 --control canny:me.jpg:0.8 --preprocess canny
  # The same again with another seed
  nino generate --from cat.png --seed 8
  # Only the path, or the image itself, for a script
  nino generate \"a sad blue moon\" -q
  nino generate \"a sad blue moon\" -o - > moon.png

The sampled latent is saved next to the image before it is decoded and removed afterwards: if the \
decode fails, `nino decode` continues from it. Ctrl-C during sampling keeps the current latent and \
prints the commands to look at it and to continue.";

/// Images at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchArg {
    Count(usize),
    Max,
}

/// The largest batch.
pub(crate) const MAX_BATCH: usize = 64;

fn batch(text: &str) -> Result<BatchArg, String> {
    let count = text.trim().parse().ok();
    match count.filter(|n| (1..=MAX_BATCH).contains(n)) {
        Some(n) => Ok(BatchArg::Count(n)),
        None if text == "max" => Ok(BatchArg::Max),
        None => Err(format!(
            "a whole number from 1 to {MAX_BATCH} or max is wanted"
        )),
    }
}
