//! Which files of a repository make up a model, when none was named.
//!
//! A checkpoint in one file is preferred to a diffusers folder, f16 to f32, and safetensors to
//! pickles. What `nino` never reads is left out: safety checkers, other frameworks' weights.

mod sets;

use crate::answer::RemoteFile;
use crate::names::{FileName, RepoName};
use sets::Set;

/// What the caller wants otherwise than by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// Patterns with `*` and `?`. All files that match one are taken, and no others.
    pub include: Vec<String>,
    /// The precision or training in the files' names, such as `fp16` or `non_ema`.
    pub variant: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChoiceError {
    #[error("{repo} has no model files")]
    NoModels { repo: String },
    #[error("{repo} has no file that matches {include}")]
    NoMatch { repo: String, include: String },
    #[error("{repo} has no files of the variant {variant:?}")]
    NoVariant { repo: String, variant: String },
    #[error("{repo} has several models; name one of them: {}", named(repo, found))]
    Several {
        repo: String,
        found: Vec<(String, Option<u64>)>,
    },
}

/// A single file counts as f16 if it has no more bytes than the f16 folder, and a bit for names.
const AS_SMALL_AS_HALF: f64 = 1.15;

/// Files of the repository, or of one folder of it, that make up a model.
pub(crate) fn choose<'a>(
    repo: &RepoName,
    files: &'a [RemoteFile],
    below: Option<&FileName>,
    choice: &Choice,
) -> Result<Vec<&'a RemoteFile>, ChoiceError> {
    let repo = repo.to_string();
    if !choice.include.is_empty() {
        let matches = |file: &&RemoteFile| {
            let mut patterns = choice.include.iter();
            patterns.any(|pattern| glob(pattern.as_bytes(), file.name.as_str().as_bytes()))
        };
        let found: Vec<&RemoteFile> = files.iter().filter(matches).collect();
        if found.is_empty() {
            let include = choice.include.join(", ");
            return Err(ChoiceError::NoMatch { repo, include });
        }
        return Ok(found);
    }
    let prefix = below.map_or(String::new(), |folder| format!("{folder}/"));
    let named = sets::Named::of(files, &prefix);
    let variant = choice.variant.as_deref();
    let folder = sets::folder(&named, variant);
    let singles = sets::singles(&named, folder.is_some());
    if let Some(variant) = variant {
        let has = |set: &&Set| set.variant.as_deref() == Some(variant);
        let mut found = folder.iter().chain(&singles).filter(has);
        let found = found.next().ok_or_else(|| ChoiceError::NoVariant {
            repo,
            variant: variant.to_owned(),
        })?;
        return Ok(found.files.clone());
    }
    let single = one_of(&singles, folder.as_ref());
    match (single, folder) {
        (Ok(single), Some(folder)) => {
            let single_is_better = is_half(single, &folder) || !folder.is_half();
            let better = if single_is_better { single } else { &folder };
            Ok(better.files.clone())
        }
        (Ok(single), None) => Ok(single.files.clone()),
        (Err(_), Some(folder)) => Ok(folder.files),
        (Err(found), None) if found.is_empty() => Err(ChoiceError::NoModels { repo }),
        (Err(found), None) => Err(ChoiceError::Several { repo, found }),
    }
}

type Offered = Vec<(String, Option<u64>)>;

/// The one single file that is meant: the only one, or the best of several whose names begin with
/// the shortest name, because those are trainings and precisions of one model.
fn one_of<'a, 'f>(singles: &'a [Set<'f>], folder: Option<&Set>) -> Result<&'a Set<'f>, Offered> {
    let shortest = singles.iter().min_by_key(|s| s.stem.len());
    let is_family = shortest.is_some_and(|shortest| {
        let begins = |s: &Set| s.stem.starts_with(&shortest.stem) && !s.is_gguf;
        singles.len() == 1 || singles.iter().all(begins)
    });
    if !is_family {
        let offer = |s: &Set| (s.files[0].name.to_string(), s.bytes);
        return Err(singles.iter().map(offer).collect());
    }
    let rank = |s: &&Set| {
        let half = s.is_half() || folder.is_some_and(|folder| is_half(s, folder));
        (!half, s.bytes.unwrap_or(u64::MAX), s.stem.len())
    };
    singles.iter().min_by_key(rank).ok_or_else(Vec::new)
}

/// Whether a single file holds f16: its name says so, or it is no larger than the f16 folder.
fn is_half(single: &Set, folder: &Set) -> bool {
    let small = match (single.bytes, folder.bytes) {
        (Some(single), Some(folder)) => (single as f64) <= folder as f64 * AS_SMALL_AS_HALF,
        _ => false,
    };
    single.is_half() || (folder.is_half() && small)
}

/// `*` is any text, slashes too, and `?` any one byte.
fn glob(pattern: &[u8], name: &[u8]) -> bool {
    // Where to go on when the rest does not match: the last `*` takes one byte more.
    let mut retry: Option<(usize, usize)> = None;
    let (mut p, mut n) = (0, 0);
    while n < name.len() {
        match pattern.get(p) {
            Some(b'*') => {
                retry = Some((p, n));
                p += 1;
            }
            Some(&c) if c == b'?' || c == name[n] => {
                p += 1;
                n += 1;
            }
            _ => {
                let Some((star, from)) = retry else {
                    return false;
                };
                retry = Some((star, from + 1));
                (p, n) = (star + 1, from + 1);
            }
        }
    }
    pattern[p..].iter().all(|&c| c == b'*')
}

fn named(repo: &str, found: &[(String, Option<u64>)]) -> String {
    const SHOWN: usize = 20;
    let size =
        |size: Option<u64>| size.map_or(String::new(), |s| format!(" ({:.1} GB)", s as f64 / 1e9));
    let shown = found.iter().take(SHOWN);
    let shown: Vec<String> = shown
        .map(|(name, bytes)| format!("{repo}:{name}{}", size(*bytes)))
        .collect();
    match found.len().checked_sub(SHOWN) {
        None | Some(0) => shown.join(", "),
        Some(more) => format!("{} and {more} more", shown.join(", ")),
    }
}
