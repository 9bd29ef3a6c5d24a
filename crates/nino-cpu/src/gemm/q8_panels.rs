//! `Q8_0` weights for kernels in f32: convolutions, and linear layers where there are no int8 dot
//! products. A block of 32 channels of a panel is 32 f16 scales, then `[32][PANEL]` int8: the bytes
//! of the file, in the order in which a panel is read.

use super::micro::{PANEL, SEG};
use super::q8::{BLOCK, PANEL_BLOCK};
use crate::simd::{Simd, dispatch};

const STORED: usize = PANEL_BLOCK / PANEL;

pub(crate) fn packed_bytes([n, taps, cin]: [usize; 3]) -> usize {
    n.div_ceil(PANEL) * taps * (cin / BLOCK) * PANEL_BLOCK
}

/// Packs the file's layout, `[n][taps][cin / 32]` of (scale, 32 int8), into
/// `[panel][channel block][tap][cin / 32 of the block]`. Columns beyond `n` stay zero.
pub(crate) fn pack(src: &[u8], [n, taps, cin]: [usize; 3], dst: &mut [u8]) {
    let blocks = cin / BLOCK;
    let mut to = dst.chunks_exact_mut(PANEL_BLOCK);
    for panel in 0..n.div_ceil(PANEL) {
        for c0 in (0..blocks).step_by(SEG / BLOCK) {
            for tap in 0..taps {
                for b in c0..blocks.min(c0 + SEG / BLOCK) {
                    let Some(to) = to.next() else { return };
                    for j in 0..PANEL.min(n - panel * PANEL) {
                        let row = (panel * PANEL + j) * taps + tap;
                        let from = &src[(row * blocks + b) * STORED..][..STORED];
                        to[2 * j..2 * j + 2].copy_from_slice(&from[..2]);
                        for (c, &q) in from[2..].iter().enumerate() {
                            to[2 * PANEL + c * PANEL + j] = q;
                        }
                    }
                }
            }
        }
    }
}

/// Gives the byte at which panel `p` begins from channel `c0` on, a multiple of [`SEG`].
pub(crate) fn offset(p: usize, c0: usize, taps: usize, cin: usize) -> usize {
    (p * cin + c0) * taps / BLOCK * PANEL_BLOCK
}

dispatch! {
    /// Decodes `blocks` packed blocks to f32 `[32][PANEL]` each.
    pub(crate) fn unpack(src: *const u8, blocks: usize, dst: *mut f32) = unpack_impl
}

#[inline(always)]
unsafe fn unpack_impl<S: Simd>(src: *const u8, blocks: usize, dst: *mut f32) {
    for b in 0..blocks {
        let (scales, dst) = (src.add(b * PANEL_BLOCK), dst.add(b * BLOCK * PANEL));
        let values = scales.add(2 * PANEL).cast::<i8>();
        let mut j = 0;
        while j < PANEL {
            let scale = S::load_f16(scales.add(2 * j).cast());
            for c in 0..BLOCK {
                let value = S::load_i8(values.add(c * PANEL + j));
                S::store(dst.add(c * PANEL + j), S::mul(value, scale));
            }
            j += S::LANES;
        }
    }
}
