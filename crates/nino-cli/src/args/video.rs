//! The grammar of `video`.

use super::{
    DeviceArgs, LoraArg, PrecisionArg, PreviewArgs, ProfileArgs, QuantizeArg, SeedArg,
    TextDeviceArgs, number, seed, whole,
};
use crate::size::Size;
use clap::builder::Resettable;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools)] // one for each flag
pub(crate) struct VideoArgs {
    /// What the clip shows
    #[arg(value_name = "PROMPT", required_unless_present = "from_file")]
    pub(crate) prompt: Vec<String>,
    /// What the clip should not show; looked at where --cfg is not 1
    #[arg(
        long,
        alias = "negative-prompt",
        value_name = "PROMPT",
        default_value = "",
        hide_default_value = true
    )]
    pub(crate) negative: String,
    /// The first frame, for image-to-video models and Wan 2.2 5B
    #[arg(long, value_name = "FILE")]
    pub(crate) image: Option<PathBuf>,
    /// The last frame, for image-to-video models
    #[arg(long, value_name = "FILE")]
    pub(crate) last_image: Option<PathBuf>,
    /// Clip to follow (poses, edges, depth), for VACE and Fun control models; with --video-mask
    /// what is to be changed
    #[arg(long, value_name = "FILE", requires = "model")]
    pub(crate) video: Option<PathBuf>,
    /// Where to change the clip, as a picture or a clip that is white there, for VACE
    #[arg(long, value_name = "FILE", requires = "video")]
    pub(crate) video_mask: Option<PathBuf>,
    /// Picture of what the clip shows, for VACE
    #[arg(long, value_name = "FILE", requires = "model")]
    pub(crate) reference: Option<PathBuf>,
    /// How closely VACE follows them [default: 1]
    #[arg(long, value_name = "N", value_parser = number(0.0..=1000.0), requires = "model")]
    pub(crate) video_strength: Option<f64>,
    /// How the camera moves, for Fun camera models
    #[arg(
        long,
        value_name = "MOVE",
        requires = "model",
        conflicts_with = "last_image"
    )]
    pub(crate) camera: Option<CameraArg>,
    /// How fast it does [default: 1]
    #[arg(long, value_name = "N", value_parser = number(0.0..=10.0), requires = "camera")]
    pub(crate) camera_speed: Option<f64>,
    /// Without a video model: what the last picture shows [default: the same, drawn flat]
    #[arg(long, value_name = "PROMPT", conflicts_with = "model")]
    pub(crate) then: Option<String>,
    /// Frames of the clip: 1 and a multiple of 4 [default: 81; Wan 2.2 5B 121]
    #[arg(short, long, value_name = "N", value_parser = whole::<usize>(1..=10_001))]
    pub(crate) frames: Option<usize>,
    /// Pixels, such as 832x480 [default: the model's]
    #[arg(long, value_name = "WxH", allow_hyphen_values = true)]
    pub(crate) size: Option<Size>,
    /// Frames a second [default: the model's, 16 or 24]
    #[arg(long, value_name = "N", value_parser = number(0.1..=600.0))]
    pub(crate) fps: Option<f64>,
    /// Make the size or the number of frames smaller where the clip does not fit the memory
    #[arg(long)]
    pub(crate) fit: bool,
    /// Clip to write: mp4 (by ffmpeg), webp, apng, gif, y4m, or a folder of frames [default: named
    /// after the prompt and the seed, mp4 where ffmpeg is on the PATH, else webp]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Go on with a clip that was stopped or killed: the same command again, with this flag
    #[arg(long)]
    pub(crate) resume: bool,
    /// Keep no journal: a clip that is stopped begins again
    #[arg(long, conflicts_with = "resume")]
    pub(crate) no_journal: bool,
    /// Write over files that the run reads, and over models
    #[arg(long)]
    pub(crate) force: bool,
    /// Make this clip of nino's again (mp4, webp or apng); flags given beside it win
    #[arg(long = "from", value_name = "FILE")]
    pub(crate) from_file: Option<PathBuf>,
    /// Leave out of the file how it was made
    #[arg(long)]
    pub(crate) no_metadata: bool,
    /// How activations are stored [default: auto]
    #[arg(long, value_name = "MODE")]
    pub(crate) precision: Option<PrecisionArg>,
    #[command(flatten)]
    pub(crate) model: VideoModelArgs,
    #[command(flatten)]
    pub(crate) sampling: VideoSamplingArgs,
    #[command(flatten)]
    pub(crate) preview: PreviewArgs,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) text: TextDeviceArgs,
}

/// Which weights to use.
#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct VideoModelArgs {
    /// Video model, by file or by name; of Wan 2.2's two experts the one for high noise, whose
    /// partner is found beside it [default: nino-emoji, which makes pictures]
    #[arg(short, long, visible_alias = "high-noise", value_name = "FILE|NAME")]
    pub(crate) model: Option<PathBuf>,
    /// The expert for low noise
    #[arg(long, value_name = "FILE|NAME", requires = "model")]
    pub(crate) low_noise: Option<PathBuf>,
    /// One model for all noise, though its partner is beside it
    #[arg(long, conflicts_with = "low_noise")]
    pub(crate) one_expert: bool,
    /// VAE [default: found by its usual names]
    #[arg(long, value_name = "FILE")]
    pub(crate) vae: Option<PathBuf>,
    /// UMT5 text encoder [default: found by its usual names]
    #[arg(long, visible_alias = "t5", value_name = "FILE")]
    pub(crate) clip: Option<PathBuf>,
    /// CLIP image encoder, for Wan 2.1 image-to-video [default: found by its usual name]
    #[arg(long, value_name = "FILE")]
    pub(crate) clip_vision: Option<PathBuf>,
    /// LoRA of the model, with its strength: FILE or FILE:0.8; may be repeated
    #[arg(long, visible_alias = "lora-high", value_name = "FILE[:N]")]
    pub(crate) lora: Vec<LoraArg>,
    /// LoRA of the expert for low noise
    #[arg(long, value_name = "FILE[:N]")]
    pub(crate) lora_low: Vec<LoraArg>,
    /// Hold weights in fewer bits: what is stored as plain numbers is quantized while it is loaded
    #[arg(long, value_name = "TYPE")]
    pub(crate) quantize: Option<QuantizeArg>,
}

/// How noise becomes a clip.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct VideoSamplingArgs {
    /// Same seed, same clip; -1 draws a new one [default: a new one, which the report names]
    #[arg(long, value_name = "N", value_parser = seed)]
    pub(crate) seed: Option<SeedArg>,
    /// Steps of sampling, both experts' together [default: 20]
    #[arg(short, long, value_name = "N", value_parser = whole::<u32>(1..=10_000))]
    pub(crate) steps: Option<u32>,
    /// The step at which the expert for low noise takes over [default: half of the steps]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=10_000))]
    pub(crate) switch: Option<u32>,
    /// How closely to follow the prompt; 1 ignores --negative and is twice as fast [default: 5]
    #[arg(long, value_name = "N", value_parser = number(-100.0..=100.0))]
    pub(crate) cfg: Option<f64>,
    /// Scale the negative prompt's part to what of it the prompt's has, as ComfyUI's CFGZeroStar
    #[arg(long)]
    pub(crate) cfg_zero_star: bool,
    /// Guide away from what the model makes without these blocks (such as 9,10), which takes half
    /// as long again a step, as ComfyUI's SkipLayerGuidanceDiT
    #[arg(long, value_name = "N,N", value_parser = layers)]
    pub(crate) skip_layers: Option<Layers>,
    /// How far away [default: 3]
    #[arg(long, value_name = "N", value_parser = number(0.0..=10.0), requires = "skip_layers")]
    pub(crate) skip_scale: Option<f64>,
    /// The share of the sampling after which that begins [default: 0.01]
    #[arg(long, value_name = "N", value_parser = number(0.0..=1.0), requires = "skip_layers")]
    pub(crate) skip_start: Option<f64>,
    /// The share of the sampling after which it ends [default: 0.15]
    #[arg(long, value_name = "N", value_parser = number(0.0..=1.0), requires = "skip_layers")]
    pub(crate) skip_end: Option<f64>,
    /// Where most steps are spent: larger is at more noise, as ComfyUI's ModelSamplingSD3
    /// [default: 8]
    #[arg(long, value_name = "N", value_parser = number(0.01..=100.0))]
    pub(crate) shift: Option<f64>,
    /// Sampler, by ComfyUI's names; `nino samplers` lists them [default: uni_pc, euler with two
    /// experts]
    #[arg(long, value_name = "NAME")]
    pub(crate) sampler: Option<String>,
    /// Scheduler, by the same names [default: simple]
    #[arg(long, value_name = "NAME")]
    pub(crate) scheduler: Option<String>,
}

/// How a camera moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CameraArg {
    Static,
    PanUp,
    PanDown,
    PanLeft,
    PanRight,
    ZoomIn,
    ZoomOut,
    Anticlockwise,
    Clockwise,
}

/// Blocks of a network, by number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layers(pub(crate) Vec<usize>);

fn layers(text: &str) -> Result<Layers, String> {
    let numbers = text.split(',').map(|n| n.trim().parse().ok());
    let numbers: Option<Vec<usize>> = numbers.collect();
    numbers
        .map(Layers)
        .ok_or_else(|| "numbers with commas between them are wanted, such as 9,10".to_owned())
}

/// All that `video` takes. What it says of files to write is not looked at.
#[derive(Debug, Args)]
#[command(
    after_help = PLAN_EXAMPLES,
    mut_arg("prompt", |arg| arg.required(false).required_unless_present(Resettable::Reset)),
)]
pub(crate) struct PlanVideoArgs {
    /// Built-in description instead of files: wan2.1-t2v-1.3b, wan2.1-t2v-14b, wan2.1-i2v-14b,
    /// wan2.2-i2v-14b, wan2.2-ti2v-5b
    #[arg(long, value_name = "NAME", conflicts_with_all = ["model", "low_noise", "vae", "clip"])]
    pub(crate) spec: Option<String>,
    #[command(flatten)]
    pub(crate) video: VideoArgs,
}

const EXAMPLES: &str = "\
Examples:
  # Nothing downloaded: pictures in between two of the built-in model
  nino video a jumping frog
  # Words alone
  nino video \"a fox in deep snow\" -m wan2.1_t2v_1.3B_fp16 --frames 33
  # A picture that begins to move; the expert for low noise is found beside this one
  nino video \"it turns its head\" -m wan2.2_i2v_high_noise_14B --image fox.png
  # From one picture to another
  nino video \"the sun sets\" -m wan2.2_i2v_high --image a.png --last-image b.png
  # Four steps with the LoRAs for that
  nino video \"rain\" -m high.gguf --low-noise low.gguf --lora fast_high --cfg 1
  # A clip that moves as another one does
  nino video \"a dancer\" -m wan2.1_vace_1.3B --video poses.mp4
  # A picture that the camera moves through
  nino video \"a street\" -m fun_camera_high --image a.png --camera zoom-in
  # The same again with another seed: a clip knows how it was made
  nino video --from fox.mp4 --seed 8
  # What was stopped, or killed, goes on where it was
  nino video \"a fox\" -m wan2.1_t2v_1.3B_fp16 --seed 7 -o fox.mp4 --resume

Every prediction is kept in a journal beside the clip until the clip is there. A run with --resume \
comes to the same clip, byte for byte, as one that was not stopped.";

const PLAN_EXAMPLES: &str = "\
Examples:
  nino plan video --spec wan2.2-i2v-14b --size 832x480 --on rx7600xt
  nino plan video --spec wan2.2-i2v-14b --quantize q4_k --budget 12GiB
  nino plan video --spec wan2.1-t2v-1.3b --budget 8GiB --device cpu
  nino plan video \"a fox\" -m wan2.1_t2v_1.3B_fp16 --fit";
