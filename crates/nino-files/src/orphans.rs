//! Names of temporary files, and what killed processes left behind under such names.
//!
//! A process holds a lock on each of its temporary files as long as it writes them, and the system
//! releases locks of a process however it ends. So a temporary file whose lock can be taken belongs
//! to nobody. Unlike a process number in the name, that also holds in containers and on folders
//! that several machines share. Where a file system has no locks nothing is removed.

use std::collections::BTreeSet;
use std::fs::File;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use crate::unfinished;

const PREFIX: &str = ".nino-";
const DIGITS: usize = 16;
/// Extensions are kept up to this length, so that a name never grows too long for the system.
const MAX_EXTENSION: usize = 16;

/// Folders that were looked through by this process; once is enough.
static SWEPT: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A name beside `target` that nobody can foresee. It ends with the target's extension, because
/// encoders look at it.
pub(crate) fn new_name(target: &Path) -> PathBuf {
    // The hasher's keys come from the system's source of randomness.
    let random = RandomState::new().build_hasher().finish();
    let extension = target
        .extension()
        .filter(|e| e.len() <= MAX_EXTENSION)
        .map_or_else(String::new, |e| format!(".{}", e.to_string_lossy()));
    target.with_file_name(format!("{PREFIX}{random:0DIGITS$x}{extension}"))
}

/// Removes what killed processes left in `folder`; does nothing the second time.
pub(crate) fn sweep_once(folder: &Path) {
    let mut swept = SWEPT.lock().unwrap_or_else(PoisonError::into_inner);
    if swept.insert(folder.to_owned()) {
        drop(swept);
        sweep(folder);
    }
}

pub(crate) fn sweep(folder: &Path) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in entries.filter(|e| is_temporary(&e.file_name().to_string_lossy())) {
        let path = entry.path();
        if !unfinished::contains(&path) && is_orphan(&path) {
            tracing::info!(path = %path.display(), "removed what a killed process left behind");
            unfinished::remove(&path);
        }
    }
}

/// Whether [`new_name`] gives such names.
fn is_temporary(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(PREFIX) else {
        return false;
    };
    let Some((digits, extension)) = rest.split_at_checked(DIGITS) else {
        return false;
    };
    let is_hex = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    digits.bytes().all(is_hex) && (extension.is_empty() || extension.starts_with('.'))
}

/// Whether nobody writes the file or folder any more. The lock is taken and released again: a
/// process that is just about to take it sees that its file was removed (see [`Claim`]).
fn is_orphan(path: &Path) -> bool {
    match lockable(path) {
        Ok(file) => matches!(Claim::of(&file), Claim::Taken),
        Err(_) => false,
    }
}

/// How an attempt to lock a temporary file ended.
pub(crate) enum Claim {
    Taken,
    /// Another process has the lock, or had it and removed the file.
    Lost,
    /// The file system or the operating system has no such locks.
    Unsupported,
}

impl Claim {
    #[cfg(unix)]
    pub(crate) fn of(file: &File) -> Claim {
        use std::fs::TryLockError;
        use std::os::unix::fs::MetadataExt;
        match file.try_lock() {
            Ok(()) if file.metadata().is_ok_and(|m| m.nlink() > 0) => Claim::Taken,
            Ok(()) | Err(TryLockError::WouldBlock) => Claim::Lost,
            Err(TryLockError::Error(_)) => Claim::Unsupported,
        }
    }

    /// Locks of Windows would keep an encoder from writing into the file.
    #[cfg(not(unix))]
    pub(crate) fn of(_file: &File) -> Claim {
        Claim::Unsupported
    }
}

/// Opens what is to be locked; never a link, and never anything that blocks.
#[cfg(unix)]
fn lockable(path: &Path) -> std::io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    let meta = std::fs::symlink_metadata(path)?;
    let mut options = File::options();
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    if meta.is_dir() {
        options.read(true).custom_flags(flags | libc::O_DIRECTORY);
    } else if meta.is_file() {
        // Network file systems give an exclusive lock only to those who may write.
        options.read(true).write(true).custom_flags(flags);
    } else {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    options.open(path)
}

#[cfg(not(unix))]
fn lockable(_path: &Path) -> std::io::Result<File> {
    Err(std::io::ErrorKind::Unsupported.into())
}
