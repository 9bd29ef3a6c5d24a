//! Tiles of linear layers by int8 dot products (`q8`): rows of activations are quantized once for a
//! tile, and multiplied with one panel of weights after the other.
//!
//! Where groups of weights have an offset, a product is `Σ (s q + o) x = Σ s q x + o Σ x`: the
//! second part is a product of its own, in f32, of the groups' sums and their offsets.

use nino_dtype::{int8_group, int8_has_offset};

use super::grid::{PASS, TILE_PANELS, TILE_ROWS, Tile};
use super::int8_rows::{Decoded, GROUPS};
use super::linear::{Linear, each_row, finish, in_pieces};
use super::micro::{self, Block, LDA, PANEL, SEG};
use super::prologue::Coefficients;
use super::q8::{self, BLOCK, Int8Block, Int8Panel};
use super::slot::Slot;
use super::weights::{Packed, PackedLayout};
use crate::memory::prefetch;
use crate::simd::Level;
use crate::team::{Carver, floats_bytes};

/// Blocks of activations in a pass.
const BLOCKS: usize = PASS / BLOCK;

/// Whether weights are integers that can be multiplied so at a level.
pub(crate) fn takes(level: Level, w: &Packed) -> bool {
    match w.layout {
        PackedLayout::Int8 => true,
        PackedLayout::Rows => w.taps == 1 && int8_group(w.dtype).is_some() && q8::supported(level),
        PackedLayout::Panels | PackedLayout::Pairs | PackedLayout::Q8Panels => false,
    }
}

/// Gives the bytes of scratch that each thread needs.
pub(crate) fn scratch_bytes(w: &Packed) -> usize {
    let a = floats_bytes(TILE_ROWS * PASS / 4) + floats_bytes(TILE_ROWS * BLOCKS);
    let c = floats_bytes(TILE_ROWS * TILE_PANELS * PANEL);
    let panel = 2 * floats_bytes(GROUPS * PANEL);
    let mut bytes = a + c + panel + floats_bytes(PASS);
    if w.layout == PackedLayout::Rows {
        bytes += Decoded::scratch_bytes();
    }
    if int8_has_offset(w.dtype) {
        bytes += floats_bytes(TILE_ROWS * LDA);
    }
    bytes
}

/// Computes one tile.
pub(super) unsafe fn tile(
    level: Level,
    l: &Linear<'_>,
    w: &Packed,
    tile: Tile,
    scratch: &mut Carver<'_>,
) {
    let k = w.cin;
    let a = scratch.floats(tile.rows * PASS / 4).cast::<u8>();
    let a_scales = scratch.floats(tile.rows * BLOCKS);
    let q8_scales = scratch.floats(BLOCKS * PANEL);
    let b_start = scratch.floats(GROUPS * PANEL).cast::<i32>();
    let buf = scratch.floats(PASS);
    let decoded = (w.layout == PackedLayout::Rows).then(|| Decoded::new(scratch));
    let sums = int8_has_offset(w.dtype).then(|| scratch.floats(tile.rows * LDA));
    let ldc = l.sums_width(tile, k <= PASS);
    let c = scratch.floats(tile.rows * ldc);
    let mut coefficients = Coefficients::new();
    for k0 in (0..k).step_by(PASS) {
        let len = (k - k0).min(PASS);
        each_row(
            l,
            tile,
            k0,
            len,
            &mut coefficients,
            |i, row, coefficients| {
                l.source
                    .read(level, coefficients, (row * k + k0, row, 0), len, buf);
                let (a, scales) = (a.add(i * PASS), a_scales.add(i * BLOCKS));
                q8::quantize(level, buf, len, a, scales);
                if let (Some(sums), Some(group)) = (sums, int8_group(w.dtype)) {
                    group_sums(a, scales, group, len, sums.add(i * LDA));
                }
            },
        );
        // Blocks of a panel that is packed so.
        let packed = |panel: usize| {
            let first = (panel * k + k0) / BLOCK;
            w.bytes().as_ptr().wrapping_add(first * q8::PANEL_BLOCK)
        };
        for i in 0..l.parts(tile) {
            let part = l.part(tile, i);
            let (b, b_scales) = if let Some(decoded) = &decoded {
                let panel = decoded.panel(level, w, part.panel, (k0, len));
                (panel, decoded.scales)
            } else {
                let blocks = packed(part.panel);
                q8::scales(level, blocks, len / BLOCK, q8_scales);
                (Int8Panel::of_q8(blocks, len / BLOCK), q8_scales)
            };
            q8::starts(level, &b, b_start);
            let c = c.add(part.column(k <= PASS));
            let block = Int8Block {
                a,
                a_scales,
                lda: PASS,
                b,
                b_scales,
                b_start,
                c,
                ldc,
                rows: tile.rows,
                accumulate: k0 > 0,
            };
            // The next panel is brought into the second-level cache, a share with each piece.
            let next = (decoded.is_none() && i + 1 < l.parts(tile))
                .then(|| packed(l.part(tile, i + 1).panel));
            let share = |row: usize| row * (len / BLOCK * q8::PANEL_BLOCK) / tile.rows;
            let finished = part.finishes.filter(|_| k0 + len == k);
            in_pieces(l, tile, finished, |row, rows| {
                if let Some(next) = next {
                    let (from, end) = (share(row), share(row + rows));
                    prefetch::<false>(next.wrapping_add(from), end - from);
                }
                let piece = Int8Block {
                    a: a.add(row * PASS),
                    a_scales: a_scales.add(row * BLOCKS),
                    c: c.add(row * ldc),
                    rows,
                    ..block
                };
                q8::block(level, &piece);
            });
            if let (Some(sums), Some(decoded)) = (sums, &decoded) {
                let offsets = Block {
                    slot: Slot::F32,
                    a: sums,
                    segments: &[0],
                    segment_len: SEG,
                    k: b.groups,
                    b: decoded.offsets,
                    c,
                    ldc,
                    rows: tile.rows,
                    cols: w.cols(part.panel),
                    accumulate: true,
                };
                micro::block(level, &offsets);
            }
            if let Some(panel) = finished {
                finish(level, l, tile, panel, c.sub(part.place * PANEL), ldc);
            }
        }
    }
}

/// Gives the sums of groups of `group` quantized values, `n` of them in all, times their scales.
unsafe fn group_sums(a: *const u8, scales: *const f32, group: usize, n: usize, sums: *mut f32) {
    let bytes = std::slice::from_raw_parts(a, n);
    for (i, bytes) in bytes.chunks_exact(group).enumerate() {
        let sum: i32 = bytes.iter().map(|&byte| i32::from(byte)).sum();
        let sum = sum - 128 * group as i32;
        *sums.add(i) = sum as f32 * *scales.add(i * group / BLOCK);
    }
}
