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
    about = "Diffusion models on the graphics card you own, or on none",
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
    /// Make a picture from words
    Generate(Box<GenerateArgs>),
    /// Make a clip from words and pictures
    Video(Box<VideoArgs>),
    /// Serve a page and ComfyUI's dialect over HTTP
    Serve(Box<ServeArgs>),
    /// Show what this machine can do: CPU, graphics cards, memory, settings, known trouble
    Doctor(DoctorArgs),
    /// Show what a file is: a model, a picture's settings, a latent, a workflow
    Inspect(InspectArgs),
    /// Write a model in another encoding, as GGUF or safetensors
    Convert(ConvertArgs),
    /// Download a model
    Pull(PullArgs),
    /// List models and what belongs to them: what each is, its size, whether it fits
    #[command(visible_alias = "ls")]
    List(ListArgs),
    /// Remove downloads
    Rm(RmArgs),
    /// Turn a latent into a picture or a video
    Decode(DecodeArgs),
    /// Turn a picture into a latent
    Encode(EncodeArgs),
    /// Make a picture larger with an upscaler
    Upscale(UpscaleArgs),
    /// Say what a piece of work would need, before anything is allocated
    Plan(PlanArgs),
    /// Measure how fast this machine is
    #[command(subcommand)]
    Bench(BenchVerb),
    /// Do what another verb does and show where its time and memory went, op by op
    Profile(ProfileRunArgs),
    /// Try what makes a model faster or smaller, and keep what keeps its pictures
    Optimize(OptimizeArgs),
    /// Measure which tiles of kernels are fastest on this card, and keep them
    Tune(TuneArgs),
    /// Run captured stages again and compare (NINO_CAPTURE=1 captures them)
    Replay(ReplayArgs),
    /// List samplers and schedulers, with what each is for
    Samplers,
    /// Show settings and where they come from, or write a config file to begin with
    Config(ConfigArgs),
    /// Print a script that completes commands of a shell
    Completions(CompletionsArgs),
    /// Print the manual page, or write one for every verb
    Man(ManArgs),
    /// Multiply on a GPU's matrix units: what `nino` has another process try first
    #[command(hide = true)]
    TryGpu {
        /// The number of `gpu:N`
        index: usize,
    },
}

/// Settings for a kind of card; what flags, variables and the config file say wins over them.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct ProfileArgs {
    /// Settings for a kind of card: 4gb, 6gb, 8gb, 12gb, 16gb, rx580-4gb, rx580-8gb, gfx1151 or
    /// safe; a file of them that ends in .toml; or `measured`, what `nino optimize` found best for
    /// this model on this device
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<ProfileName>,
}

/// What every verb can say and how loudly.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Print one JSON document on standard output instead of text
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Say more on standard error: -v what was decided, -vv every op, -vvv all there is
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
    /// Print the result alone, in one line where that is a file's path: no progress bars, notes or
    /// tips
    #[arg(short, long, global = true)]
    pub(crate) quiet: bool,
    /// Write progress to standard error as JSON lines, for a program that shows it
    #[arg(long, global = true)]
    pub(crate) json_progress: bool,
}

/// Where to run and how much to use; flags win over the NINO_* variables of the same name, and
/// those over the config file.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct DeviceArgs {
    /// auto, cpu, gpu, or gpu:N as `nino doctor` numbers them
    #[arg(long, value_name = "DEVICE")]
    pub(crate) device: Option<DeviceName>,
    /// Use this level of kernels instead of the best the GPU has
    #[arg(long, value_name = "TIER", value_parser = tiers())]
    pub(crate) gpu_tier: Option<Tier>,
    /// Most memory to use on the device, such as 3.5GiB or 800MiB
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

/// Where the text encoders of a picture or clip run.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Device")]
pub(crate) struct TextDeviceArgs {
    /// Run text encoders on another device, such as cpu: the first then holds nothing of them
    /// [default: as --device]
    #[arg(long, value_name = "DEVICE")]
    pub(crate) text_device: Option<DeviceName>,
}

fn tiers() -> impl TypedValueParser<Value = Tier> {
    let values = Tier::ALL.map(|tier| {
        let help = match tier {
            Tier::F32 => "f32 storage and arithmetic: any device",
            Tier::F16 => "f16 storage, f32 arithmetic",
            Tier::Subgroup => "reductions across the lanes of a subgroup",
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
    /// With --verify: only problems whose name contains this
    #[arg(long, value_name = "TEXT", requires = "verify")]
    pub(crate) filter: Option<String>,
    #[command(flatten)]
    pub(crate) profile: ProfileArgs,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BenchVerb {
    /// Time single ops at the sizes that matter, against this device's own limits
    Ops(BenchOpsArgs),
    /// Time whole decodes, pictures and clips, with a VAE file or made-up weights
    Decode(BenchDecodeArgs),
    /// Time text encoders, steps of the UNet and whole pictures
    Generate(BenchGenerateArgs),
    /// Time decodes with one thing varied at a time, and write documents of it
    Suite(BenchSuiteArgs),
    /// Compare two documents that a bench wrote with --json
    Compare(BenchCompareArgs),
}

#[derive(Debug, Args)]
#[command(after_help = BENCH_OPS_EXAMPLES)]
pub(crate) struct BenchOpsArgs {
    /// Only ops whose name or shape contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) filter: Option<String>,
    /// Timed runs of each op, after warming up
    #[arg(long, value_name = "N", default_value_t = 7,
          value_parser = whole::<u32>(5..=10_000))]
    pub(crate) runs: u32,
    /// How activations are stored
    #[arg(long, value_name = "MODE", default_value = "auto")]
    pub(crate) precision: PrecisionArg,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

const EXAMPLES: &str = "\
Examples:
  # A picture, with the model that is built in
  nino generate a smiling sun
  # A clip
  nino video a jumping frog
  # A page in the browser, and ComfyUI's dialect
  nino serve
  # What is in this machine, and is anything wrong with it?
  nino doctor
  # What is this file?
  nino inspect model.safetensors
  nino convert in.ckpt out.gguf --type q8_0
  # Download a model
  nino pull sd15
  # Which models are here, and do they fit?
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

--verify tries every device and tier unless --device or --gpu-tier name one; the exit code is 1 \
when an op differs.";

const BENCH_OPS_EXAMPLES: &str = "\
Examples:
  # The best device, every op
  nino bench ops
  # One core
  nino bench ops --device cpu --threads 1
  nino bench ops --filter attention --device gpu:0 --gpu-tier subgroup
  # Rows for a script: op, shape, median_ms, gflops and more
  nino bench ops --json --runs 20 > ops.json

Columns: median and spread (slowest less fastest, as share of the median) of n runs; share is of \
the smaller of peak arithmetic and copy bandwidth x intensity, both measured first on the same \
device. It can pass 100% where a fast algorithm (Winograd) does less arithmetic than the op is \
credited with.";
