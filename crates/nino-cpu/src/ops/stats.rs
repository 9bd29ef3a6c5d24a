//! Mean and 1/√(var + eps) of channel groups or rows.
//!
//! Groups are summed in chunks of positions: each chunk leaves (mean, sum of squared deviations)
//! in scratch, and the chunks are merged in order, so that neither threads nor steps change the
//! result. Within a chunk, sums are taken of differences to the chunk's first row, which keeps
//! digits when the mean is far from zero.

use std::ops::Range;

use nino_graph::{NormKind, stat_chunks};

use super::by_rows;
use crate::memory::View;
use crate::simd::{Level, Simd, dispatch};
use crate::team::{Carver, Team, floats_bytes};

/// Groups whose channels are merged side by side.
const LANES: usize = 8;

/// Statistics of `[b, positions, channels]` in groups of channels.
#[derive(Clone, Copy)]
pub(crate) struct Groups {
    pub x: View,
    pub positions: usize,
    pub channels: usize,
    /// Number of groups.
    pub count: usize,
    pub kind: NormKind,
    pub eps: f32,
    /// `[b, chunks, groups, 2]`
    pub partial: *mut f32,
    /// `[b, groups, 2]`
    pub out: *mut f32,
}

// SAFETY: tasks write disjoint entries of `partial` and of `out`.
unsafe impl Sync for Groups {}

impl Groups {
    pub(crate) fn scratch_bytes(channels: usize) -> usize {
        4 * floats_bytes(channels)
    }

    fn chunk(&self, chunk: usize) -> Range<usize> {
        let chunks = stat_chunks(self.positions);
        let len = self.positions.div_ceil(chunks);
        let (b, i) = (chunk / chunks, chunk % chunks);
        let at = |i: usize| b * self.positions + (i * len).min(self.positions);
        at(i)..at(i + 1)
    }

    /// Computes the partial sums of the given chunks, counted over the batch.
    pub(crate) unsafe fn run(&self, team: &Team<'_>, chunks: Range<usize>) {
        let values = self.chunk(chunks.start).len() * self.channels;
        team.run(chunks.len(), values * chunks.len(), |task, mut scratch| {
            self.sum(team.level, chunks.start + task, &mut scratch);
        });
    }

    unsafe fn sum(&self, level: Level, chunk: usize, scratch: &mut Carver<'_>) {
        let c = self.channels;
        let (shift, sum, square) = (scratch.floats(c), scratch.floats(c), scratch.floats(c));
        let buf = scratch.floats(c);
        let positions = self.chunk(chunk);
        let len = positions.len();
        sum.write_bytes(0, c);
        square.write_bytes(0, c);
        self.x.load(level, positions.start * c, c, shift);
        for p in positions {
            let row = self.x.row(level, p * c, c, buf);
            accumulate(level, row, shift, sum, square, c);
        }
        let size = c / self.count;
        // A merge waits for divisions, so those of several groups go side by side.
        for first in (0..self.count).step_by(LANES) {
            let mut merged = [Moments::default(); LANES];
            let merged = &mut merged[..LANES.min(self.count - first)];
            for i in 0..size {
                for (lane, merged) in merged.iter_mut().enumerate() {
                    let i = (first + lane) * size + i;
                    let (s, n) = (f64::from(*sum.add(i)), len as f64);
                    let mean = s / n;
                    merged.add(&Moments {
                        n,
                        mean: f64::from(*shift.add(i)) + mean,
                        m2: (f64::from(*square.add(i)) - s * mean).max(0.0),
                    });
                }
            }
            for (lane, merged) in merged.iter().enumerate() {
                let entry = self.partial.add((chunk * self.count + first + lane) * 2);
                *entry = merged.mean as f32;
                *entry.add(1) = merged.m2 as f32;
            }
        }
    }

    /// Merges the chunks of the whole batch, each group's in order.
    pub(crate) unsafe fn finish(&self, team: &Team<'_>, b: usize) {
        /// Operations of a merge, about, most of which wait for a division.
        const MERGE: usize = 64;
        let chunks = stat_chunks(self.positions);
        let size = (self.channels / self.count) as f64;
        team.run(b * self.count, b * self.count * chunks * MERGE, |i, _| {
            let (b, g) = (i / self.count, i % self.count);
            let mut merged = Moments::default();
            for chunk in b * chunks..(b + 1) * chunks {
                let entry = self.partial.add((chunk * self.count + g) * 2);
                let n = self.chunk(chunk).len() as f64 * size;
                let (mean, m2) = (f64::from(*entry), f64::from(*entry.add(1)));
                merged.add(&Moments { n, mean, m2 });
            }
            let (mean, rstd) = merged.table(self.kind, self.eps);
            let entry = self.out.add((b * self.count + g) * 2);
            (*entry, *entry.add(1)) = (mean, rstd);
        });
    }
}

/// Count, mean and sum of squared deviations, merged by Chan's formula.
#[derive(Clone, Copy, Default)]
pub(crate) struct Moments {
    pub n: f64,
    pub mean: f64,
    pub m2: f64,
}

impl Moments {
    fn add(&mut self, other: &Moments) {
        if other.n == 0.0 {
            return;
        }
        let n = self.n + other.n;
        let d = other.mean - self.mean;
        self.mean += d * other.n / n;
        self.m2 += other.m2 + d * d * self.n * other.n / n;
        self.n = n;
    }

    /// Gives the table's (mean, rstd).
    fn table(&self, kind: NormKind, eps: f32) -> (f32, f32) {
        let var = self.m2 / self.n;
        match kind {
            NormKind::Layer => (
                self.mean as f32,
                (1.0 / (var + f64::from(eps)).sqrt()) as f32,
            ),
            NormKind::Rms => {
                let square = var + self.mean * self.mean;
                (0.0, (1.0 / (square + f64::from(eps)).sqrt()) as f32)
            }
        }
    }
}

/// Gives (mean, rstd) of one row.
pub(crate) unsafe fn of_row(
    level: Level,
    row: *const f32,
    n: usize,
    kind: NormKind,
    eps: f32,
) -> (f32, f32) {
    let (mean, m2) = row_moments(level, row, n);
    Moments {
        n: n as f64,
        mean: f64::from(mean),
        m2: f64::from(m2),
    }
    .table(kind, eps)
}

/// Computes the statistics of each row of `[rows, n]`, to `[rows, 2]`.
pub(crate) unsafe fn rows(
    team: &Team<'_>,
    x: View,
    n: usize,
    (kind, eps): (NormKind, f32),
    out: View,
    rows: Range<usize>,
) {
    by_rows(team, rows, n, |rows, mut scratch| {
        let buf = scratch.floats(n);
        for r in rows {
            let row = x.row(team.level, r * n, n, buf);
            let (mean, rstd) = of_row(team.level, row, n, kind, eps);
            *out.f32_at(r * 2) = mean;
            *out.f32_at(r * 2 + 1) = rstd;
        }
    });
}

dispatch! {
    fn accumulate(row: *const f32, shift: *const f32, sum: *mut f32, square: *mut f32, n: usize) = accumulate_impl
}

#[inline(always)]
unsafe fn accumulate_impl<S: Simd>(
    row: *const f32,
    shift: *const f32,
    sum: *mut f32,
    square: *mut f32,
    n: usize,
) {
    let mut i = 0;
    while i + S::LANES <= n {
        let d = S::sub(S::load(row.add(i)), S::load(shift.add(i)));
        S::store(sum.add(i), S::add(S::load(sum.add(i)), d));
        S::store(square.add(i), S::fma(d, d, S::load(square.add(i))));
        i += S::LANES;
    }
    while i < n {
        let d = *row.add(i) - *shift.add(i);
        *sum.add(i) += d;
        *square.add(i) += d * d;
        i += 1;
    }
}

dispatch! {
    /// Gives the mean and the sum of squared deviations, in two passes.
    fn row_moments(row: *const f32, n: usize) -> (f32, f32) = row_moments_impl
}

#[inline(always)]
unsafe fn row_moments_impl<S: Simd>(row: *const f32, n: usize) -> (f32, f32) {
    let whole = n - n % S::LANES;
    let (mut sum, mut i) = (S::zero(), 0);
    while i < whole {
        sum = S::add(sum, S::load(row.add(i)));
        i += S::LANES;
    }
    let mut total = S::sum(sum);
    for j in whole..n {
        total += *row.add(j);
    }
    let mean = total / n as f32;
    let (m, mut squares) = (S::splat(mean), S::zero());
    i = 0;
    while i < whole {
        let d = S::sub(S::load(row.add(i)), m);
        squares = S::fma(d, d, squares);
        i += S::LANES;
    }
    let mut total = S::sum(squares);
    for j in whole..n {
        total += (*row.add(j) - mean).powi(2);
    }
    (mean, total)
}
