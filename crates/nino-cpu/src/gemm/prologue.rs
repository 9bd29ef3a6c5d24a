//! Reads A: converts the stored type to f32, and applies the norm and activation in front of a
//! product.

use nino_dtype::DType;
use nino_graph::Act;

use super::pairs;
use super::slot::Slot;
use crate::act::{self, Activation, Scaled};
use crate::memory::View;
use crate::simd::Level;

/// `act((x - mean) * rstd * weight + bias)` with statistics from a table.
#[derive(Clone, Copy)]
pub(crate) struct Prologue {
    /// `[b, groups, 2]` or `[rows, 2]` of (mean, rstd).
    pub stats: *const f32,
    /// `None`: the table has one entry per row.
    pub groups: Option<usize>,
    /// `[c]` f32 or null.
    pub weight: *const f32,
    pub bias: *const f32,
    pub act: Option<Act>,
    pub channels: usize,
}

// SAFETY: the tables are only read.
unsafe impl Sync for Prologue {}
// SAFETY: as above.
unsafe impl Send for Prologue {}

/// Channels that one [`Coefficients`] covers at most.
pub(crate) const MAX_COEFFICIENTS: usize = 1024;

/// Scale and shift of a range of channels, with group statistics of one batch element folded in.
pub(crate) struct Coefficients {
    mul: [f32; MAX_COEFFICIENTS],
    add: [f32; MAX_COEFFICIENTS],
}

impl Coefficients {
    pub(crate) fn new() -> Coefficients {
        Coefficients {
            mul: [1.0; MAX_COEFFICIENTS],
            add: [0.0; MAX_COEFFICIENTS],
        }
    }

    /// Sets the coefficients of channels `c0..c0 + n` for batch element `b`.
    pub(crate) unsafe fn set(&mut self, pre: &Prologue, b: usize, c0: usize, n: usize) {
        for i in 0..n {
            let c = c0 + i;
            let w = if pre.weight.is_null() {
                1.0
            } else {
                *pre.weight.add(c)
            };
            let shift = if pre.bias.is_null() {
                0.0
            } else {
                *pre.bias.add(c)
            };
            let (mean, rstd) = match pre.groups {
                Some(groups) => {
                    let group = c / (pre.channels / groups);
                    let entry = pre.stats.add((b * groups + group) * 2);
                    (*entry, *entry.add(1))
                }
                None => (0.0, 1.0),
            };
            self.mul[i] = rstd * w;
            self.add[i] = (-mean * rstd).mul_add(w, shift);
        }
    }
}

/// A view with the prologue that goes with it.
#[derive(Clone, Copy)]
pub(crate) struct Source {
    pub x: View,
    pub pre: Option<Prologue>,
}

impl Source {
    /// Packs `n` values into `dst`, which has room for their slots; the rest is as for
    /// [`Source::read`].
    #[inline]
    pub(crate) unsafe fn pack(
        &self,
        slot: Slot,
        level: Level,
        coefficients: &Coefficients,
        (at, row, skip): (usize, usize, usize),
        n: usize,
        dst: *mut f32,
    ) {
        if slot == Slot::F32 {
            return self.read(level, coefficients, (at, row, skip), n, dst);
        }
        if self.pre.is_none() && self.x.dtype == DType::BF16 {
            return pairs::copy(self.x.at(at).cast(), n, dst);
        }
        let mut piece = [0.0; 128];
        for i in (0..n).step_by(piece.len()) {
            let (len, piece) = ((n - i).min(piece.len()), piece.as_mut_ptr());
            self.read(level, coefficients, (at + i, row, skip + i), len, piece);
            pairs::narrow(piece, len, dst.add(i / 2));
        }
    }

    /// Copies `n` values at element `at` to `dst`. They belong to row `row` of the statistics, and
    /// begin `skip` channels into the coefficients.
    #[inline]
    pub(crate) unsafe fn read(
        &self,
        level: Level,
        coefficients: &Coefficients,
        (at, row, skip): (usize, usize, usize),
        n: usize,
        dst: *mut f32,
    ) {
        let Some(pre) = &self.pre else {
            return self.x.load(level, at, n, dst);
        };
        let (mean, rstd) = match pre.groups {
            Some(_) => (0.0, 1.0),
            None => (*pre.stats.add(row * 2), *pre.stats.add(row * 2 + 1)),
        };
        let scaled = Scaled {
            mul: coefficients.mul.as_ptr().add(skip),
            add: coefficients.add.as_ptr().add(skip),
            mean,
            rstd,
            act: Activation::of(pre.act, self.x.dtype),
        };
        let src = self.x.row(level, at, n, dst);
        act::scale_map(level, &scaled, src, dst, n);
    }
}
