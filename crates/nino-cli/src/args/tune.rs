//! The grammar of `tune`.

use super::DeviceArgs;
use clap::Args;
use nino_engine::device::Workload;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TuneArgs {
    /// Networks to measure for: sd15, sdxl, sd-vae, sd-vae-1024, flux, wan, qwen-image
    /// [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = Workload::named)]
    pub(crate) workload: Vec<Workload>,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

const EXAMPLES: &str = "\
Examples:
  nino tune
  nino tune --workload sdxl,sd-vae --device gpu:0

Kernels have tiles of several sizes, and the fastest differs from card to card; nino's built-in \
tables were measured on other cards or derived from compiler statistics. Each candidate is \
compiled, checked and timed on this card. Those at least 3 % faster than the built-in choice are \
kept for this card and this driver, and all later runs use them. PTX kernels have no choice of \
tiles; NINO_PTX=0 measures the others on NVIDIA cards.";
