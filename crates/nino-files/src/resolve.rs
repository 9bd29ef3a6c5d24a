//! Where an output really goes: links are followed, as every program that opens a file does.

use std::fs::Metadata;
use std::path::{Path, PathBuf};

use crate::FileError;

/// The most links that are followed, which is Linux's own limit.
const MAX_LINKS: usize = 40;

/// The path after the last link of `path`; nothing need be there. An error for a link that Linux's
/// `protected_symlinks` would not follow either: another user's, in a folder like `/tmp`.
pub(crate) fn resolve(path: &Path) -> Result<PathBuf, FileError> {
    let mut at = path.to_owned();
    for _ in 0..MAX_LINKS {
        let Ok(meta) = std::fs::symlink_metadata(&at) else {
            return Ok(at);
        };
        if !meta.is_symlink() {
            return Ok(at);
        }
        let leads_to = std::fs::read_link(&at).map_err(FileError::io(path, "follow the link"))?;
        let leads_to = folder_of(&at).join(leads_to);
        if is_foreign(&meta, folder_of(&at)) {
            return Err(FileError::ForeignLink { path: at, leads_to });
        }
        at = leads_to;
    }
    Err(FileError::Io {
        path: path.to_owned(),
        action: "follow the link",
        reason: std::io::Error::other("it leads through too many links"),
    })
}

/// The folder a file is in; `.` for a bare name.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(unix)]
fn is_foreign(link: &Metadata, folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    const STICKY_AND_WRITABLE: u32 = 0o1002;
    let Ok(folder) = std::fs::metadata(folder) else {
        return false;
    };
    // SAFETY: the call has no arguments and cannot fail.
    let me = unsafe { libc::geteuid() };
    folder.mode() & STICKY_AND_WRITABLE == STICKY_AND_WRITABLE
        && link.uid() != me
        && link.uid() != folder.uid()
}

#[cfg(not(unix))]
fn is_foreign(_link: &Metadata, _folder: &Path) -> bool {
    false
}
