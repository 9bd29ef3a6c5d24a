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
    if args.output.is_none() {
        can_write_picture(Path::new("picture.png"))?;
    }
    if let Some(file) = &args.save_latent {
        can_write(file)?;
    }
    Ok(())
}

/// The file of picture `i`: as asked for, numbered when there are several; else named after the
/// prompt and the seed, and counted up where such a picture is there already.
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
    unused(Path::new(""), &format!("{name}-{seed}"))
}

/// `name.png`, or the first of `name-2.png`, `name-3.png` and so on that is not there, nor as the
/// first picture of a batch, nor as a latent that waits for its picture.
fn unused(folder: &Path, name: &str) -> PathBuf {
    let is_free = |path: &PathBuf| {
        let taken = [
            path.clone(),
            numbered(path, 0),
            path.with_extension("latent"),
        ];
        !taken.iter().any(|p| folder.join(p).exists())
    };
    let counted = (2..).map(|n: usize| PathBuf::from(format!("{name}-{n}.png")));
    let mut names = std::iter::once(PathBuf::from(format!("{name}.png"))).chain(counted);
    names.find(is_free).expect("numbers do not end")
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

#[cfg(test)]
mod tests {
    use super::unused;
    use std::path::Path;

    #[test]
    fn names_count_up_where_a_picture_a_batch_or_a_latent_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let next = || unused(folder.path(), "a-fox-7");
        for (expected, made) in [
            ("a-fox-7.png", "a-fox-7.png"),
            ("a-fox-7-2.png", "a-fox-7-2_00000.png"),
            ("a-fox-7-3.png", "a-fox-7-3.latent"),
        ] {
            assert_eq!(next(), Path::new(expected));
            std::fs::write(folder.path().join(made), "").unwrap();
        }
        assert_eq!(next(), Path::new("a-fox-7-4.png"));
    }
}
