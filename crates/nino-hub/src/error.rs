//! The crate's error: which address or file, what was expected, what was found.

use crate::address::AddressError;
use crate::choose::ChoiceError;
use crate::names::NameError;
use crate::target::TargetError;
use nino_files::FileError;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Every message is whole: reasons are part of it, not sources that a chain would print again.
/// Addresses are shown without their query, which may hold a signature.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    #[error("the download was stopped")]
    Stopped,
    #[error("{0}")]
    Target(TargetError),
    #[error("{0}")]
    Choice(ChoiceError),
    #[error("{text:?} is not the URL of a server: {why}")]
    Endpoint { text: String, why: AddressError },
    #[error("the access token has characters that a header cannot carry")]
    Token,
    #[error("{url}: no response: {why}")]
    NoAnswer { url: String, why: String },
    #[error("{url}: the connection broke: {why}")]
    Broken { url: String, why: String },
    #[error("{url}: nothing arrived for {} s", seconds(*time))]
    Stalled { url: String, time: Duration },
    #[error("{url}: only {bytes} bytes arrived in {} s", seconds(*time))]
    Slow {
        url: String,
        bytes: u64,
        time: Duration,
    },
    #[error("{url}: the server answered {status}{}", wait(*retry_after))]
    Status {
        url: String,
        status: u16,
        /// The seconds that the server wants to be left alone.
        retry_after: Option<u64>,
    },
    #[error("{url}: more than {most} redirects")]
    TooManyRedirects { url: String, most: usize },
    #[error("{url}: redirected to an invalid URL: {why}")]
    BadRedirect { url: String, why: AddressError },
    #[error("{url}: redirected from https to http, which is not secure")]
    Downgrade { url: String },
    #[error("{url}: the server sent no {what}")]
    Missing { url: String, what: &'static str },
    #[error("{url}: the server's {what} is invalid: {why}")]
    BadAnswer {
        url: String,
        what: &'static str,
        why: String,
    },
    #[error("{url}: the response is longer than {most} bytes")]
    LongAnswer { url: String, most: u64 },
    #[error("{file}: {size} bytes exceed the limit for a model ({most})")]
    TooLarge { file: String, size: u64, most: u64 },
    #[error("{}: {} are needed and {} are free", folder.display(), mib(*need), mib(*free))]
    NoRoom {
        folder: PathBuf,
        need: u64,
        free: u64,
    },
    #[error("{file}: {found} bytes arrived, expected {expected}")]
    Length {
        file: String,
        expected: u64,
        found: u64,
    },
    #[error("{file}: the server restarted the download {most} times instead of resuming it")]
    Restarts { file: String, most: u32 },
    #[error("{file}: the {kind} of the download is {found}, expected {expected}; it was deleted")]
    Hash {
        file: String,
        kind: &'static str,
        expected: String,
        found: String,
    },
    #[error("{}: another download of it is running", path.display())]
    Busy { path: PathBuf },
    #[error("{0}")]
    File(FileError),
    #[error("{}: cannot {action}: {why}", path.display())]
    Io {
        path: PathBuf,
        action: &'static str,
        why: String,
    },
    #[error("no download is called {name:?}{}", offered(near))]
    NoDownload { name: String, near: Vec<String> },
    #[error("{name:?} is ambiguous: {}; give more of the name", found.join(", "))]
    Ambiguous { name: String, found: Vec<String> },
}

/// What sort of error it is, for callers that act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// What was asked for cannot be meant.
    Usage,
    /// The caller stopped it.
    Stopped,
    /// No answer, or not all of it; trying again later may help.
    Network,
    /// The server knows nothing of that name.
    NotFound,
    /// The server wants a token, or another one.
    Denied,
    /// The server's answer makes no sense or breaks a limit.
    Server,
    /// What arrived is not what was promised.
    Damaged,
    /// The disk is full or cannot be written.
    Disk,
    /// Another process is at the same file.
    Busy,
}

impl ErrorKind {
    /// One word, for machines.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Usage => "usage",
            ErrorKind::Stopped => "stopped",
            ErrorKind::Network => "network",
            ErrorKind::NotFound => "not-found",
            ErrorKind::Denied => "denied",
            ErrorKind::Server => "server",
            ErrorKind::Damaged => "damaged",
            ErrorKind::Disk => "disk",
            ErrorKind::Busy => "busy",
        }
    }
}

impl HubError {
    pub fn kind(&self) -> ErrorKind {
        match self {
            HubError::Stopped => ErrorKind::Stopped,
            HubError::Target(_)
            | HubError::Choice(_)
            | HubError::Endpoint { .. }
            | HubError::Token
            | HubError::NoDownload { .. }
            | HubError::Ambiguous { .. } => ErrorKind::Usage,
            HubError::NoAnswer { .. }
            | HubError::Broken { .. }
            | HubError::Stalled { .. }
            | HubError::Slow { .. } => ErrorKind::Network,
            HubError::Status { status, .. } => match status {
                401 | 403 => ErrorKind::Denied,
                404 | 410 => ErrorKind::NotFound,
                408 | 429 | 500.. => ErrorKind::Network,
                _ => ErrorKind::Server,
            },
            HubError::TooManyRedirects { .. }
            | HubError::BadRedirect { .. }
            | HubError::Downgrade { .. }
            | HubError::Missing { .. }
            | HubError::BadAnswer { .. }
            | HubError::LongAnswer { .. }
            | HubError::TooLarge { .. }
            | HubError::Restarts { .. } => ErrorKind::Server,
            HubError::Length { .. } | HubError::Hash { .. } => ErrorKind::Damaged,
            HubError::NoRoom { .. } | HubError::File(_) | HubError::Io { .. } => ErrorKind::Disk,
            HubError::Busy { .. } => ErrorKind::Busy,
        }
    }

    /// Whether the same request may well succeed a moment later.
    pub(crate) fn is_passing(&self) -> bool {
        self.kind() == ErrorKind::Network
    }

    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(std::io::Error) -> HubError {
        let path = path.to_owned();
        // As text: in the chain of an error a broken pipe would mean that nobody reads our output.
        move |error| HubError::Io {
            path,
            action,
            why: error.to_string(),
        }
    }
}

impl From<FileError> for HubError {
    fn from(error: FileError) -> HubError {
        HubError::File(error)
    }
}

impl From<TargetError> for HubError {
    fn from(error: TargetError) -> HubError {
        HubError::Target(error)
    }
}

impl From<ChoiceError> for HubError {
    fn from(error: ChoiceError) -> HubError {
        HubError::Choice(error)
    }
}

impl From<NameError> for HubError {
    fn from(error: NameError) -> HubError {
        HubError::Target(TargetError::Name(error))
    }
}

fn mib(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// Tests have limits of less than a second.
fn seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 100.0).round() / 100.0
}

fn wait(retry_after: Option<u64>) -> String {
    retry_after.map_or(String::new(), |s| format!(" and asks to wait {s} s"))
}

fn offered(near: &[String]) -> String {
    match near {
        [] => String::new(),
        _ => format!("; similar are {}", near.join(", ")),
    }
}
