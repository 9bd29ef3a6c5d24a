//! What the kernel tests share: random values, a crew of threads, and how close is close enough.

use crate::simd::Level;
use crate::team::{Scratch, Team};
use crate::threads::Threads;

/// Levels to test: all that this machine has.
pub(crate) fn levels() -> Vec<Level> {
    Level::available()
}

/// A small generator of values about -1..1; the same seed gives the same values.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: usize) -> Random {
        Random(seed as u64 ^ 0x9e37_79b9_7f4a_7c15)
    }

    pub(crate) fn next(&mut self) -> f32 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    pub(crate) fn values(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.next()).collect()
    }
}

/// Owns what a [`Team`] borrows.
pub(crate) struct Crew {
    threads: Threads,
    scratch: Vec<Scratch>,
}

impl Crew {
    pub(crate) fn new(threads: usize, scratch_bytes: usize) -> Crew {
        Crew {
            threads: Threads::new(threads),
            scratch: (0..threads)
                .map(|_| Scratch::new(scratch_bytes).unwrap())
                .collect(),
        }
    }

    pub(crate) fn team(&self, level: Level) -> Team<'_> {
        Team {
            threads: &self.threads,
            scratch: &self.scratch,
            level,
            cancel: None,
        }
    }
}

/// Error allowed for a sum of `k` products of values about 1.
#[derive(Clone, Copy)]
pub(crate) enum Close {
    F32,
    /// Transforms that lose a digit (Winograd).
    Transformed,
    /// Transforms of factors rounded to int16: six standard deviations of a tile's worst pixel.
    Fixed,
    /// Activations rounded to int8.
    Int8,
}

impl Close {
    pub(crate) fn check(self, got: f32, want: f64, k: usize, what: &str) {
        let unit = match self {
            Close::F32 => 2e-6,
            Close::Transformed => 2e-5,
            Close::Fixed => 2e-3,
            Close::Int8 => 1e-2,
        };
        let allowed = unit * (k as f64).sqrt().max(want.abs()).max(1.0);
        let error = (f64::from(got) - want).abs();
        assert!(
            error <= allowed,
            "{what}: {got}, want {want}, error {error:.2e} > {allowed:.2e}"
        );
    }
}
