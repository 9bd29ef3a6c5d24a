//! The grammar of `profile` and `replay`.

use super::{DecodeArgs, DeviceArgs, EncodeArgs, GenerateArgs, VideoArgs};
use clap::{Args, Subcommand};
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ProfileRunArgs {
    /// Write the timeline as a Chrome trace, for chrome://tracing or ui.perfetto.dev
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// Write a flame chart as SVG: stages, then kinds of op, then layers
    #[arg(long, value_name = "FILE")]
    pub(crate) flame: Option<PathBuf>,
    /// Write a chart of memory over time, planned and measured, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) memory: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) verb: ProfileVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileVerb {
    /// Make an image from a prompt
    Generate(Box<GenerateArgs>),
    /// Make a video from a prompt, with or without images
    Video(Box<VideoArgs>),
    /// Decode a latent to an image or a video
    Decode(DecodeArgs),
    /// Encode an image or a video to a latent
    Encode(EncodeArgs),
}

#[derive(Debug, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// A captured stage, or a folder of them
    #[arg(value_name = "PATH", default_value = "captured")]
    pub(crate) path: PathBuf,
    /// Maximum normalized mean squared error (NMSE) of an equal result
    #[arg(long, value_name = "ERROR", default_value_t = 1e-5)]
    pub(crate) limit: f64,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  # Write every stage of a run to the folder captured, or to another one
  NINO_CAPTURE=1 nino generate a smiling sun
  NINO_CAPTURE=stages nino generate a smiling sun
  # Run the stages again on another device
  nino replay captured --device gpu

A captured stage is a safetensors file with its inputs, its outputs, the path of the model and all \
settings. The exit code is 1 if a result differs by more than --limit. Stages with masks, regions, \
LoRAs or reference images are captured for inspection only and cannot be replayed.";

const EXAMPLES: &str = "\
Examples:
  # Where the time of an image goes
  nino profile generate a smiling sun
  nino profile --trace sun.json --flame sun.svg generate a smiling sun

Each op is timed by itself, which slows the run down: `nino profile` shows where time goes, `nino \
bench` how fast it is. With --json the verb's own document is printed; the timeline is in the \
files.";
