//! Repeated timings of one piece of work: what every bench row says about them.

use serde::Serialize;
use std::time::Duration;

/// Median and spread of several runs; the first one, which pays for compiling and cold caches, apart.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Timing {
    pub(super) runs: usize,
    pub(super) first_ms: f64,
    pub(super) median_ms: f64,
    pub(super) fastest_ms: f64,
    pub(super) slowest_ms: f64,
    /// (slowest − fastest) / median
    pub(super) spread: f64,
}

impl Timing {
    /// `times` are of at least one run after the first.
    pub(super) fn new(first: Duration, mut times: Vec<Duration>) -> Timing {
        times.sort_unstable();
        if times.is_empty() {
            times.push(first);
        }
        let (fastest, slowest) = (times[0], times[times.len() - 1]);
        let median = times[times.len() / 2];
        Timing {
            runs: times.len(),
            first_ms: ms(first),
            median_ms: ms(median),
            fastest_ms: ms(fastest),
            slowest_ms: ms(slowest),
            spread: (ms(slowest) - ms(fastest)) / ms(median),
        }
    }
}

pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
