//! Downloaded repositories in the cache of Hugging Face's tools.

use std::path::{Path, PathBuf};

/// `owner/name` and its folder: the snapshot of `main` where there is one, else the newest.
pub(super) fn snapshots(cache: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(cache).into_iter().flatten().flatten() {
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
    if let Ok(commit) = std::fs::read_to_string(repo.join("refs/main")) {
        let main = all.join(commit.trim());
        if main.is_dir() {
            return Some(main);
        }
    }
    let newest = |e: &std::fs::DirEntry| e.metadata().and_then(|m| m.modified()).ok();
    let entries = std::fs::read_dir(all).ok()?.flatten();
    entries.max_by_key(newest).map(|e| e.path())
}
