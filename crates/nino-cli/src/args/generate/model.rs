//! Which weights to use.

use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// Checkpoint file or diffusers folder [default: nino-emoji, which is built in]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Option<PathBuf>,
    /// VAE to use instead of the model's own
    #[arg(long, value_name = "FILE")]
    pub(crate) vae: Option<PathBuf>,
}
