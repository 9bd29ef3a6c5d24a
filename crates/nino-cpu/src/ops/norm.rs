//! Applying a norm, row norms with modulation, and softmax.

use std::ops::Range;

use nino_graph::{Act, NormKind};

use super::{by_rows, stats};
use crate::act::{self, Activation, Scaled};
use crate::gemm::prologue::{Coefficients, MAX_COEFFICIENTS, Source};
use crate::memory::View;
use crate::simd::{Simd, dispatch, math};
use crate::team::{Team, floats_bytes};

/// Gives the bytes of scratch that each thread needs for rows of `n` values.
pub(crate) fn scratch_bytes(n: usize) -> usize {
    3 * floats_bytes(n) + floats_bytes(rows_at_once(n) * n)
}

const MOST_ROWS: usize = 16;

/// Gives the number of rows whose statistics are computed before the first row is written. One
/// row's statistics are a long chain of dependent sums; those of several rows overlap. The rows
/// still fit into the first-level cache.
fn rows_at_once(n: usize) -> usize {
    (2048 / n.max(1)).clamp(1, MOST_ROWS)
}

/// Applies the prologue of `source`, row by row.
pub(crate) unsafe fn normalize(
    team: &Team<'_>,
    source: &Source,
    n: usize,
    rows_per_batch: usize,
    out: View,
    rows: Range<usize>,
) {
    by_rows(team, rows, n, |rows, mut scratch| {
        let buf = scratch.floats(n);
        let mut coefficients = Coefficients::new();
        for c0 in (0..n).step_by(MAX_COEFFICIENTS) {
            let len = (n - c0).min(MAX_COEFFICIENTS);
            let mut batch = usize::MAX;
            for row in rows.clone() {
                if let Some(pre) = &source.pre
                    && row / rows_per_batch != batch
                {
                    batch = row / rows_per_batch;
                    coefficients.set(pre, batch, c0, len);
                }
                let at = row * n + c0;
                let dst = out.target(at, buf);
                source.read(team.level, &coefficients, (at, row, 0), len, dst);
                out.commit(team.level, at, len, buf);
            }
        }
    });
}

/// `act((norm(x) · weight + bias) · (1 + scale) + shift)`.
#[derive(Clone, Copy)]
pub(crate) struct RowNorm {
    pub x: View,
    pub out: View,
    pub n: usize,
    pub kind: NormKind,
    pub eps: f32,
    /// `[n]` f32 or null.
    pub weight: *const f32,
    pub bias: *const f32,
    /// `[b, n]`
    pub scale: Option<View>,
    pub shift: Option<View>,
    pub act: Option<Act>,
    pub rows_per_batch: usize,
}

// SAFETY: the vectors are only read, views are Sync.
unsafe impl Sync for RowNorm {}

impl RowNorm {
    pub(crate) unsafe fn run(&self, team: &Team<'_>, rows: Range<usize>) {
        let (n, level) = (self.n, team.level);
        let each = rows_at_once(n);
        by_rows(team, rows, n, |rows, mut scratch| {
            let (mul, add, extra) = (scratch.floats(n), scratch.floats(n), scratch.floats(n));
            let bufs = scratch.floats(each * n);
            let mut batch = usize::MAX;
            for first in rows.clone().step_by(each) {
                let some = first..(first + each).min(rows.end);
                let mut known = [(std::ptr::null(), 0.0, 0.0); MOST_ROWS];
                for (i, row) in some.clone().enumerate() {
                    let src = self.x.row(level, row * n, n, bufs.add(i * n));
                    let (mean, rstd) = stats::of_row(level, src, n, self.kind, self.eps);
                    known[i] = (src, mean, rstd);
                }
                for (i, row) in some.enumerate() {
                    if row / self.rows_per_batch != batch {
                        batch = row / self.rows_per_batch;
                        self.coefficients(team, batch, mul, add, extra);
                    }
                    let (src, mean, rstd) = known[i];
                    let scaled = Scaled {
                        mul,
                        add,
                        mean,
                        rstd,
                        act: Activation::of(self.act, self.out.dtype),
                    };
                    let buf = bufs.add(i * n);
                    act::scale_map(level, &scaled, src, self.out.target(row * n, buf), n);
                    self.out.commit(level, row * n, n, buf);
                }
            }
        });
    }

    unsafe fn coefficients(
        &self,
        team: &Team<'_>,
        batch: usize,
        mul: *mut f32,
        add: *mut f32,
        buf: *mut f32,
    ) {
        let n = self.n;
        for c in 0..n {
            *mul.add(c) = if self.weight.is_null() {
                1.0
            } else {
                *self.weight.add(c)
            };
            *add.add(c) = if self.bias.is_null() {
                0.0
            } else {
                *self.bias.add(c)
            };
        }
        if let Some(scale) = self.scale {
            let scale = scale.row(team.level, batch * n, n, buf);
            for c in 0..n {
                *mul.add(c) *= 1.0 + *scale.add(c);
                *add.add(c) *= 1.0 + *scale.add(c);
            }
        }
        if let Some(shift) = self.shift {
            let shift = shift.row(team.level, batch * n, n, buf);
            for c in 0..n {
                *add.add(c) += *shift.add(c);
            }
        }
    }
}

/// Computes softmax over the last dimension of `[rows, n]`.
pub(crate) unsafe fn softmax(team: &Team<'_>, x: View, out: View, n: usize, rows: Range<usize>) {
    by_rows(team, rows, n, |rows, mut scratch| {
        let buf = scratch.floats(n);
        for row in rows {
            let src = x.row(team.level, row * n, n, buf);
            softmax_row(team.level, src, out.target(row * n, buf), n);
            out.commit(team.level, row * n, n, buf);
        }
    });
}

dispatch! { fn softmax_row(src: *const f32, dst: *mut f32, n: usize) = softmax_row_impl }

#[inline(always)]
unsafe fn softmax_row_impl<S: Simd>(src: *const f32, dst: *mut f32, n: usize) {
    let whole = n - n % S::LANES;
    let (mut most, mut i) = (S::splat(f32::NEG_INFINITY), 0);
    while i < whole {
        most = S::max(most, S::load(src.add(i)));
        i += S::LANES;
    }
    let mut largest = S::hmax(most);
    for j in whole..n {
        largest = largest.max(*src.add(j));
    }
    let (shift, mut sum) = (S::splat(largest), S::zero());
    i = 0;
    while i < whole {
        let e = math::exp::<S>(S::sub(S::load(src.add(i)), shift));
        S::store(dst.add(i), e);
        sum = S::add(sum, e);
        i += S::LANES;
    }
    let mut total = S::sum(sum);
    if i < n {
        let e = math::exp::<S>(S::sub(S::load_n(src.add(i), n - i), shift));
        S::store_n(dst.add(i), e, n - i);
        for j in whole..n {
            total += *dst.add(j);
        }
    }
    let by = S::splat(1.0 / total);
    i = 0;
    while i < whole {
        S::store(dst.add(i), S::mul(S::load(dst.add(i)), by));
        i += S::LANES;
    }
    for j in whole..n {
        *dst.add(j) /= total;
    }
}
