//! The grammar of `decode`, `encode` and `plan decode`.

use super::{DeviceArgs, ProfileArgs, number, whole};
use crate::size::Size;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = DECODE_EXAMPLES)]
pub(crate) struct DecodeArgs {
    /// Latent file: as ComfyUI's SaveLatent writes it, or `samples` or `latents` in safetensors
    #[arg(value_name = "LATENT")]
    pub(crate) latent: PathBuf,
    /// Image (png, jpg, webp), video (mp4, y4m, gif, apng, webp), a folder for images and frames,
    /// or - for a PNG to standard output [default: named after the latent, png, or webp for a
    /// video]
    #[arg(short, long, value_name = "FILE|FOLDER")]
    pub(crate) output: Option<PathBuf>,
    /// Allow overwriting input files and models
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) vae: VaeArgs,
    #[command(flatten)]
    pub(crate) how: HowArgs,
    /// Frames per second of a video, 0.1 to 600 [default: 16]
    #[arg(long, value_name = "N", value_parser = number(0.1..=600.0))]
    pub(crate) fps: Option<f64>,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = ENCODE_EXAMPLES)]
pub(crate) struct EncodeArgs {
    /// Image, or video: a folder of frames, gif, apng, webp, y4m, or what ffmpeg reads (mp4, ...)
    #[arg(value_name = "IMAGE")]
    pub(crate) picture: PathBuf,
    /// Latent file to write, as ComfyUI's SaveLatent does; - is standard output [default: named
    /// after the input]
    #[arg(short, long, value_name = "FILE|FOLDER/")]
    pub(crate) output: Option<PathBuf>,
    /// Allow overwriting input files and models
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) vae: VaeArgs,
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
pub(crate) struct PlanDecodeArgs {
    /// Latent file whose size is used
    #[arg(value_name = "LATENT", required_unless_present = "size")]
    pub(crate) latent: Option<PathBuf>,
    /// VAE file
    #[arg(long, value_name = "FILE", conflicts_with = "spec")]
    pub(crate) vae: Option<PathBuf>,
    /// Built-in description instead of a file: sd-vae, sdxl-vae, flux-vae, wan21-vae, taesd, ...
    #[arg(long, value_name = "NAME")]
    pub(crate) spec: Option<String>,
    /// Size in pixels instead of a latent, such as 1024x1024
    #[arg(long, value_name = "WxH")]
    pub(crate) size: Option<Size>,
    /// Number of frames of a video
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = frames)]
    pub(crate) frames: usize,
    /// As for decode
    #[arg(long, value_name = "NAME")]
    pub(crate) latent_format: Option<String>,
    #[command(flatten)]
    pub(crate) ignored: PlanIgnoredArgs,
    #[command(flatten)]
    pub(crate) how: HowArgs,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = PLAN_ENCODE_EXAMPLES)]
pub(crate) struct PlanEncodeArgs {
    /// Image or video whose size is used
    #[arg(value_name = "IMAGE", required_unless_present = "size")]
    pub(crate) picture: Option<PathBuf>,
    /// VAE file
    #[arg(long, value_name = "FILE", conflicts_with = "spec")]
    pub(crate) vae: Option<PathBuf>,
    /// Built-in description instead of a file: sd-vae, sdxl-vae, flux-vae, wan21-vae, taesd, ...
    #[arg(long, value_name = "NAME")]
    pub(crate) spec: Option<String>,
    /// Size in pixels instead of an image, such as 1024x1024
    #[arg(long, value_name = "WxH")]
    pub(crate) size: Option<Size>,
    /// Number of frames of a video [default: the input's]
    #[arg(long, value_name = "N", value_parser = frames)]
    pub(crate) frames: Option<usize>,
    /// As for encode
    #[arg(long, value_name = "NAME")]
    pub(crate) latent_format: Option<String>,
    /// Storage type of activations [default: auto]
    #[arg(long, value_name = "MODE")]
    pub(crate) precision: Option<PrecisionArg>,
    #[command(flatten)]
    pub(crate) ignored: PlanIgnoredArgs,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

/// Flags of decode and encode that no plan depends on. They are accepted so that a command can be
/// planned as it is.
#[derive(Debug, Args)]
pub(crate) struct PlanIgnoredArgs {
    #[arg(short, long, value_name = "FILE", hide = true)]
    pub(crate) output: Option<PathBuf>,
    #[arg(long, value_name = "N", hide = true)]
    pub(crate) fps: Option<f64>,
    #[arg(long, hide = true)]
    pub(crate) force: bool,
}

#[derive(Debug, Args)]
pub(crate) struct VaeArgs {
    /// VAE file: safetensors, GGUF or PyTorch; a full checkpoint works too
    #[arg(long, value_name = "FILE")]
    pub(crate) vae: PathBuf,
    /// Latent format (scale and shift): sd15, sdxl, playground, nino, sd3, flux, flux2, wan21 or
    /// wan22 [default: that of the latent's file, else by the VAE's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) latent_format: Option<String>,
}

/// How a decode may run.
#[derive(Debug, Args)]
pub(crate) struct HowArgs {
    /// Storage type of activations [default: auto]
    #[arg(long, value_name = "MODE")]
    pub(crate) precision: Option<PrecisionArg>,
    /// auto is exact with any budget; fast blends overlapping tiles [default: auto]
    #[arg(long, value_name = "MODE")]
    pub(crate) tile: Option<TileArg>,
    /// Tile size of --tile fast in pixels [default: the profile's, else 768, 512 for quantized
    /// models]
    #[arg(long, value_name = "PIXELS", value_parser = whole::<usize>(8..=65_536))]
    pub(crate) tile_size: Option<usize>,
    /// Tile overlap of --tile fast in pixels [default: 96]
    #[arg(long, value_name = "PIXELS", value_parser = whole::<usize>(0..=65_536))]
    pub(crate) overlap: Option<usize>,
    /// Latent frames decoded at a time: auto or a number
    #[arg(long, value_name = "N", default_value = "auto", value_parser = chunk)]
    pub(crate) chunk: ChunkArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChunkArg {
    Auto,
    Frames(usize),
}

fn chunk(text: &str) -> Result<ChunkArg, &'static str> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(ChunkArg::Frames(n)),
        _ if text == "auto" => Ok(ChunkArg::Auto),
        _ => Err("auto or a number of latent frames is wanted"),
    }
}

fn frames(text: &str) -> Result<usize, &'static str> {
    match text.parse() {
        Ok(n) if n > 0 => Ok(n),
        _ => Err("a number of frames of at least 1 is wanted"),
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum PrecisionArg {
    /// f16 on a GPU that supports it, else f32; bf16 on a CPU for some models, where it is faster
    /// and close enough
    Auto,
    /// f32
    Fp32,
    /// f16 storage, f32 arithmetic
    Fp16,
    /// bf16 storage, f32 accumulation; a CPU with bf16 instructions also multiplies in bf16
    Bf16,
    /// The same as fp16, which already accumulates in f32
    Mixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TileArg {
    Auto,
    Fast,
}

const DECODE_EXAMPLES: &str = "\
Examples:
  # To fox.png
  nino decode fox.latent --vae sdxl_vae.safetensors
  nino decode fox.latent --vae taesd_decoder.safetensors -o small.jpg
  # The same image in 1 GiB of memory
  nino decode big.safetensors --vae vae.safetensors --budget 1GiB
  nino decode clip.latent --vae wan_2.1_vae.safetensors -o clip.mp4 --fps 16

A file appears only when it is complete; Ctrl-C leaves no partial file behind.";

const ENCODE_EXAMPLES: &str = "\
Examples:
  # To fox.latent
  nino encode fox.png --vae vae.safetensors
  nino encode fox.png --vae taesd_encoder.safetensors --latent-format sdxl
  nino encode clip.mp4 --vae wan_2.1_vae.safetensors -o clip.latent
  nino encode frames/ --vae taew2_1.safetensors -o clip.latent

A video is encoded a few frames at a time: memory does not grow with its length.";

const PLAN_ENCODE_EXAMPLES: &str = "\
Examples:
  nino plan encode fox.png --vae vae.safetensors
  nino plan encode --spec wan21-vae --size 832x480 --frames 81 --budget 3GiB
  nino plan encode --spec sdxl-vae --size 2048x2048 --on rx6600";

const PLAN_EXAMPLES: &str = "\
Examples:
  nino plan decode --spec sd-vae --size 1024x1024
  nino plan decode --spec sdxl-vae --size 2048x2048 --on rx580-4gb
  nino plan decode --spec sdxl-vae --size 4096x4096 --budget 2GiB --json
  nino plan decode --spec wan21-vae --size 832x480 --frames 81 --budget 3GiB
  nino plan decode --vae ae.safetensors --size 2048x1024 --device gpu:0

Planning allocates nothing and reads no weights; a decode uses exactly what the plan predicts.";
