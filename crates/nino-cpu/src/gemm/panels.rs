//! Brings rows of plain weights into panels: `[n][k]` to `[panel][channel
//! block][tap][channel][PANEL]`.
//!
//! Loading a model is mostly this and reading. Rows come a panel at a time, so that they are still
//! in the cache, and values of two bytes are transposed eight by eight.

#![allow(clippy::cast_ptr_alignment)] // vectors are loaded and stored unaligned

use nino_graph::StoredRows;

use super::micro::{PANEL, SEG};

/// Weights of one panel, as rows are stored.
#[derive(Clone, Copy)]
pub(crate) struct PanelRows {
    /// Rows that exist, at most [`PANEL`].
    pub(crate) n: usize,
    pub(crate) taps: usize,
    pub(crate) cin: usize,
    pub(crate) order: StoredRows,
}

impl PanelRows {
    /// Writes the panel; what lies beyond `n` stays as it is in `dst`, which is zero.
    pub(crate) fn pack(&self, size: usize, src: &[u8], dst: &mut [u8]) {
        match size {
            1 => self.scatter(src.as_chunks::<1>().0, dst.as_chunks_mut::<1>().0),
            2 => self.pack_pairs(src, dst),
            4 => self.scatter(src.as_chunks::<4>().0, dst.as_chunks_mut::<4>().0),
            _ => self.scatter(src.as_chunks::<8>().0, dst.as_chunks_mut::<8>().0),
        }
    }

    /// Values of a row.
    fn k(&self) -> usize {
        self.taps * self.cin
    }

    /// The row of the panel that value `k` of a stored row goes to.
    fn place(&self, k: usize) -> usize {
        let (tap, c) = match self.order {
            StoredRows::Same => (k / self.cin, k % self.cin),
            StoredRows::ChannelsFirst => (k % self.taps, k / self.taps),
        };
        let c0 = c - c % SEG;
        let len = (self.cin - c0).min(SEG);
        c0 * self.taps + tap * len + (c - c0)
    }

    fn scatter<T: Copy>(&self, src: &[T], dst: &mut [T]) {
        let k = self.k();
        for at in 0..k {
            let row = &mut dst[self.place(at) * PANEL..][..PANEL];
            for (j, value) in row[..self.n].iter_mut().enumerate() {
                *value = src[j * k + at];
            }
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn pack_pairs(&self, src: &[u8], dst: &mut [u8]) {
        self.scatter(src.as_chunks::<2>().0, dst.as_chunks_mut::<2>().0);
    }

    #[cfg(target_arch = "x86_64")]
    fn pack_pairs(&self, src: &[u8], dst: &mut [u8]) {
        let k = self.k();
        let whole = if self.n == PANEL { k - k % 8 } else { 0 };
        let (values, rows) = (src.as_chunks::<2>().0, dst.as_chunks_mut::<2>().0);
        assert!(values.len() >= self.n * k && rows.len() >= k * PANEL);
        for at in (0..whole).step_by(8) {
            let places: [usize; 8] = std::array::from_fn(|i| self.place(at + i) * PANEL);
            for j in (0..PANEL).step_by(8) {
                // SAFETY: eight values from `at` on of rows `j..j + 8` are inside `values`, and
                // eight from `j` on of the panel's rows at `places` inside `rows`, by the check
                // above.
                unsafe {
                    let from = values.as_ptr().cast::<u16>().add(j * k + at);
                    let to = rows.as_mut_ptr().cast::<u16>().add(j);
                    transpose_8x8(from, k, to, &places);
                }
            }
        }
        for at in whole..k {
            let row = &mut rows[self.place(at) * PANEL..][..PANEL];
            for (j, value) in row[..self.n].iter_mut().enumerate() {
                *value = values[j * k + at];
            }
        }
    }
}

/// Eight rows of eight values, `ld` apart, become eight columns: value `i` of each goes to `dst +
/// to[i]`.
///
/// # Safety
/// All sixty-four values can be read and written.
#[cfg(target_arch = "x86_64")]
unsafe fn transpose_8x8(src: *const u16, ld: usize, dst: *mut u16, to: &[usize; 8]) {
    use std::arch::x86_64::{
        __m128i, _mm_loadu_si128, _mm_storeu_si128, _mm_unpackhi_epi16, _mm_unpackhi_epi32,
        _mm_unpackhi_epi64, _mm_unpacklo_epi16, _mm_unpacklo_epi32, _mm_unpacklo_epi64,
    };
    // SAFETY: SSE2 is part of x86-64; the caller vouches for the values.
    unsafe {
        let row = |i: usize| _mm_loadu_si128(src.add(i * ld).cast::<__m128i>());
        let r: [__m128i; 8] = std::array::from_fn(row);
        let pair = |i: usize| {
            let (a, b) = (r[2 * i], r[2 * i + 1]);
            (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b))
        };
        let p: [(__m128i, __m128i); 4] = std::array::from_fn(pair);
        // Columns 0..2, 2..4, 4..6 and 6..8 of the first and of the last four rows.
        let quads = |a: (__m128i, __m128i), b: (__m128i, __m128i)| {
            [
                _mm_unpacklo_epi32(a.0, b.0),
                _mm_unpackhi_epi32(a.0, b.0),
                _mm_unpacklo_epi32(a.1, b.1),
                _mm_unpackhi_epi32(a.1, b.1),
            ]
        };
        let (top, bottom) = (quads(p[0], p[1]), quads(p[2], p[3]));
        for i in 0..4 {
            let even = _mm_unpacklo_epi64(top[i], bottom[i]);
            let odd = _mm_unpackhi_epi64(top[i], bottom[i]);
            _mm_storeu_si128(dst.add(to[2 * i]).cast::<__m128i>(), even);
            _mm_storeu_si128(dst.add(to[2 * i + 1]).cast::<__m128i>(), odd);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{PANEL, PanelRows, SEG};
    use nino_graph::StoredRows;

    /// Every value of every row is where the layout says, for values of all sizes.
    #[test]
    fn panels_hold_every_value_at_its_place() {
        for (n, taps, cin) in [
            (32, 9, 20),
            (32, 1, 300),
            (7, 9, 5),
            (32, 27, 130),
            (1, 1, 8),
        ] {
            for order in [StoredRows::Same, StoredRows::ChannelsFirst] {
                for size in [1, 2, 4, 8] {
                    let rows = PanelRows {
                        n,
                        taps,
                        cin,
                        order,
                    };
                    check(rows, size);
                }
            }
        }
    }

    fn check(rows: PanelRows, size: usize) {
        let PanelRows {
            n,
            taps,
            cin,
            order,
        } = rows;
        let k = taps * cin;
        let byte = |j: usize, at: usize, b: usize| (j * 31 + at * 7 + b * 13) as u8;
        let src: Vec<u8> = (0..n * k * size)
            .map(|i| byte(i / size / k, i / size % k, i % size))
            .collect();
        let mut dst = vec![0; k * PANEL * size];
        rows.pack(size, &src, &mut dst);
        for c in 0..cin {
            for tap in 0..taps {
                let at = match order {
                    StoredRows::Same => tap * cin + c,
                    StoredRows::ChannelsFirst => c * taps + tap,
                };
                let c0 = c / SEG * SEG;
                let row = c0 * taps + tap * (cin - c0).min(SEG) + c - c0;
                for j in 0..PANEL {
                    for b in 0..size {
                        let found = dst[(row * PANEL + j) * size + b];
                        let wanted = if j < n { byte(j, at, b) } else { 0 };
                        assert_eq!(
                            found, wanted,
                            "{n} {taps} {cin} {order:?} {size}: {c} {tap} {j}"
                        );
                    }
                }
            }
        }
    }
}
