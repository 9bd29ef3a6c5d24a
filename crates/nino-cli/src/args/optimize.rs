//! The grammar of `optimize`.

use super::{DeviceArgs, whole};
use crate::size::Size;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OptimizeArgs {
    /// The model: a file, or a name that is looked up [default: the built-in one]
    #[arg(value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,
    /// What the pictures to compare show
    #[arg(long, value_name = "TEXT", default_value = "a smiling sun")]
    pub(crate) prompt: String,
    /// Their size [default: the model's]
    #[arg(long, value_name = "WxH")]
    pub(crate) size: Option<Size>,
    /// Steps to begin with [default: the model's]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1000))]
    pub(crate) steps: Option<u32>,
    /// The least likeness to the picture in f32, in dB
    #[arg(long, value_name = "DB", default_value_t = 40.0)]
    pub(crate) min_psnr: f64,
    /// Timed pictures of each option, after one that warms up
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole::<u32>(1..=100))]
    pub(crate) runs: u32,
    /// Folder for the report, the pictures and the settings
    #[arg(short, long, value_name = "FOLDER", default_value = "optimized")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

const EXAMPLES: &str = "\
Examples:
  nino optimize
  nino optimize sd15 --min-psnr 35 --max-memory 4GiB
  nino generate --profile measured a smiling sun

A picture in f32 is made first. Then each option is tried alone: storage of activations, weights in \
blocks of 8 and 4 bits, tiles of 512 where the picture is larger, fewer steps. Those that keep \
--min-psnr and take at most 97 % of the time or 95 % of the memory, and of the other at most 110 %, \
are kept, the fastest of each kind, and tried together; where that is not like enough, the one that \
cost most goes, until it is. FOLDER has report.html with the pictures side by side, and \
settings.toml, which --profile takes. What is best is remembered for this model and device: \
`nino generate --profile measured` uses it and says so.";
