//! Downloaded repositories in the cache of Hugging Face's tools.

use std::fs::{self, DirEntry, File};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Entries of the cache that are looked at.
const MOST_REPOSITORIES: usize = 10_000;

/// `owner/name` and its folder: the snapshot of `main` where there is one, else the newest.
pub(super) fn snapshots(cache: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    for entry in entries.take(MOST_REPOSITORIES) {
        let folder = entry.file_name().to_string_lossy().into_owned();
        let Some(repo) = folder.strip_prefix("models--") else {
            continue;
        };
        if let Some(snapshot) = snapshot(&entry.path()) {
            found.push((repo.replacen("--", "/", 1), snapshot));
        }
    }
    found
}

fn snapshot(repo: &Path) -> Option<PathBuf> {
    let all = repo.join("snapshots");
    if let Some(commit) = main_commit(repo) {
        let main = all.join(commit);
        if main.is_dir() {
            return Some(main);
        }
    }
    let newest = |e: &DirEntry| e.metadata().and_then(|m| m.modified()).ok();
    let entries = fs::read_dir(all).ok()?.flatten().take(MOST_REPOSITORIES);
    entries.max_by_key(newest).map(|e| e.path())
}

/// The commit that `main` is at.
fn main_commit(repo: &Path) -> Option<String> {
    const MOST: u64 = 256;
    let path = repo.join("refs/main");
    let mut text = String::new();
    let file = path.is_file().then(|| File::open(&path).ok()).flatten()?;
    file.take(MOST).read_to_string(&mut text).ok()?;
    let commit = text.trim();
    let is_name = !commit.is_empty() && commit.chars().all(|c| c.is_ascii_alphanumeric());
    is_name.then(|| commit.to_owned())
}
