//! Batched products of activations: each batch element is cut like a linear layer.

use std::ops::Range;

use super::activations::Activations;
use super::epilogue::Epilogue;
use super::grid::Grid;
use super::linear::{self, Factor, Linear};
use super::prologue::Source;
use super::slot::Slot;
use crate::memory::View;
use crate::simd::Level;
use crate::team::Team;

/// a `[batches, m, k]` times b `[batches, k, n]` (or `[batches, n, k]`).
#[derive(Clone, Copy)]
pub(crate) struct MatMul {
    pub a: View,
    pub b: View,
    pub out: View,
    pub m: usize,
    pub k: usize,
    pub n: usize,
    pub b_transposed: bool,
    pub scale: f32,
}

impl MatMul {
    fn factor(&self, batch: usize) -> Factor<'static> {
        Factor::Activations(Activations {
            view: self.b,
            at: batch * self.k * self.n,
            k: self.k,
            n: self.n,
            transposed: self.b_transposed,
            ld: if self.b_transposed { self.k } else { self.n },
        })
    }

    pub(crate) fn scratch_bytes(&self, level: Level) -> usize {
        linear::scratch_bytes(level, Slot::of(level, self.a.dtype), &self.factor(0))
    }

    /// Computes rows `rows` of the output, counted over all batches.
    pub(crate) unsafe fn run(&self, team: &Team<'_>, rows: Range<usize>) {
        let batches = rows.start / self.m..rows.end.div_ceil(self.m);
        // Cut as one tall product of all batches, so that many batches are not cut further.
        let slot = Slot::of(team.level, self.a.dtype);
        let work = self.factor(0).work(team.level, slot, false, 1);
        let whole = Grid::new(rows.len(), self.n, &work, team.threads());
        let row_tiles = whole.row_tiles.div_ceil(batches.len());
        let grid = Grid {
            rows: self.m,
            row_tiles: row_tiles.min(self.m),
            ..whole
        };
        let work = rows.len() * self.n * self.k / 16;
        let act = (self.scale.to_bits() != 1f32.to_bits()).then_some(nino_graph::Act::Affine {
            mul: self.scale,
            add: 0.0,
        });
        team.run(batches.len() * grid.tasks(), work, |task, mut scratch| {
            let batch = batches.start + task / grid.tasks();
            let mut tile = grid.tile(task % grid.tasks());
            let first = (batch * self.m + tile.row).max(rows.start);
            let last = (batch * self.m + tile.row + tile.rows).min(rows.end);
            if first >= last {
                return;
            }
            (tile.row, tile.rows) = (first, last - first);
            let l = Linear {
                source: Source {
                    x: self.a,
                    pre: None,
                },
                b: self.factor(batch),
                epilogue: Epilogue {
                    scale: std::ptr::null(),
                    bias: std::ptr::null(),
                    gate: None,
                    act,
                    residual: None,
                    post: None,
                    out: self.out,
                    ld: self.n,
                },
                rows_per_batch: usize::MAX,
            };
            linear::tile(team.level, &l, tile, &mut scratch);
        });
    }
}
