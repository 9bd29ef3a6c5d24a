//! Seeing the picture grow.

use crate::args::whole;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
#[command(next_help_heading = "Previews")]
pub(crate) struct PreviewArgs {
    /// Write what the unfinished picture looks like to this file, over and over: png, jpg or webp
    #[arg(long, value_name = "FILE")]
    pub(crate) preview: Option<PathBuf>,
    /// A preview every so many steps [default: 1]
    #[arg(long, value_name = "N", value_parser = whole::<u16>(1..=10_000))]
    pub(crate) preview_every: Option<u16>,
    /// TAESD to decode previews with; else they are a color for each 8x8 pixels
    #[arg(long, value_name = "FILE")]
    pub(crate) preview_vae: Option<PathBuf>,
    /// No pictures in the terminal
    #[arg(long)]
    pub(crate) no_preview: bool,
}
