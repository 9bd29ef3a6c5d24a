//! Activations as the right-hand side of a product: packed into panels as they are needed.

use super::grid::PASS;
use super::micro::PANEL;
use super::weights::transpose_panel;
use crate::memory::View;
use crate::simd::Level;

/// A matrix `[k, n]`, or `[n, k]` when transposed, from element `at` of a view.
#[derive(Clone, Copy)]
pub(crate) struct Activations {
    pub view: View,
    pub at: usize,
    pub k: usize,
    pub n: usize,
    pub transposed: bool,
    /// Elements between two rows as stored.
    pub ld: usize,
}

impl Activations {
    /// Gives the floats of scratch that a pack of `k` values needs.
    pub(crate) fn pack_floats(&self, k: usize) -> usize {
        let rows = if self.transposed { PANEL * PASS } else { 0 };
        k * PANEL + rows
    }

    /// Packs columns of `panel` for `k0..k0 + n` to `[n][PANEL]`; `rows` has room for
    /// `[PANEL][PASS]` when transposed.
    pub(crate) unsafe fn panel(
        &self,
        level: Level,
        panel: usize,
        k0: usize,
        n: usize,
        pack: *mut f32,
        rows: *mut f32,
    ) -> *const f32 {
        let cols = (self.n - panel * PANEL).min(PANEL);
        if !self.transposed {
            for i in 0..n {
                let dst = pack.add(i * PANEL);
                self.view.load(
                    level,
                    self.at + (k0 + i) * self.ld + panel * PANEL,
                    cols,
                    dst,
                );
                dst.add(cols).write_bytes(0, PANEL - cols);
            }
            return pack;
        }
        let at = self.at + panel * PANEL * self.ld + k0;
        if cols == PANEL && self.view.is_f32() {
            transpose_panel(level, self.view.f32_at(at), self.ld, n, pack);
            return pack;
        }
        for j in 0..PANEL {
            if j < cols {
                self.view
                    .load(level, at + j * self.ld, n, rows.add(j * PASS));
            } else {
                rows.add(j * PASS).write_bytes(0, n);
            }
        }
        transpose_panel(level, rows, PASS, n, pack);
        pack
    }
}
