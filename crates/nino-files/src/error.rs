//! The crate's error: which file, what was tried, what was found.

use std::io;
use std::path::{Path, PathBuf};

/// Every message is whole: reasons are part of it, not sources that a chain would print again.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{}: cannot {action}: {reason}", path.display())]
    Io {
        path: PathBuf,
        action: &'static str,
        reason: io::Error,
    },
    #[error("{}: this is {found}, and only regular files can be {used}", path.display())]
    NotRegular {
        path: PathBuf,
        /// What it is instead, such as "a folder".
        found: &'static str,
        /// What was to be done with it: "read" or "written".
        used: &'static str,
    },
    #[error(
        "{}: more than {most} bytes ({}) are too long for {what}", path.display(), length(*found)
    )]
    TooLong {
        path: PathBuf,
        /// What the file was read as, such as "a shard list".
        what: &'static str,
        /// Its size, where the system says one.
        found: Option<u64>,
        most: u64,
    },
    #[error("{}: {what} is not UTF-8 text", path.display())]
    NotText { path: PathBuf, what: &'static str },
    #[error("{}: the file changed while it was read: {how}", path.display())]
    Changed { path: PathBuf, how: String },
    #[error(
        "{}: this link belongs to another user and lies in a folder that everyone may write to; it \
         is not followed to {}", path.display(), leads_to.display()
    )]
    ForeignLink { path: PathBuf, leads_to: PathBuf },
}

impl FileError {
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> FileError {
        let path = path.to_owned();
        move |reason| FileError::Io {
            path,
            action,
            reason,
        }
    }

    /// The kind of the system's error, where there was one.
    pub fn kind(&self) -> Option<io::ErrorKind> {
        match self {
            FileError::Io { reason, .. } => Some(reason.kind()),
            _ => None,
        }
    }

    pub fn path(&self) -> &Path {
        match self {
            FileError::Io { path, .. }
            | FileError::NotRegular { path, .. }
            | FileError::TooLong { path, .. }
            | FileError::NotText { path, .. }
            | FileError::Changed { path, .. }
            | FileError::ForeignLink { path, .. } => path,
        }
    }
}

fn length(found: Option<u64>) -> String {
    match found {
        Some(found) => format!("it has {found}"),
        None => "it does not say how many it has".to_owned(),
    }
}
