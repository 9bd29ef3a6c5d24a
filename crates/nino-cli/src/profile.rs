//! `nino profile`: another verb, with every op timed; then where its time and memory went.

mod flame;
mod memory;
mod table;
#[cfg(test)]
mod tests;
mod trace;

use crate::args::{ProfileRunArgs, ProfileVerb};
use crate::env::Env;
use crate::printer::Printer;
use crate::{decode, generate, video};
use anyhow::{Context, Result};
use nino_engine::timeline;
use std::path::Path;

pub(crate) fn run(args: &ProfileRunArgs, env: &Env, printer: Printer) -> Result<()> {
    timeline::start();
    match &args.verb {
        ProfileVerb::Generate(args) => generate::run(args, env, printer),
        ProfileVerb::Video(args) => video::run(args, env, printer),
        ProfileVerb::Decode(args) => decode::decode(args, env, printer),
        ProfileVerb::Encode(args) => decode::encode(args, env, printer),
    }?;
    let timeline = timeline::take();
    let files = [
        (&args.trace, trace::render(&timeline)),
        (&args.flame, flame::render(&timeline)),
        (&args.memory, memory::render(&timeline)),
    ];
    for (path, text) in files {
        if let Some(path) = path {
            write(path, &text)?;
        }
    }
    printer.text(table::render(&timeline))
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).with_context(|| format!("{} could not be written", path.display()))
}
