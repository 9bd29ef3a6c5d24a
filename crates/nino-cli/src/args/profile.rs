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
    /// Write a flame chart, stages above kinds of op above layers, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) flame: Option<PathBuf>,
    /// Write memory over time, as planned and as seen, as SVG
    #[arg(long, value_name = "FILE")]
    pub(crate) memory: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) verb: ProfileVerb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProfileVerb {
    /// Make a picture from words
    Generate(Box<GenerateArgs>),
    /// Make a clip from words and pictures
    Video(Box<VideoArgs>),
    /// Turn a latent into a picture or a video
    Decode(DecodeArgs),
    /// Turn a picture into a latent
    Encode(EncodeArgs),
}

#[derive(Debug, Args)]
#[command(after_help = REPLAY_EXAMPLES)]
pub(crate) struct ReplayArgs {
    /// A captured stage, or a folder of them
    #[arg(value_name = "PATH", default_value = "captured")]
    pub(crate) path: PathBuf,
    /// The largest normalized mean square error that is the same result
    #[arg(long, value_name = "ERROR", default_value_t = 1e-5)]
    pub(crate) limit: f64,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

const REPLAY_EXAMPLES: &str = "\
Examples:
  # Every stage of a run as a file in the folder captured, or in one that is named
  NINO_CAPTURE=1 nino generate a smiling sun
  NINO_CAPTURE=stages nino generate a smiling sun
  # The same again on another device
  nino replay captured --device gpu

A captured stage is a safetensors file: its inputs, its outputs, and the model's file with every \
number it was told. The exit code is 1 when a result differs by more than --limit. Runs with masks, \
regions, LoRAs or pictures beside are captured to look at and are not run again.";

const EXAMPLES: &str = "\
Examples:
  # Where the time of a picture goes
  nino profile generate a smiling sun
  nino profile --trace sun.json --flame sun.svg generate a smiling sun

Each op is timed by itself, which takes some speed: the sum says where time goes, `nino bench` says \
how fast it is. With --json the verb's own document is printed; the timeline is in the files.";
