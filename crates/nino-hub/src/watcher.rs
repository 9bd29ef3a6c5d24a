//! What a caller hears of a download, and how it stops one.

use std::time::Duration;

/// What happens while files are fetched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// An earlier run left this many bytes of the file; they are kept.
    Resumed { file: &'a str, have: u64 },
    /// `have` of `size` bytes are there.
    Progress { file: &'a str, have: u64, size: u64 },
    /// A file that is in the cache already is compared with its hash.
    Checking { file: &'a str, size: u64 },
    /// A file in the cache is not what its name says; it is downloaded again.
    Damaged { file: &'a str },
    /// Something passing went wrong; the next attempt follows after a pause.
    Retrying {
        what: &'a str,
        why: String,
        pause: Duration,
    },
}

/// Hears events and can stop the work.
pub trait Watcher: Sync {
    /// Whether to stop. It is asked ten times a second or more, wherever this crate waits.
    fn stopped(&self) -> bool;

    fn event(&self, event: Event<'_>);
}
