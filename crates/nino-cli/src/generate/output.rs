//! Where pictures go, and where the sampled latent is kept until they are there.

use crate::args::GenerateArgs;
use crate::decode::numbered;
use anyhow::Result;
use nino_engine::media::write_picture;
use nino_engine::{GenerateRequest, Generated};
use std::path::{Path, PathBuf};

/// Named after the prompt and the seed, beside what is there already.
pub(super) fn path(args: &GenerateArgs, request: &GenerateRequest) -> PathBuf {
    if let Some(path) = &args.output {
        return path.clone();
    }
    let words = request
        .prompt
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
    PathBuf::from(format!("{name}-{}.png", request.seed.value))
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

/// Tells where the sampled latent is, when there is one.
pub(super) fn rescued(latent: &Path) -> String {
    if latent.exists() {
        format!(
            "the sampled latent is kept in {}; `nino decode` goes on from it",
            latent.display()
        )
    } else {
        "no picture was made".to_owned()
    }
}
