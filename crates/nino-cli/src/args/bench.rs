//! The grammar of the benches that run whole models.

use super::{DeviceArgs, PrecisionArg, whole};
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = DECODE_EXAMPLES)]
pub(crate) struct BenchDecodeArgs {
    /// VAE file
    #[arg(long, value_name = "FILE", conflicts_with = "spec")]
    pub(crate) vae: Option<PathBuf>,
    /// Built-in model with random weights: sd-vae, flux-vae, wan21-vae, taesd, ... [default: sd-vae
    /// for images, wan21-vae for videos]
    #[arg(long, value_name = "NAME")]
    pub(crate) spec: Option<String>,
    /// Only rows whose name contains this, such as 512x512 or "17 frames"
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Timed runs of each row, after a warm-up
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = whole::<u32>(1..=10_000))]
    pub(crate) runs: u32,
    /// Storage type of activations
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(crate) precision: PrecisionArg,
    /// Show where the time goes, by kind of op; runs each row once more
    #[arg(long)]
    pub(crate) profile: bool,
    /// Do not compare with a decode in f32
    #[arg(long)]
    pub(crate) no_quality: bool,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = SUITE_EXAMPLES)]
pub(crate) struct BenchSuiteArgs {
    /// Folder for the results
    #[arg(short, long, value_name = "FOLDER", default_value = "bench")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) decode: BenchDecodeArgs,
}

#[derive(Debug, Args)]
#[command(after_help = GENERATE_EXAMPLES)]
pub(crate) struct BenchGenerateArgs {
    /// Checkpoint file or diffusers folder [default: built-in models with random weights]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// Time video models instead: steps and single blocks of Wan's transformers
    #[arg(long, conflicts_with = "model")]
    pub(crate) video: bool,
    /// Only rows whose name contains this, such as "unet sd15" or q8_0
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Timed runs of each row, after a warm-up
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = whole::<u32>(1..=10_000))]
    pub(crate) runs: u32,
    /// Sampling steps of a whole image
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = whole::<u32>(1..=1000))]
    pub(crate) steps: u32,
    /// Storage type of activations
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(crate) precision: PrecisionArg,
    /// Show where the time goes, by kind of op and by shape; runs each row once more
    #[arg(long)]
    pub(crate) profile: bool,
    /// Compare with f32 weights and activations on the CPU, which takes time and memory
    #[arg(long)]
    pub(crate) quality: bool,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

#[derive(Debug, Args)]
#[command(after_help = COMPARE_EXAMPLES)]
pub(crate) struct BenchCompareArgs {
    /// The earlier result
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// The later result
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,
}

const SUITE_EXAMPLES: &str = "\
Examples:
  nino bench suite
  nino bench suite --filter \"video 320x320\" --runs 7 -o before

Runs all rows of `nino bench decode`, and varies one setting at a time: precision, frames at a \
time, memory, batch. It writes the table to suite_TIME.md and the measurements to suite_TIME.json, \
which `nino bench compare` reads.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  nino bench decode --json > before.json
  nino bench decode --json > after.json
  nino bench compare before.json after.json

Rows are matched by what they measure. p is the probability of a difference of medians at least as \
large if both series measured the same thing (a permutation test over the single runs). Rows with \
p of 0.05 or less are called faster or slower. With fewer than four runs a side, p is never that \
small.";

const GENERATE_EXAMPLES: &str = "\
Examples:
  # A step of Stable Diffusion 1.5, by type of weights
  nino bench generate --filter \"unet sd15\"
  # Where the time goes
  nino bench generate --filter q8_0 --profile
  nino bench generate --filter picture --steps 20
  # Flux.1 dev with half of its weights in host memory
  nino bench generate --filter \"flux dev 1024x1024 512 tokens f16\" --budget 8GiB
  # A block of Wan 1.3B at full width, and a whole step of it
  nino bench generate --video --filter \"block 1.3b 17 frames\"
  nino bench generate --video --filter \"step 1.3b 81 frames\"
  nino bench generate --filter \"sd15 512x512 batch 2 q4_k\" --quality
  nino bench generate --model sd15.safetensors --json > generate.json

A step is one run of the diffusion model (a UNet: for both prompts), from inputs in host memory to \
the prediction in host memory. Weights that do not fit --budget are streamed, as in generate. A \
picture row is both prompts, the steps and the decode, without loading; the networks are loaded \
one after the other. q8_0 and q4_k quantize convolution kernels too; rows that do not fill blocks \
of q4_k are q8_0, and the few that fill no block are f16. The first run, which compiles kernels, \
is reported separately from the median of the n runs after it. Spread is slowest minus fastest \
run, relative to the median.";

const DECODE_EXAMPLES: &str = "\
Examples:
  # Every row; on a CPU this takes about an hour
  nino bench decode
  nino bench decode --filter 512x512 --runs 3
  # Where the time of a TAESD goes
  nino bench decode --spec taesd --profile
  nino bench decode --vae ae.safetensors --filter image --json > decode.json
  nino bench decode --filter video --device gpu:0

A run is from a latent in host memory to pixels in host memory. The first run, which compiles \
kernels, is reported separately from the median of the n runs after it. Spread is slowest minus \
fastest run, relative to the median. Peaks: planned, allocated on the device, and the maximum of \
the process. Low memory is a quarter of the activations of a whole decode. Quality is relative to \
the same decode in f32. A video has whole latent frames: 16 frames become 17, 8 become 9.";
