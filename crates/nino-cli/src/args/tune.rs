//! The grammar of `tune`.

use super::DeviceArgs;
use clap::Args;
use nino_engine::device::Workload;

#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TuneArgs {
    /// Networks to measure for: sd15, sdxl, sd-vae, sd-vae-1024, flux, wan [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = Workload::named)]
    pub(crate) workload: Vec<Workload>,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
}

const EXAMPLES: &str = "\
Examples:
  nino tune
  nino tune --workload sdxl,sd-vae --device gpu:0

Kernels come in tiles of several sizes, and which is fastest differs from card to card; the tables \
in nino were measured on other cards or follow from a compiler's numbers. Each candidate is \
compiled here, its result compared, and timed; what is at least 3 % faster than the table's choice \
is kept for this card and this driver, and every later run uses it. Kernels in PTX have no choice \
of tiles: NINO_NO_PTX=1 measures the others on NVIDIA's cards.";
