//! How long a server is waited for, how often it is asked again, and how much it may send.

use std::time::Duration;

/// The limits of everything that a server could drag out. The default suits slow lines; tests use
/// milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Time to look up a name and to connect.
    pub connect: Duration,
    /// Time from the request to the end of the answer's headers.
    pub answer: Duration,
    /// Time in which at least one byte of a body has to arrive.
    pub stall: Duration,
    /// A body that brings fewer than `least_rate` bytes a second over this time is given up.
    pub rate_window: Duration,
    pub least_rate: u64,
    /// Redirects that are followed for one request.
    pub redirects: usize,
    /// Attempts in a row that may fail without progress.
    pub attempts: u32,
    /// New bytes that make an attempt count as progress. Bytes that were there before, and were
    /// sent again because the server started anew, are not new.
    pub least_progress: u64,
    /// Times a server may start a file anew instead of where it was asked to.
    pub restarts: u32,
    /// The pause after the first failure; every further one doubles it.
    pub first_pause: Duration,
    /// The longest pause. A server that asks for more is not waited for.
    pub longest_pause: Duration,
    /// Bytes of the headers of an answer.
    pub most_header_bytes: usize,
    /// Bytes of a list of files.
    pub most_list_bytes: u64,
    /// Bytes of one file.
    pub most_file_bytes: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connect: Duration::from_secs(30),
            answer: Duration::from_mins(1),
            stall: Duration::from_secs(30),
            rate_window: Duration::from_mins(1),
            least_rate: 1 << 10,
            redirects: 10,
            attempts: 5,
            least_progress: 64 << 10,
            restarts: 3,
            first_pause: Duration::from_millis(500),
            longest_pause: Duration::from_mins(1),
            most_header_bytes: 64 << 10,
            most_list_bytes: 32 << 20,
            most_file_bytes: 1 << 40,
        }
    }
}
