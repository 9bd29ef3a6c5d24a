//! Copies a rectangle of the input as the filter sees it: enlarged, normalized, zero outside.

use std::ops::Range;

use super::Geometry;
use crate::gemm::micro::LDA;
use crate::gemm::prologue::{Coefficients, Source};
use crate::gemm::slot::Slot;
use crate::simd::Level;

/// The source of a copy: one input frame and a range of channels.
pub(crate) struct Frame<'a> {
    pub geometry: &'a Geometry,
    pub source: &'a Source,
    /// The rows that may be read, counted over all frames.
    pub readable: &'a Range<usize>,
    pub coefficients: &'a Coefficients,
    pub level: Level,
    /// What pixels are copied as.
    pub slot: Slot,
    /// Index of the frame over batch and time.
    pub index: usize,
    pub c0: usize,
    pub n: usize,
    pub cin: usize,
}

impl Frame<'_> {
    /// Copies `width` pixels of row `y` from column `x` (both of the enlarged image, without
    /// padding) to pixels [`LDA`] slots apart. With a stride, the columns of each remainder follow
    /// each other, `group` apart, so that neighbors in the output are neighbors here.
    pub(crate) unsafe fn row(
        &self,
        (y, x): (isize, isize),
        width: usize,
        (stride, group): (usize, usize),
        dst: *mut f32,
    ) {
        let [_, h, w] = self.geometry.input;
        let up = self.geometry.upsample;
        let at = |i: usize| dst.add((i % stride * group + i / stride) * LDA);
        let slots = self.slot.slots(self.n);
        let zero = |i: usize| at(i).write_bytes(0, slots);
        let row = self.index * h + y.max(0) as usize / up;
        if y < 0 || y as usize >= h * up || !self.readable.contains(&row) {
            (0..width).for_each(zero);
            return;
        }
        let row = row * w;
        let mut previous = usize::MAX;
        for i in 0..width {
            let column = x + i as isize;
            if column < 0 || column as usize >= w * up {
                zero(i);
                continue;
            }
            let pixel = row + column as usize / up;
            if pixel == previous {
                std::ptr::copy_nonoverlapping(at(i - 1), at(i), slots);
            } else {
                let from = (pixel * self.cin + self.c0, pixel, 0);
                self.source.pack(
                    self.slot,
                    self.level,
                    self.coefficients,
                    from,
                    self.n,
                    at(i),
                );
            }
            previous = pixel;
        }
    }
}
