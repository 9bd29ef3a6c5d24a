//! The command line's grammar. No logic: `device.rs` and the verbs say what the words mean.

mod bench;
mod files;
mod generate;
mod grammar;
mod models;
mod numbers;
mod optimize;
mod plan;
mod profile;
mod reuse;
mod serve;
#[cfg(test)]
mod tests;
mod tools;
mod tune;
mod upscale;
mod vae;
mod video;

use crate::bytes::Bytes;
use crate::device::DeviceName;
use crate::settings::ProfileName;
use crate::version;
pub(crate) use bench::{BenchCompareArgs, BenchDecodeArgs, BenchGenerateArgs, BenchSuiteArgs};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand};
pub(crate) use files::{ConvertArgs, InspectArgs};
pub(crate) use generate::{
    BatchArg, ControlArgs, FillArg, GenerateArgs, HiresArg, HiresArgs, LoraArg, MAX_BATCH,
    ModelArgs, OutpaintArg, PredictionArg, PreprocessArg, PreviewArgs, QuantizeArg, SamplingArgs,
    StartArgs, StyleArgs, StyleTypeArg, UpscaleArg,
};
pub(crate) use grammar::{VerbFlags, grammar, parse};
pub(crate) use models::{ListArgs, ListKind, PullArgs, RmArgs};
use nino_engine::Tier;
pub(crate) use numbers::{SeedArg, number, seed, whole};
pub(crate) use optimize::OptimizeArgs;
pub(crate) use plan::{PlanArgs, PlanGenerateArgs, PlanVerb};
pub(crate) use profile::{ProfileRunArgs, ProfileVerb, ReplayArgs};
pub(crate) use reuse::StepCacheArg;
pub(crate) use serve::ServeArgs;
pub(crate) use tools::{CompletionsArgs, ConfigArgs, ConfigVerb, ManArgs};
pub(crate) use tune::TuneArgs;
pub(crate) use upscale::{PlanUpscaleArgs, UpscaleArgs, UpscaleHowArgs};
pub(crate) use vae::{
    ChunkArg, DecodeArgs, EncodeArgs, HowArgs, PlanDecodeArgs, PlanEncodeArgs, PrecisionArg,
    TileArg,
};
pub(crate) use video::{CameraArg, PlanVideoArgs, VideoArgs, VideoModelArgs, VideoSamplingArgs};

#[derive(Debug, Parser)]
#[command(
    name = "nino",
    version = version::SHORT,
    long_version = version::LONG,
    about = "Run diffusion models on the GPU you own, or on the CPU",
    after_help = EXAMPLES,
    max_term_width = 100,
    subcommand_required = true,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Make an image from a prompt
    Generate(Box<GenerateArgs>),
    /// Make a video from a prompt, with or without images
    Video(Box<VideoArgs>),
    /// Serve a web UI and ComfyUI's API over HTTP
    Serve(Box<ServeArgs>),
    /// Show what this machine has: CPU, GPUs, memory, settings, known problems
    Doctor(DoctorArgs),
    /// Show what a file is: a model, an image's settings, a latent, a workflow
    Inspect(InspectArgs),
    /// Convert a model to another weight type, as GGUF or safetensors
    Convert(ConvertArgs),
    /// Download a model
    Pull(PullArgs),
    /// List models, LoRAs, VAEs and downloads: what each is, its size, whether it fits
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Remove downloaded models
    Rm(RmArgs),
    /// Decode a latent to an image or a video
    Decode(DecodeArgs),
    /// Encode an image or a video to a latent
    Encode(EncodeArgs),
    /// Enlarge an image with an upscaling model
    Upscale(UpscaleArgs),
    /// Show how much memory and time a run would take, without running it
    Plan(PlanArgs),
    /// Measure the speed of this machine
    #[command(subcommand)]
    Bench(BenchVerb),
    /// Run another verb and show where its time and memory go, op by op
    Profile(ProfileRunArgs),
    /// Find settings that make a model faster or smaller at the same image quality
    Optimize(OptimizeArgs),
    /// Measure which kernel tile sizes are fastest on this card, and remember them
    Tune(TuneArgs),
    /// Run captured stages again and compare (NINO_CAPTURE=1 captures them)
    Replay(ReplayArgs),
    /// List samplers and schedulers, with what each is for
    Samplers,
    /// Show settings and where they come from, or write an initial config file
    Config(ConfigArgs),
    /// Print a completion script for a shell
    Completions(CompletionsArgs),
    /// Print the manual page, or write one for every verb
    Man(ManArgs),
    /// Multiply on a GPU's matrix units; `nino` first tries this in a separate process
    #[command(hide = true)]
    TryGpu {
        /// The number of `gpu:N`
        index: usize,
    },
}

/// Settings for a kind of card; flags, variables and the config file take precedence over them.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct ProfileArgs {
    /// Settings for a kind of card: 4gb, 6gb, 8gb, 12gb, 16gb, rx580-4gb, rx580-8gb, gfx1151 or
    /// safe; a .toml file; or `measured`, the best that `nino optimize` found for this model on
    /// this device
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<ProfileName>,
}

/// How much every verb prints, and in which form.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Print one JSON document on standard output instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Log to standard error: -v decisions, -vv every op, -vvv everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Print only the result, such as the path of the file: no progress bars, notes or tips
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Write progress to standard error as JSON lines, for other programs
    #[arg(long, global = true)]
    pub(crate) json_progress: bool,
}

/// Where to run and how much to use; flags take precedence over the NINO_* variables of the same
/// name, and those over the config file.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceArgs {
    /// Device: auto, cpu, gpu, or gpu:N as `nino doctor` numbers them
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<DeviceName>,
    /// Set of kernels to use instead of the best that the GPU supports
    #[arg(long, value_name = "TIER", value_parser = tiers())]
    pub(crate) gpu_tier: Option<Tier>,
    /// Maximum memory to use on the device, such as 3.5GiB or 800MiB
    #[arg(
        long,
        value_name = "SIZE",
        alias = "max-memory",
        allow_hyphen_values = true
    )]
    pub(crate) budget: Option<Bytes>,
    /// CPU threads to use [default: all cores]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=1024))]
    pub(crate) threads: Option<u16>,
}

/// Where the text encoders of an image or a video run.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct TextDeviceArgs {
    /// Device for the text encoders, such as cpu, to save memory on --device [default: --device]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) text_device: Option<DeviceName>,
}

fn tiers() -> impl TypedValueParser<Value = Tier> {
    let values = Tier::ALL.map(|tier| {
        let help = match tier {
            Tier::F32 => "f32 storage and arithmetic: any device",
            Tier::F16 => "f16 storage, f32 arithmetic",
            Tier::Subgroup => "subgroup reductions without shared memory",
            Tier::Coop => "matrix units: RDNA 3 and newer, NVIDIA",
        };
        PossibleValue::new(tier.name()).help(help)
    });
    PossibleValuesParser::new(values).try_map(|name| name.parse::<Tier>())
}

#[derive(Debug, Args)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorArgs {
    /// Run every op on every device and compare with a plain reference
    #[arg(long)]
    pub(crate) verify: bool,
    /// With --verify: only test cases whose name contains this
    #[arg(long, value_name = "TEXT", requires = "verify")]
    pub(crate) filter: Option<String>,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchVerb {
    /// Time single ops at the sizes that matter, relative to this device's limits
    Ops(BenchOpsArgs),
    /// Time whole decodes of images and videos, with a VAE file or random weights
    Decode(BenchDecodeArgs),
    /// Time text encoders, steps of diffusion models and whole images
    Generate(BenchGenerateArgs),
    /// Time decodes with one setting varied at a time, and write the results to files
    Suite(BenchSuiteArgs),
    /// Compare two results that a bench wrote with --json
    Compare(BenchCompareArgs),
}

#[derive(Debug, Args)]
#[command(after_help = BENCH_OPS_EXAMPLES)]
pub(crate) struct BenchOpsArgs {
    /// Only ops whose name or shape contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Timed runs of each op, after a warm-up
    #[arg(long, value_name = "N", default_value_t = 7,
          value_parser = whole::<u32>(5..=10_000))]
    pub(crate) runs: u32,
    /// Storage type of activations
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(crate) precision: PrecisionArg,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

const EXAMPLES: &str = "\
Examples:
  # An image, with the built-in model
  nino generate a smiling sun
  # A video
  nino video a jumping frog
  # A web UI, and ComfyUI's API
  nino serve
  # What is in this machine, and are there known problems?
  nino doctor
  # What is this file?
  nino inspect model.safetensors
  # A quantized copy
  nino convert in.ckpt out.gguf --type q8_0
  # Download a model
  nino pull sd15
  # Which models are installed, and do they fit?
  nino list
  # How fast are convolutions here?
  nino bench ops --filter conv

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
`nino help VERB` shows the options and examples of a verb.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  # Everything found, as text, or for a bug report
  nino doctor
  nino doctor --json > report.json
  # The op suite on the CPU and on every GPU and tier
  nino doctor --verify
  nino doctor --verify --device gpu:0 --gpu-tier f16
  # Only convolutions
  nino doctor --verify --filter conv

--verify tests every device and tier unless --device or --gpu-tier selects one. The exit code is 1 \
if an op differs.";

const BENCH_OPS_EXAMPLES: &str = "\
Examples:
  # The best device, every op
  nino bench ops
  # One core
  nino bench ops --device cpu --threads 1
  nino bench ops --filter attention --device gpu:0 --gpu-tier subgroup
  # Rows for a script: op, shape, median_ms, gflops and more
  nino bench ops --json --runs 20 > ops.json

Columns: median and spread (slowest minus fastest run, relative to the median) of n runs. share is \
relative to the roofline: the smaller of peak arithmetic and copy bandwidth x intensity, both \
measured first on the same device. It can exceed 100% where a fast algorithm (Winograd) does less \
arithmetic than is counted for the op.";
