//! Previews while sampling.

use crate::args::whole;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(next_help_heading = "Previews")]
pub(crate) struct PreviewArgs {
    /// Keep writing a preview of the current state to this file: png, jpg or webp
    #[arg(long, value_name = "FILE")]
    pub(crate) preview: Option<PathBuf>,
    /// Steps between previews [default: 1]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=10_000))]
    pub(crate) preview_every: Option<u16>,
    /// TAESD to decode previews with [default: latent2rgb, one color per 8x8 pixels]
    #[arg(long, value_name = "FILE")]
    pub(crate) preview_vae: Option<PathBuf>,
    /// Do not show previews in the terminal
    #[arg(long)]
    pub(crate) no_preview: bool,
}
