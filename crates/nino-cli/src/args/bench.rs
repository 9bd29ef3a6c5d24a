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
    /// Built-in description with made-up weights: sd-vae, flux-vae, wan21-vae, taesd, ...
    /// [default: sd-vae for images, wan21-vae for videos]
    #[arg(long, value_name = "NAME")]
    pub(crate) spec: Option<String>,
    /// Only rows whose name contains this, such as 512x512 or "17 frames"
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Timed runs of each row, after warming up
    #[arg(long, value_name = "N", default_value_t = 5,
          value_parser = whole::<u32>(1..=10_000))]
    pub(crate) runs: u32,
    /// How activations are stored
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(crate) precision: PrecisionArg,
    /// Show where the time goes, by kind of op, from one more run of each row
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
    /// Folder for the documents
    #[arg(short, long, value_name = "FOLDER", default_value = "bench")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) decode: BenchDecodeArgs,
}

#[derive(Debug, Args)]
#[command(after_help = GENERATE_EXAMPLES)]
pub(crate) struct BenchGenerateArgs {
    /// Checkpoint file or diffusers folder [default: built-in descriptions with made-up weights]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// Rows of clips instead: steps of Wan's transformers, and single blocks of them
    #[arg(long, conflicts_with = "model")]
    pub(crate) video: bool,
    /// Only rows whose name contains this, such as "unet sd15" or q8_0
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Timed runs of each row, after warming up
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = whole::<u32>(1..=10_000))]
    pub(crate) runs: u32,
    /// Steps of a whole picture
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = whole::<u32>(1..=1000))]
    pub(crate) steps: u32,
    /// How activations are stored
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(crate) precision: PrecisionArg,
    /// Show where the time goes, by kind of op and by shape, from one more run of each row
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
    /// What was measured first
    #[arg(value_name = "BEFORE")]
    pub(crate) before: PathBuf,
    /// What was measured then
    #[arg(value_name = "AFTER")]
    pub(crate) after: PathBuf,
}

const SUITE_EXAMPLES: &str = "\
Examples:
  nino bench suite
  nino bench suite --filter \"video 320x320\" --runs 7 -o before

All rows of `nino bench decode`, and one thing varied at a time: precision, frames at a time, memory, \
batch. The table goes to suite_TIME.md and what was measured to suite_TIME.json, which `nino bench \
compare` reads.";

const COMPARE_EXAMPLES: &str = "\
Examples:
  nino bench decode --json > before.json
  nino bench decode --json > after.json
  nino bench compare before.json after.json

Rows are matched by what was measured. p is the probability of a difference of medians at least as \
large if both series were of the same thing (a permutation test over the single runs); rows with p \
of 0.05 and less are called faster or slower. Below four runs a side no p is that small.";

const GENERATE_EXAMPLES: &str = "\
Examples:
  # A step of Stable Diffusion 1.5, by weights
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
the prediction in host memory. --budget is kept to as in generate: weights stream where they do \
not fit. A picture is both prompts, the steps and the decode, without loading; the networks \
are loaded one after the other. q8_0 and q4_k are for kernels of convolutions, too; rows that \
blocks of q4_k do not fill are q8_0, and the few that no block fills f16. The first run, which \
compiles kernels, is told apart from the median of the n after it; spread is slowest less fastest, \
as share of the median.";

const DECODE_EXAMPLES: &str = "\
Examples:
  # Every row; on a CPU that is a matter of an hour
  nino bench decode
  nino bench decode --filter 512x512 --runs 3
  # Where the time of a TAESD goes
  nino bench decode --spec taesd --profile
  nino bench decode --vae ae.safetensors --filter image --json > decode.json
  nino bench decode --filter video --device gpu:0

A run is from a latent in host memory to values in host memory. The first run, which compiles \
kernels, is told apart from the median of the n after it; spread is slowest less fastest, as share \
of the median. Peaks: what the plan says, what was allocated on the device, and what the process \
held at most. Low memory is a quarter of the activations that a whole decode takes. Quality is \
against the same decode in f32. A clip is of whole latent frames: 16 frames are 17, 8 are 9.";
