//! How names meet files, and which files a misspelt name may have meant.

use super::walk::EXTENSIONS;
use nino_sample::nearest;
use std::collections::BTreeSet;

/// How a name and a file meet, best first.
#[derive(Clone, Copy)]
pub(super) enum Level {
    Path,
    PathWithoutExtension,
    Name,
    Stem,
    AnyCase,
}

impl Level {
    pub(super) const ALL: [Level; 5] = [
        Level::Path,
        Level::PathWithoutExtension,
        Level::Name,
        Level::Stem,
        Level::AnyCase,
    ];

    /// `file` is a path below a place, with `/` between its parts.
    pub(super) fn matches(self, file: &str, wanted: &str) -> bool {
        match self {
            Level::Path => file == wanted,
            Level::PathWithoutExtension => stem(file) == wanted,
            Level::Name => file_name(file) == wanted,
            Level::Stem => stem(file_name(file)) == wanted,
            Level::AnyCase => {
                let (file, wanted) = (file_name(file).to_lowercase(), wanted.to_lowercase());
                file == wanted || stem(&file) == wanted
            }
        }
    }
}

/// Up to three of the files' names that `wanted` may have meant: those that begin with it, then
/// those that contain it, and only where there are none those that differ least.
pub(super) fn suggestions<'a>(wanted: &str, files: impl Iterator<Item = &'a str>) -> Vec<String> {
    const MOST: usize = 3;
    let mut seen = BTreeSet::new();
    let names = files.map(|file| stem(file_name(file)));
    let names: Vec<&str> = names.filter(|name| seen.insert(*name)).collect();
    let wanted = stem(file_name(wanted));
    let lower = wanted.to_lowercase();
    let has = |name: &&&str| !lower.is_empty() && name.to_lowercase().contains(&lower);
    let mut like: Vec<&str> = names.iter().filter(has).copied().collect();
    like.sort_by_key(|name| !name.to_lowercase().starts_with(&lower));
    if like.is_empty() {
        like = nearest(wanted, names.into_iter());
    }
    like.into_iter().take(MOST).map(str::to_owned).collect()
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Without a model file's extension; other dots are part of the name.
fn stem(name: &str) -> &str {
    let known = |end: &str| EXTENSIONS.contains(&end.to_lowercase().as_str());
    match name.rsplit_once('.') {
        Some((stem, end)) if known(end) => stem,
        _ => name,
    }
}
