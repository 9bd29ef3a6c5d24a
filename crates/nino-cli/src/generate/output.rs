//! Where pictures go, and where the sampled latent is kept until they are there.

use crate::args::GenerateArgs;
use crate::decode::numbered;
use anyhow::Result;
use nino_engine::Generated;
use nino_engine::media::{can_write, can_write_picture, write_picture};
use std::path::{Path, PathBuf};

/// Says now, not after minutes of sampling, that there is no place for a picture.
pub(super) fn check(args: &GenerateArgs) -> Result<()> {
    for file in [&args.output, &args.preview.preview].into_iter().flatten() {
        can_write_picture(file)?;
    }
    if let Some(file) = &args.save_latent {
        can_write(file)?;
    }
    Ok(())
}

/// The file of picture `i`: as asked for, numbered when there are several; else named after the
/// prompt and the seed.
pub(super) fn path(args: &GenerateArgs, prompt: &str, seed: u64, i: usize) -> PathBuf {
    if let Some(path) = &args.output {
        return several(args, path, i);
    }
    let words = prompt
        .split(|c: char| !c.is_alphanumeric())
        .filter(|w| !w.is_empty());
    let mut name: String = words
        .collect::<Vec<_>>()
        .join("-")
        .to_lowercase()
        .chars()
        .take(60)
        .collect();
    if name.is_empty() {
        "picture".clone_into(&mut name);
    }
    PathBuf::from(format!("{name}-{seed}.png"))
}

pub(super) fn write(
    output: &Path,
    made: &Generated,
    text: &[(&str, String)],
) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for (i, picture) in made.pictures.iter().enumerate() {
        let path = if made.pictures.len() == 1 {
            output.to_owned()
        } else {
            numbered(output, i)
        };
        write_picture(&path, picture, text)?;
        files.push(path);
    }
    Ok(files)
}

/// Where `--save-latent` keeps the latent of picture `i`.
pub(super) fn latent(args: &GenerateArgs, i: usize) -> Option<PathBuf> {
    let path = args.save_latent.as_deref()?;
    Some(several(args, path, i))
}

fn several(args: &GenerateArgs, path: &Path, i: usize) -> PathBuf {
    if args.count == 1 {
        path.to_owned()
    } else {
        numbered(path, i)
    }
}
