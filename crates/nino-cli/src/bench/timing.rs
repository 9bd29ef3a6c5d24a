//! Repeated timings of one piece of work: what every bench row says about them.

use super::WARM_UP;
use anyhow::Result;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Median and spread of several runs; the first one, which pays for compiling and cold caches,
/// apart.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Timing {
    pub(super) runs: usize,
    pub(super) first_ms: f64,
    pub(super) median_ms: f64,
    pub(super) fastest_ms: f64,
    pub(super) slowest_ms: f64,
    /// (slowest − fastest) / median
    pub(super) spread: f64,
    /// The runs that count, fastest first.
    pub(super) times_ms: Vec<f64>,
}

impl Timing {
    /// The first run apart, more of them until the device is warm, then `runs` that count.
    pub(super) fn measure(runs: u32, mut once: impl FnMut() -> Result<Duration>) -> Result<Timing> {
        let started = Instant::now();
        let first = once()?;
        while started.elapsed() < WARM_UP {
            once()?;
        }
        let times = (0..runs).map(|_| once()).collect::<Result<Vec<_>>>()?;
        Ok(Timing::new(first, times))
    }

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
            times_ms: times.iter().copied().map(ms).collect(),
        }
    }
}

pub(super) fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
