//! Nearest and bilinear enlargement, average pooling.

use std::ops::Range;

use super::by_rows;
use crate::memory::View;
use crate::team::{Team, floats_bytes};

/// Images `[frames, h, w, c]` in and out.
#[derive(Clone, Copy)]
pub(crate) struct Resample {
    pub x: View,
    pub out: View,
    /// `[h, w]`
    pub input: [usize; 2],
    pub output: [usize; 2],
    pub c: usize,
}

pub(crate) fn scratch_bytes(c: usize) -> usize {
    2 * floats_bytes(c)
}

impl Resample {
    fn pixel(&self, frame: usize, y: usize, x: usize) -> usize {
        ((frame * self.input[0] + y) * self.input[1] + x) * self.c
    }

    /// Repeats pixels by whole factors `[h, w]`. Rows are image rows of the output.
    pub(crate) unsafe fn nearest(&self, team: &Team<'_>, factor: [usize; 2], rows: Range<usize>) {
        let [h, w] = self.output;
        let bytes = self.c * self.out.dtype.block_bytes();
        by_rows(team, rows, w * self.c, |rows, _| {
            for row in rows {
                for x in 0..w {
                    let from = self.pixel(row / h, row % h / factor[0], x / factor[1]);
                    let to = self.out.at((row * w + x) * self.c);
                    std::ptr::copy_nonoverlapping(self.x.at(from), to, bytes);
                }
            }
        });
    }

    /// Interpolates with half-pixel centers, clamped at the border.
    pub(crate) unsafe fn bilinear(&self, team: &Team<'_>, factor: [usize; 2], rows: Range<usize>) {
        let [h, w] = self.output;
        let side = |i: usize, factor: usize, size: usize| {
            let at = ((i as f32 + 0.5) / factor as f32 - 0.5).max(0.0);
            let low = (at as usize).min(size - 1);
            (low, (low + 1).min(size - 1), at - low as f32)
        };
        by_rows(team, rows, w * self.c, |rows, mut scratch| {
            let (buf, sum) = (scratch.floats(self.c), scratch.floats(self.c));
            for row in rows {
                let (y0, y1, fy) = side(row % h, factor[0], self.input[0]);
                for x in 0..w {
                    let (x0, x1, fx) = side(x, factor[1], self.input[1]);
                    let corners = [
                        (y0, x0, (1.0 - fy) * (1.0 - fx)),
                        (y0, x1, (1.0 - fy) * fx),
                        (y1, x0, fy * (1.0 - fx)),
                        (y1, x1, fy * fx),
                    ];
                    sum.write_bytes(0, self.c);
                    for (y, x, weight) in corners {
                        self.add(team, self.pixel(row / h, y, x), weight, buf, sum);
                    }
                    self.out
                        .store(team.level, (row * w + x) * self.c, self.c, sum);
                }
            }
        });
    }

    /// Computes means of `size × size` windows.
    pub(crate) unsafe fn average(&self, team: &Team<'_>, size: usize, rows: Range<usize>) {
        let [h, w] = self.output;
        let weight = 1.0 / (size * size) as f32;
        by_rows(team, rows, w * self.c * size * size, |rows, mut scratch| {
            let (buf, sum) = (scratch.floats(self.c), scratch.floats(self.c));
            for row in rows {
                for x in 0..w {
                    sum.write_bytes(0, self.c);
                    for i in 0..size * size {
                        let (y, x) = (row % h * size + i / size, x * size + i % size);
                        self.add(team, self.pixel(row / h, y, x), weight, buf, sum);
                    }
                    self.out
                        .store(team.level, (row * w + x) * self.c, self.c, sum);
                }
            }
        });
    }

    unsafe fn add(&self, team: &Team<'_>, at: usize, weight: f32, buf: *mut f32, sum: *mut f32) {
        let row = self.x.row(team.level, at, self.c, buf);
        for c in 0..self.c {
            *sum.add(c) += weight * *row.add(c);
        }
    }
}
