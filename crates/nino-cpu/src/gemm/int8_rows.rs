//! A panel of weights that lie in rows of a block type, as integers for int8 dot products.
//!
//! Rows are decoded to integers one after the other, a pass of k at a time, and then transposed in
//! words of four: what comes out is the form that `q8` multiplies. Types whose groups have an
//! offset (`Q4_K`) give it apart.

use nino_dtype::{Int8Groups, decode_int8, int8_group, int8_has_offset};

use super::grid::PASS;
use super::micro::PANEL;
use super::q8::Int8Panel;
use super::weights::{Packed, transpose_panel};
use crate::simd::Level;
use crate::team::{Carver, floats_bytes};

/// The shortest group.
const SHORTEST: usize = 16;
/// Most groups of a pass.
pub(crate) const GROUPS: usize = PASS / SHORTEST;

/// Where a panel is decoded to.
pub(crate) struct Decoded {
    /// `[PANEL][PASS]`
    rows: *mut i8,
    /// `[PANEL][GROUPS]` each
    row_scales: *mut f32,
    row_offsets: *mut f32,
    /// `[PASS / 4][PANEL][4]`
    words: *mut f32,
    /// `[GROUPS][PANEL]` each
    pub scales: *mut f32,
    pub offsets: *mut f32,
}

impl Decoded {
    pub(crate) fn scratch_bytes() -> usize {
        2 * floats_bytes(PANEL * PASS / 4) + 4 * floats_bytes(PANEL * GROUPS)
    }

    pub(crate) fn new(scratch: &mut Carver<'_>) -> Decoded {
        Decoded {
            rows: scratch.floats(PANEL * PASS / 4).cast(),
            row_scales: scratch.floats(PANEL * GROUPS),
            row_offsets: scratch.floats(PANEL * GROUPS),
            words: scratch.floats(PANEL * PASS / 4),
            scales: scratch.floats(PANEL * GROUPS),
            offsets: scratch.floats(PANEL * GROUPS),
        }
    }

    /// Decodes values `k0..k0 + n`, whole blocks and at most `PASS`, of the columns of `panel`.
    /// Offsets are written where the type has them.
    pub(crate) unsafe fn panel(
        &self,
        level: Level,
        w: &Packed,
        panel: usize,
        (k0, n): (usize, usize),
    ) -> Int8Panel {
        let group = int8_group(w.dtype).expect("int8 is chosen for types with groups");
        let groups = n / group;
        let cols = w.cols(panel);
        for j in 0..PANEL {
            let out = Int8Groups {
                values: std::slice::from_raw_parts_mut(self.rows.add(j * PASS), n),
                scales: std::slice::from_raw_parts_mut(self.row_scales.add(j * GROUPS), groups),
                offsets: std::slice::from_raw_parts_mut(self.row_offsets.add(j * GROUPS), groups),
            };
            if j < cols {
                let row = w.row(panel * PANEL + j, k0, n);
                decode_int8(w.dtype, row, out).expect("sizes match by construction");
            } else {
                out.values.fill(0);
                out.scales.fill(0.0);
                out.offsets.fill(0.0);
            }
        }
        transpose_panel(level, self.rows.cast(), PASS / 4, n / 4, self.words);
        transpose_panel(level, self.row_scales, GROUPS, groups, self.scales);
        if int8_has_offset(w.dtype) {
            transpose_panel(level, self.row_offsets, GROUPS, groups, self.offsets);
        }
        Int8Panel {
            words: self.words.cast(),
            stride: group * PANEL,
            group: group / 4,
            groups,
        }
    }
}
