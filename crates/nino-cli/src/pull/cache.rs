//! The cache on disk, as `huggingface_hub` lays it out: contents under `blobs/` by hash, names
//! under `snapshots/<commit>/` pointing to them, and `refs/<revision>` with the commit.

use crate::env::Env;
use crate::failure::Usage;
use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    pub(crate) fn new(env: &Env, repo: &str) -> Result<Cache> {
        let root = env.hf_cache.clone().ok_or_else(|| {
            Usage("there is no home folder to keep downloads in: set HF_HUB_CACHE".to_owned())
        })?;
        let folder = root.join(format!("models--{}", repo.replace('/', "--")));
        Ok(Cache { folder })
    }

    /// Where a content belongs.
    pub(crate) fn blob(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(etag)
    }

    /// A content on its way.
    pub(crate) fn incomplete(&self, etag: &str) -> PathBuf {
        self.folder.join("blobs").join(format!("{etag}.incomplete"))
    }

    pub(crate) fn make_folders(&self) -> Result<()> {
        let blobs = self.folder.join("blobs");
        fs::create_dir_all(&blobs).with_context(|| format!("cannot create {}", blobs.display()))
    }

    /// Gives a content its name in a snapshot.
    pub(crate) fn name(
        &self,
        revision: &str,
        commit: &str,
        file: &str,
        etag: &str,
    ) -> Result<PathBuf> {
        let path = self.folder.join("snapshots").join(commit).join(file);
        let parent = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(parent)
            .with_context(|| format!("cannot create {}", parent.display()))?;
        // Relative, so that the cache can be moved: up from the file's folders, snapshot and all.
        let up = "../".repeat(file.split('/').count() + 1);
        let target = PathBuf::from(format!("{up}blobs/{etag}"));
        let _ = fs::remove_file(&path);
        link(&target, &self.blob(etag), &path)
            .with_context(|| format!("cannot create {}", path.display()))?;
        let reference = self.folder.join("refs").join(revision);
        if let Some(parent) = reference.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&reference, commit)
            .with_context(|| format!("cannot write {}", reference.display()))?;
        Ok(path)
    }
}

#[cfg(unix)]
fn link(target: &Path, _blob: &Path, path: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, path)
}

/// Symbolic links need a privilege on Windows; a hard link or a copy does as well.
#[cfg(not(unix))]
fn link(_target: &Path, blob: &Path, path: &Path) -> std::io::Result<()> {
    fs::hard_link(blob, path).or_else(|_| fs::copy(blob, path).map(drop))
}
