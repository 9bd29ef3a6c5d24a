//! Rotary embedding, reductions of one axis, and sinusoidal timestep embeddings.

use std::ops::Range;

use nino_graph::{ReduceFn, RopeLayout, TimestepEmbed};

use super::by_rows;
use crate::memory::View;
use crate::team::{Team, floats_bytes};

/// x `[b, n, heads, hd]` turned by a table `[n, hd/2, 2]` of (cos, sin).
#[derive(Clone, Copy)]
pub(crate) struct Rope {
    pub x: View,
    pub table: View,
    pub out: View,
    pub n: usize,
    pub heads: usize,
    pub hd: usize,
    pub layout: RopeLayout,
}

impl Rope {
    pub(crate) fn scratch_bytes(&self) -> usize {
        2 * floats_bytes(self.hd)
    }

    /// Turns `rows`, which are counted over (b, n, heads).
    pub(crate) unsafe fn run(&self, team: &Team<'_>, rows: Range<usize>) {
        let (hd, half) = (self.hd, self.hd / 2);
        by_rows(team, rows, hd, |rows, mut scratch| {
            let (buf, result) = (scratch.floats(hd), scratch.floats(hd));
            for row in rows {
                let x = self.x.row(team.level, row * hd, hd, buf);
                let table = self.table.f32_at(row / self.heads % self.n * hd);
                for i in 0..half {
                    let (cos, sin) = (*table.add(2 * i), *table.add(2 * i + 1));
                    let (first, second) = match self.layout {
                        RopeLayout::Interleaved => (2 * i, 2 * i + 1),
                        RopeLayout::Halves => (i, half + i),
                    };
                    let (a, b) = (*x.add(first), *x.add(second));
                    *result.add(first) = a * cos - b * sin;
                    *result.add(second) = a * sin + b * cos;
                }
                self.out.store(team.level, row * hd, hd, result);
            }
        });
    }
}

/// `[outer, n, inner]` to `[outer, 1, inner]`.
#[derive(Clone, Copy)]
pub(crate) struct Reduce {
    pub x: View,
    pub out: View,
    pub n: usize,
    pub inner: usize,
    pub f: ReduceFn,
}

impl Reduce {
    pub(crate) fn scratch_bytes() -> usize {
        2 * floats_bytes(Self::CHUNK)
    }

    const CHUNK: usize = 256;

    /// Reduces `rows` of the outer index. Long inner rows are cut into several tasks.
    pub(crate) unsafe fn run(&self, team: &Team<'_>, rows: Range<usize>) {
        let pieces = self.inner.div_ceil(Self::CHUNK);
        let (start, end) = (rows.start * pieces, rows.end * pieces);
        by_rows(
            team,
            start..end,
            self.n * self.inner.min(Self::CHUNK),
            |tasks, mut scratch| {
                let (buf, sum) = (scratch.floats(Self::CHUNK), scratch.floats(Self::CHUNK));
                for task in tasks {
                    let (outer, i) = (task / pieces, task % pieces * Self::CHUNK);
                    let len = (self.inner - i).min(Self::CHUNK);
                    self.piece(team, outer, i, len, buf, sum);
                    self.out.store(team.level, outer * self.inner + i, len, sum);
                }
            },
        );
    }

    unsafe fn piece(
        &self,
        team: &Team<'_>,
        outer: usize,
        i: usize,
        len: usize,
        buf: *mut f32,
        sum: *mut f32,
    ) {
        let mut totals = [0.0f64; Self::CHUNK];
        if self.f == ReduceFn::Max {
            totals.fill(f64::NEG_INFINITY);
        }
        for k in 0..self.n {
            let row = self
                .x
                .row(team.level, (outer * self.n + k) * self.inner + i, len, buf);
            for (c, total) in totals.iter_mut().enumerate().take(len) {
                let v = f64::from(*row.add(c));
                *total = match self.f {
                    ReduceFn::Max => total.max(v),
                    ReduceFn::Sum | ReduceFn::Mean => *total + v,
                };
            }
        }
        let by = if self.f == ReduceFn::Mean {
            1.0 / self.n as f64
        } else {
            1.0
        };
        for (c, total) in totals.iter().enumerate().take(len) {
            *sum.add(c) = (total * by) as f32;
        }
    }
}

/// Embeds t `[b]` as `[b, dim]` of cosines and sines.
pub(crate) unsafe fn timestep_embed(o: &TimestepEmbed, t: View, out: View, rows: Range<usize>) {
    let half = o.dim / 2;
    for row in rows {
        let t = f64::from(*t.f32_at(row));
        for i in 0..half {
            let exponent =
                -(f64::from(o.max_period).ln()) * i as f64 / (half as f64 - f64::from(o.shift));
            let angle = exponent.exp() * t;
            let (first, second) = if o.cos_first {
                (angle.cos(), angle.sin())
            } else {
                (angle.sin(), angle.cos())
            };
            *out.f32_at(row * o.dim + i) = first as f32;
            *out.f32_at(row * o.dim + half + i) = second as f32;
        }
    }
}
