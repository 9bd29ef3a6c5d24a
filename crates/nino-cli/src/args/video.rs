//! The grammar of `video`.

use super::{
    DeviceArgs, LoraArg, PrecisionArg, PreviewArgs, ProfileArgs, QuantizeArg, SeedArg,
    StepCacheArg, TextDeviceArgs, number, seed, whole,
};
use crate::size::Size;
use clap::builder::Resettable;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools)] // one for each flag
pub(crate) struct VideoArgs {
    /// The prompt
    #[arg(value_name = "PROMPT", required_unless_present = "from_file")]
    pub(crate) prompt: Vec<String>,
    /// Negative prompt: what the video should not show; ignored at --cfg 1
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
    /// Control video (poses, edges, depth), for VACE and Fun control models; with --video-mask the
    /// video to inpaint
    #[arg(long, value_name = "FILE", requires = "model")]
    pub(crate) video: Option<PathBuf>,
    /// Mask for inpainting the video, an image or a video that is white where it changes, for VACE
    #[arg(long, value_name = "FILE", requires = "video")]
    pub(crate) video_mask: Option<PathBuf>,
    /// Reference image, for VACE
    #[arg(long, value_name = "FILE", requires = "model")]
    pub(crate) reference: Option<PathBuf>,
    /// Strength of VACE's control inputs [default: 1]
    #[arg(long, value_name = "N", value_parser = number(0.0..=1000.0), requires = "model")]
    pub(crate) video_strength: Option<f64>,
    /// Camera movement, for Fun camera models
    #[arg(
        long,
        value_name = "MOVE",
        requires = "model",
        conflicts_with = "last_image"
    )]
    pub(crate) camera: Option<CameraArg>,
    /// Speed of the camera [default: 1]
    #[arg(long, value_name = "N", value_parser = number(0.0..=10.0), requires = "camera")]
    pub(crate) camera_speed: Option<f64>,
    /// Sound to make the video to, for sound-to-video models (Wan 2.2 S2V): WAV, or any format that
    /// ffmpeg reads; --image is then a picture of who makes the sound
    #[arg(long, value_name = "FILE", requires = "model")]
    pub(crate) audio: Option<PathBuf>,
    /// Without a video model: prompt of the last frame [default: the same, drawn flat]
    #[arg(long, value_name = "PROMPT", conflicts_with = "model")]
    pub(crate) then: Option<String>,
    /// Number of frames: a multiple of 4 plus 1 [default: 81; Wan 2.2 5B 121, S2V 77]
    #[arg(short, long, value_name = "N", value_parser = whole::<usize>(1..=10_001))]
    pub(crate) frames: Option<usize>,
    /// Size in pixels, such as 832x480 [default: the model's]
    #[arg(long, value_name = "WxH", allow_hyphen_values = true)]
    pub(crate) size: Option<Size>,
    /// Frames per second [default: the model's, 16 or 24]
    #[arg(long, value_name = "N", value_parser = number(0.1..=600.0))]
    pub(crate) fps: Option<f64>,
    /// Reduce the size or the number of frames if the video does not fit in memory
    #[arg(long)]
    pub(crate) fit: bool,
    /// Video to write: mp4 (by ffmpeg), webp, apng, gif, y4m, or a folder of frames [default: named
    /// after the prompt and the seed, mp4 if ffmpeg is on the PATH, else webp]
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Continue a run that was stopped or killed: repeat its command with this flag
    #[arg(long)]
    pub(crate) resume: bool,
    /// Keep no journal: a run that is stopped cannot be resumed
    #[arg(long, conflicts_with = "resume")]
    pub(crate) no_journal: bool,
    /// Allow overwriting input files and models
    #[arg(long)]
    pub(crate) force: bool,
    /// Repeat a video made by nino (mp4, webp or apng); flags take precedence over the file
    #[arg(long = "from", value_name = "FILE")]
    pub(crate) from_file: Option<PathBuf>,
    /// Do not write prompt and settings to the video file
    #[arg(long)]
    pub(crate) no_metadata: bool,
    /// Storage type of activations [default: auto]
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
    /// Video model, by file or by name; of Wan 2.2's two experts the high-noise one [default:
    /// nino-emoji, which makes images]
    #[arg(short, long, visible_alias = "high-noise", value_name = "FILE|NAME")]
    pub(crate) model: Option<PathBuf>,
    /// Low-noise expert [default: found in the folder of the high-noise one]
    #[arg(long, value_name = "FILE|NAME", requires = "model")]
    pub(crate) low_noise: Option<PathBuf>,
    /// Use --model for all steps, even if there is a low-noise expert in its folder
    #[arg(long, conflicts_with = "low_noise")]
    pub(crate) one_expert: bool,
    /// VAE [default: found by its usual names]
    #[arg(long, value_name = "FILE")]
    pub(crate) vae: Option<PathBuf>,
    /// UMT5 text encoder [default: found by its usual names]
    #[arg(long, visible_alias = "t5", value_name = "FILE")]
    pub(crate) clip: Option<PathBuf>,
    /// CLIP vision encoder, for Wan 2.1 image-to-video [default: found by its usual name]
    #[arg(long, value_name = "FILE")]
    pub(crate) clip_vision: Option<PathBuf>,
    /// Audio encoder (wav2vec 2.0), for sound-to-video models [default: found by its usual name]
    #[arg(long, value_name = "FILE")]
    pub(crate) audio_encoder: Option<PathBuf>,
    /// LoRA of the model, with its strength: FILE or FILE:0.8; may be repeated
    #[arg(long, visible_alias = "lora-high", value_name = "FILE[:N]")]
    pub(crate) lora: Vec<LoraArg>,
    /// LoRA of the low-noise expert, likewise
    #[arg(long, value_name = "FILE[:N]")]
    pub(crate) lora_low: Vec<LoraArg>,
    /// Quantize unquantized weights while they are loaded
    #[arg(long, value_name = "TYPE")]
    pub(crate) quantize: Option<QuantizeArg>,
}

/// Sampling: seed, steps, guidance, sampler, schedule.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sampling")]
pub(crate) struct VideoSamplingArgs {
    /// Seed of the noise: the same seed gives the same video; -1 is a random one [default: random,
    /// printed with the result]
    #[arg(long, value_name = "N", value_parser = seed)]
    pub(crate) seed: Option<SeedArg>,
    /// Sampling steps, of both experts together [default: 20]
    #[arg(short, long, value_name = "N", value_parser = whole::<u32>(1..=10_000))]
    pub(crate) steps: Option<u32>,
    /// Step at which the low-noise expert takes over [default: half of the steps]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(0..=10_000))]
    pub(crate) switch: Option<u32>,
    /// CFG scale: how closely to follow the prompt; 1 ignores --negative and is twice as fast
    /// [default: 5]
    #[arg(long, value_name = "N", value_parser = number(-100.0..=100.0))]
    pub(crate) cfg: Option<f64>,
    /// CFG-Zero*: rescale the negative prediction to fit the positive one, as ComfyUI's CFGZeroStar
    #[arg(long)]
    pub(crate) cfg_zero_star: bool,
    /// Skip-layer guidance: guide away from a prediction without these blocks, such as 9,10, as
    /// ComfyUI's SkipLayerGuidanceDiT; such steps take 1.5 times as long
    #[arg(long, value_name = "N,N", value_parser = layers)]
    pub(crate) skip_layers: Option<Layers>,
    /// Scale of the skip-layer guidance [default: 3]
    #[arg(long, value_name = "N", value_parser = number(0.0..=10.0), requires = "skip_layers")]
    pub(crate) skip_scale: Option<f64>,
    /// Fraction of the sampling at which skip-layer guidance begins [default: 0.01]
    #[arg(long, value_name = "N", value_parser = number(0.0..=1.0), requires = "skip_layers")]
    pub(crate) skip_start: Option<f64>,
    /// Fraction of the sampling at which skip-layer guidance ends [default: 0.15]
    #[arg(long, value_name = "N", value_parser = number(0.0..=1.0), requires = "skip_layers")]
    pub(crate) skip_end: Option<f64>,
    /// Reuse steps where little changes, as ComfyUI's EasyCache and LazyCache: easy or lazy, with
    /// their threshold; higher is faster and less exact [default threshold: 0.2]
    #[arg(long, value_name = "easy|lazy[:N]", requires = "model")]
    pub(crate) step_cache: Option<StepCacheArg>,
    /// Shift of the noise schedule, as ComfyUI's ModelSamplingSD3: larger spends more steps at high
    /// noise [default: 8]
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

/// Camera movement.
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

/// Blocks of a network, by index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Layers(pub(crate) Vec<usize>);

fn layers(text: &str) -> Result<Layers, String> {
    let numbers = text.split(',').map(|n| n.trim().parse().ok());
    let numbers: Option<Vec<usize>> = numbers.collect();
    numbers
        .map(Layers)
        .ok_or_else(|| "numbers separated by commas are wanted, such as 9,10".to_owned())
}

/// All flags of `video`. Those about output files are ignored.
#[derive(Debug, Args)]
#[command(
    after_help = PLAN_EXAMPLES,
    mut_arg("prompt", |arg| arg.required(false).required_unless_present(Resettable::Reset)),
)]
pub(crate) struct PlanVideoArgs {
    /// Built-in description instead of files: wan2.1-t2v-1.3b, wan2.1-t2v-14b, wan2.1-i2v-14b,
    /// wan2.2-i2v-14b, wan2.2-s2v-14b, wan2.2-ti2v-5b
    #[arg(long, value_name = "NAME", conflicts_with_all = ["model", "low_noise", "vae", "clip"])]
    pub(crate) spec: Option<String>,
    #[command(flatten)]
    pub(crate) video: VideoArgs,
}

const EXAMPLES: &str = "\
Examples:
  # Without a model: frames between two prompts of the built-in model
  nino video a jumping frog
  # Text to video
  nino video \"a fox in deep snow\" -m wan2.1_t2v_1.3B_fp16 --frames 33
  # Image to video; the low-noise expert is found in the same folder
  nino video \"it turns its head\" -m wan2.2_i2v_high_noise_14B --image fox.png
  # From a first frame to a last frame
  nino video \"the sun sets\" -m wan2.2_i2v_high --image a.png --last-image b.png
  # Four-step LoRAs
  nino video \"rain\" -m high.gguf --low-noise low.gguf --lora fast_high --cfg 1
  # A control video
  nino video \"a dancer\" -m wan2.1_vace_1.3B --video poses.mp4
  # Camera control
  nino video \"a street\" -m fun_camera_high --image a.png --camera zoom-in
  # A video to a sound
  nino video \"she sings\" -m wan2.2_s2v_14B --image her.png --audio song.wav
  # The same again with another seed, from the video's metadata
  nino video --from fox.mp4 --seed 8
  # Continue a run that was stopped or killed
  nino video \"a fox\" -m wan2.1_t2v_1.3B_fp16 --seed 7 -o fox.mp4 --resume

Every prediction is kept in a journal next to the video until the video is complete. A resumed run \
gives the same video, byte for byte, as an uninterrupted one.";

const PLAN_EXAMPLES: &str = "\
Examples:
  nino plan video --spec wan2.2-i2v-14b --size 832x480 --on rx7600xt
  nino plan video --spec wan2.2-i2v-14b --quantize q4_k --budget 12GiB
  nino plan video --spec wan2.1-t2v-1.3b --budget 8GiB --device cpu
  nino plan video \"a fox\" -m wan2.1_t2v_1.3B_fp16 --fit";
