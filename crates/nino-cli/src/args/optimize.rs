//! The grammar of `optimize`.

use super::{DeviceArgs, whole};
use crate::size::Size;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OptimizeArgs {
    /// The model: a file or a name [default: the built-in one]
    #[arg(value_name = "MODEL")]
    pub(crate) model: Option<PathBuf>,
    /// Prompt of the images to compare
    #[arg(long, value_name = "TEXT", default_value = "a smiling sun")]
    pub(crate) prompt: String,
    /// Size of the images [default: the model's]
    #[arg(long, value_name = "WxH")]
    pub(crate) size: Option<Size>,
    /// Sampling steps of the baseline [default: the model's]
    #[arg(long, value_name = "N", value_parser = whole::<u32>(1..=1000))]
    pub(crate) steps: Option<u32>,
    /// Minimum PSNR relative to the image in f32, in dB
    #[arg(long, value_name = "DB", default_value_t = 40.0)]
    pub(crate) min_psnr: f64,
    /// Timed images of each option, after a warm-up
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = whole::<u32>(1..=100))]
    pub(crate) runs: u32,
    /// Folder for the report, the images and the settings
    #[arg(short, long, value_name = "FOLDER", default_value = "optimized")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

const EXAMPLES: &str = "\
Examples:
  nino optimize
  nino optimize sd15 --min-psnr 35 --budget 4GiB
  nino generate --profile measured a smiling sun

First an image is made in f32. Then each option is tried alone: storage type of activations, \
weights in 8 and 4 bits, tiles of 512 if the image is larger, fewer steps. Options that keep \
--min-psnr and take at most 97 % of the time or 95 % of the memory, and at most 110 % of the \
other, are kept. The fastest of each kind are tried together; while their PSNR is too low, the one \
that costs the least time per dB to do without is dropped. FOLDER gets report.html with the images \
side by side, and settings.toml for --profile. The best settings are remembered for this model and \
device: `nino generate --profile measured` uses them and prints a note.";
