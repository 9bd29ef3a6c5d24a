//! The right-hand side of a product as panels of pairs, from whatever it is stored as.
//!
//! Weights that are stored as pairs are used where they lie. Others of f32, f16 and bf16 become
//! pairs on the way to the pack. Other encodings are decoded to f32 a piece at a time first, so
//! that what is between stays in the first-level cache.

use nino_dtype::DType;

use super::activations::Activations;
use super::micro::{PANEL, SEG};
use super::pairs;
use super::slot::Slot;
use super::weights::{Packed, PackedLayout, transpose_panel};
use crate::simd::Level;

/// Values of k decoded at a time; the longest block of a block type.
const PIECE: usize = 256;

impl Packed {
    /// Gives the floats of scratch that [`Packed::pair_panel`] needs for `n` channels.
    pub(crate) fn pair_floats(&self, n: usize) -> usize {
        if self.layout == PackedLayout::Pairs {
            return 0;
        }
        let piece = n.min(if self.taps == 1 { PIECE } else { SEG });
        Slot::Pair.slots(n) * self.taps * PANEL + self.pack_floats(self.taps * piece)
    }

    /// Gives panel `p` as pairs `[tap][c / 2][PANEL]` for channels `c0..c0 + n`, as
    /// [`Packed::panel`] does in f32.
    pub(crate) unsafe fn pair_panel(
        &self,
        level: Level,
        p: usize,
        c0: usize,
        n: usize,
        pack: *mut f32,
    ) -> *const f32 {
        if self.layout == PackedLayout::Pairs {
            return self.panel_at(p, c0).cast();
        }
        let tap_slots = Slot::Pair.slots(n) * PANEL;
        if let Some(stored) = self.stored_panel(p, c0) {
            for tap in 0..self.taps {
                let from = stored.add(tap * n * PANEL * self.dtype.block_bytes());
                let dst = pack.add(tap * tap_slots);
                match self.dtype {
                    DType::F16 => pairs::interleave_f16(from.cast(), PANEL, n, dst),
                    DType::BF16 => pairs::interleave_bf16(from.cast(), PANEL, n, dst),
                    _ => pairs::interleave_f32(from.cast(), PANEL, n, dst),
                }
            }
            return pack;
        }
        let decoded = pack.add(tap_slots * self.taps);
        let piece = if self.taps == 1 { PIECE } else { n };
        for c in (0..n).step_by(piece) {
            let len = (n - c).min(piece);
            let from = self.panel(level, p, c0 + c, len, decoded);
            for tap in 0..self.taps {
                let dst = pack.add(tap * tap_slots + c / 2 * PANEL);
                pairs::interleave_f32(from.add(tap * len * PANEL), PANEL, len, dst);
            }
        }
        pack
    }

    /// Gives where a panel begins from channel `c0` on, if it is stored in values of 16 or 32 bits.
    unsafe fn stored_panel(&self, p: usize, c0: usize) -> Option<*const u8> {
        let plain = matches!(self.dtype, DType::F32 | DType::F16 | DType::BF16);
        (plain && self.layout == PackedLayout::Panels).then(|| self.panel_at(p, c0))
    }
}

impl Activations {
    /// Gives the floats of scratch that [`Activations::pair_panel`] needs for `k` values.
    pub(crate) fn pair_floats(&self, k: usize) -> usize {
        Slot::Pair.slots(k) * PANEL + self.pack_floats(k.min(PIECE))
    }

    /// Packs columns of `panel` for `k0..k0 + n` to pairs `[n / 2][PANEL]`. `k0` must be even, and
    /// `room` has the floats of [`Activations::pack_floats`] for 256 values.
    pub(crate) unsafe fn pair_panel(
        &self,
        level: Level,
        panel: usize,
        k0: usize,
        n: usize,
        pack: *mut f32,
        room: *mut f32,
    ) -> *const f32 {
        let whole = self.n - panel * PANEL >= PANEL && self.view.dtype == DType::BF16;
        if whole && self.transposed && self.ld.is_multiple_of(2) && n.is_multiple_of(2) {
            // Rows of bf16 are rows of pairs: turning them moves whole slots.
            let at = self.at + panel * PANEL * self.ld + k0;
            transpose_panel(level, self.view.at(at).cast(), self.ld / 2, n / 2, pack);
            return pack;
        }
        if whole && !self.transposed {
            let at = self.at + k0 * self.ld + panel * PANEL;
            pairs::interleave_bf16(self.view.at(at).cast(), self.ld, n, pack);
            return pack;
        }
        for k in (0..n).step_by(PIECE) {
            let len = (n - k).min(PIECE);
            let from = self.panel(level, panel, k0 + k, len, room, room.add(len * PANEL));
            pairs::interleave_f32(from, PANEL, len, pack.add(k / 2 * PANEL));
        }
        pack
    }
}
