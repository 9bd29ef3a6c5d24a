//! The cache on disk, as `huggingface_hub` lays it out: contents under `blobs/` by hash, names
//! under `snapshots/<commit>/` that point to them, and `refs/<revision>` with the commit.

use crate::HubError;
use crate::checked::Checked;
use crate::names::{Commit, Etag, FileName, RepoName, Revision};
use nino_files::AtomicFile;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// One repository's folder in the cache.
pub(crate) struct Cache {
    folder: PathBuf,
}

impl Cache {
    pub(crate) fn new(root: &Path, repo: &RepoName) -> Cache {
        Cache {
            folder: root.join(repo.folder()),
        }
    }

    /// Where a content belongs.
    pub(crate) fn blob(&self, etag: &Etag) -> PathBuf {
        self.blobs().join(etag.as_str())
    }

    /// A content on its way.
    pub(crate) fn incomplete(&self, etag: &Etag) -> PathBuf {
        self.blobs().join(format!("{etag}.incomplete"))
    }

    pub(crate) fn blobs(&self) -> PathBuf {
        self.folder.join("blobs")
    }

    pub(crate) fn checked(&self) -> Checked {
        Checked::new(&self.folder)
    }

    pub(crate) fn make_folders(&self) -> Result<(), HubError> {
        let blobs = self.blobs();
        fs::create_dir_all(&blobs).map_err(HubError::io(&blobs, "create the folder"))
    }

    /// The content that a name in a snapshot stands for; `None` where links are not links.
    pub(crate) fn content_of(&self, commit: &Commit, file: &FileName) -> Option<Etag> {
        let path = self.snapshot(commit).join(file.as_str());
        let blob = fs::read_link(path).ok()?;
        Etag::new(blob.file_name()?.to_str()?).ok()
    }

    fn snapshot(&self, commit: &Commit) -> PathBuf {
        self.folder.join("snapshots").join(commit.as_str())
    }

    /// Gives a content its name in the snapshot of a commit, and says that the revision is there.
    pub(crate) fn name(
        &self,
        revision: &Revision,
        commit: &Commit,
        file: &FileName,
        etag: &Etag,
    ) -> Result<PathBuf, HubError> {
        let path = self.snapshot(commit).join(file.as_str());
        let parent = path.parent().unwrap_or(&self.folder);
        fs::create_dir_all(parent).map_err(HubError::io(parent, "create the folder"))?;
        // Relative, so that the cache can be moved: up from the file's folders, snapshot and all.
        let up = "../".repeat(file.parts().count() + 1);
        let target = PathBuf::from(format!("{up}blobs/{etag}"));
        link(&target, &self.blob(etag), &path).map_err(HubError::io(&path, "create the link"))?;
        let reference = self.folder.join("refs").join(revision.as_str());
        let parent = reference.parent().unwrap_or(&self.folder);
        fs::create_dir_all(parent).map_err(HubError::io(parent, "create the folder"))?;
        AtomicFile::replace(&reference, commit.as_str().as_bytes())?;
        Ok(path)
    }
}

#[cfg(unix)]
fn link(target: &Path, _blob: &Path, path: &Path) -> io::Result<()> {
    let is_there = || fs::read_link(path).is_ok_and(|leads_to| leads_to == target);
    if is_there() {
        return Ok(());
    }
    remove(path)?;
    match std::os::unix::fs::symlink(target, path) {
        // Another process pulled the same file.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && is_there() => Ok(()),
        done => done,
    }
}

/// Symbolic links need a privilege on Windows; a hard link or a copy does as well.
#[cfg(not(unix))]
fn link(_target: &Path, blob: &Path, path: &Path) -> io::Result<()> {
    remove(path)?;
    fs::hard_link(blob, path).or_else(|_| fs::copy(blob, path).map(drop))
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
