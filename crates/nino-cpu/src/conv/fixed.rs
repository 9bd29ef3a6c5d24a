//! Winograd's F(4×4, 3×3) as in `winograd`, with the 36 products in int16.
//!
//! Transformed tiles have a scale for each tile, product and block of channels, transformed filters
//! one for each output channel, product and block of channels. Scales make the sums of a block fit
//! into an int32 (`gemm::int16`); blocks are summed in f32. Rounded so, factors keep about 13 bits,
//! and the result is nearer to f32 than activations in bf16 are.
//!
//! Products take half as long as in f32, and transforms longer, since they also find scales and
//! round. So a task transforms less often: it keeps either transformed tiles of all channels and
//! sums of one panel, or tiles of one block of channels and sums of many panels, as many as fit
//! into [`BUDGET`] floats.

#[cfg(target_arch = "x86_64")]
mod avx512;

use std::ops::Range;

use nino_dtype::DType;

use super::transform::{Bf16, F16, F32, POINTS};
use super::winograd::{Channels, Cut, Piece, Points, SKEW};
use super::{Conv, Geometry};
use crate::gemm::int16::{self, Int16Block, LDW};
use crate::gemm::micro::{LDA, PANEL, SEG};
use crate::gemm::prologue::Coefficients;
use crate::gemm::weights::Packed;
use crate::split::{self, PIECES, Way};
use crate::team::{Carver, Team, floats_bytes};

/// Most tiles of a block. Filters are transformed anew for each.
const TILES: usize = 128;
/// Most floats of a task's transformed tiles and sums, with which scratch is as large as in f32.
const BUDGET: usize = 680 << 10;
/// Slots between the panels of transformed filters.
const FILTERS_POINT: usize = LDW * PANEL + SKEW;

/// The times of transforming a tile and the filters of a panel, where that of multiplying a tile
/// with a panel is 1.
const TRANSFORM_TILE: f64 = 1.0;
const TRANSFORM_FILTERS: f64 = 12.0;

/// How a step is cut into tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tasks {
    down: usize,
    across: usize,
    panels: usize,
    keep: Keep,
}

/// What a task keeps until its sums are complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Keep {
    /// Blocks of channels of which there are transformed tiles.
    blocks: usize,
    /// Panels of which there are sums.
    panels: usize,
}

impl Keep {
    fn tile_floats(self, n_tiles: usize) -> usize {
        self.blocks * POINTS * (n_tiles * LDW + SKEW)
    }

    fn scale_floats(self, n_tiles: usize) -> usize {
        self.blocks * POINTS * n_tiles
    }

    fn sum_floats(self, n_tiles: usize) -> usize {
        POINTS * (n_tiles * self.panels * PANEL + SKEW)
    }

    fn floats(self, n_tiles: usize) -> usize {
        self.tile_floats(n_tiles) + self.scale_floats(n_tiles) + self.sum_floats(n_tiles)
    }
}

/// Gives the blocks of channels, over all frames of the window.
fn blocks(g: &Geometry, w: &Packed) -> usize {
    g.window[0] * w.cin.div_ceil(SEG)
}

/// Gives what tasks of `each` panels and `n_tiles` tiles may keep.
fn ways_to_keep(blocks: usize, each: usize, n_tiles: usize) -> impl Iterator<Item = Keep> {
    let tiles = Keep { blocks, panels: 1 };
    let sums = Keep {
        blocks: 1,
        panels: each,
    };
    let fits = move |keep: &Keep| keep.floats(n_tiles) <= BUDGET;
    [tiles, sums].into_iter().filter(fits)
}

impl Tasks {
    fn new(cut: &Cut, tile_rows: usize, blocks: usize, panels: usize, threads: usize) -> Tasks {
        // A block of one row of tiles and one panel always fits.
        let least = Tasks {
            down: tile_rows,
            across: cut.across(),
            panels,
            keep: Keep {
                blocks: 1,
                panels: 1,
            },
        };
        split::fastest(Tasks::ways(cut, tile_rows, blocks, panels), threads).unwrap_or(least)
    }

    fn ways(
        cut: &Cut,
        tile_rows: usize,
        blocks: usize,
        panels: usize,
    ) -> impl Iterator<Item = Way<Tasks>> {
        let across = cut.across();
        let wide = cut.tiles[1].div_ceil(across);
        (1..=cut.block[0]).rev().flat_map(move |rows| {
            let down = tile_rows.div_ceil(rows);
            let n_tiles = tile_rows.div_ceil(down) * wide;
            let pieces = PIECES.into_iter().map(move |n| panels.div_ceil(n));
            pieces.flat_map(move |parts| {
                let each = panels.div_ceil(parts);
                let keeps = ways_to_keep(blocks, each, n_tiles);
                keeps.map(move |keep| Way {
                    cut: Tasks {
                        down,
                        across,
                        panels: parts,
                        keep,
                    },
                    tasks: down * across * parts,
                    task: n_tiles as f64 * TRANSFORM_TILE
                        + each as f64 * (n_tiles as f64 + TRANSFORM_FILTERS),
                })
            })
        })
    }
}

pub(crate) fn scratch_bytes(g: &Geometry, w: &Packed) -> usize {
    let cut = Cut::new(g, TILES);
    let keeps = (1..=cut.block[0]).flat_map(|rows| {
        let n_tiles = rows * cut.block[1];
        let all = (1..=w.panels()).flat_map(move |each| ways_to_keep(blocks(g, w), each, n_tiles));
        all.map(move |keep| {
            floats_bytes(keep.tile_floats(n_tiles))
                + floats_bytes(keep.scale_floats(n_tiles))
                + floats_bytes(keep.sum_floats(n_tiles))
        })
    });
    let n = w.cin.min(SEG);
    keeps.max().unwrap_or(0)
        + floats_bytes(cut.row_floats())
        + floats_bytes(POINTS * LDA)
        + floats_bytes(POINTS * FILTERS_POINT)
        + floats_bytes(POINTS * PANEL)
        + floats_bytes(cut.pixel_floats())
        + floats_bytes(w.pack_floats(w.taps * n))
}

pub(crate) unsafe fn run(team: &Team<'_>, conv: &Conv<'_>, rows: Range<usize>) {
    let (g, w) = (&conv.geometry, conv.weights);
    let cut = Cut::new(g, TILES);
    let tile_rows = cut.tile_rows(g, &rows).len();
    let tasks = Tasks::new(&cut, tile_rows, blocks(g, w), w.panels(), team.threads());
    run_tasks(team, conv, rows, tasks);
}

/// Runs a convolution cut in every way that it may be, and calls `each` after each.
#[cfg(test)]
pub(super) unsafe fn run_every_way(
    team: &Team<'_>,
    conv: &Conv<'_>,
    rows: Range<usize>,
    mut each: impl FnMut(),
) {
    let (g, w) = (&conv.geometry, conv.weights);
    let cut = Cut::new(g, TILES);
    let tile_rows = cut.tile_rows(g, &rows).len();
    let ways = Tasks::ways(&cut, tile_rows, blocks(g, w), w.panels());
    let mut ways: Vec<_> = ways.map(|way| way.cut).collect();
    ways.dedup();
    for tasks in ways {
        run_tasks(team, conv, rows.clone(), tasks);
        each();
    }
}

unsafe fn run_tasks(team: &Team<'_>, conv: &Conv<'_>, rows: Range<usize>, tasks: Tasks) {
    let (g, w) = (&conv.geometry, conv.weights);
    let cut = Cut::new(g, TILES);
    let tile_rows = cut.tile_rows(g, &rows);
    let panels = w.panels();
    let Tasks {
        down,
        across,
        panels: parts,
        keep,
    } = tasks;
    let work = rows.len() * g.output[2] * w.n * w.taps * w.cin / 128;
    team.run(down * across * parts, work, |task, mut scratch| {
        let (block, part) = (task / parts, task % parts);
        let (i, j) = (block / across, block % across);
        let first = tile_rows.start + i * tile_rows.len() / down;
        let piece = Piece {
            tile_rows: first..tile_rows.start + (i + 1) * tile_rows.len() / down,
            tile_cols: j * cut.tiles[1] / across..(j + 1) * cut.tiles[1] / across,
            panels: part * panels / parts..(part + 1) * panels / parts,
            rows: rows.clone(),
        };
        let task = Task {
            team,
            conv,
            cut: &cut,
            piece: &piece,
            keep,
        };
        task.run(&mut scratch);
    });
}

struct Task<'a> {
    team: &'a Team<'a>,
    conv: &'a Conv<'a>,
    cut: &'a Cut,
    piece: &'a Piece,
    keep: Keep,
}

/// A task's buffers.
struct Buffers {
    /// Copied rows.
    rows: *mut f32,
    /// One transformed tile, before it is rounded.
    tile: *mut f32,
    tiles: *mut i32,
    tile_scales: *mut f32,
    filters: *mut i32,
    filter_scales: *mut f32,
    sums: Points,
    /// One row of output tiles.
    pixels: *mut f32,
    pack: *mut f32,
}

impl Task<'_> {
    unsafe fn run(&self, scratch: &mut Carver<'_>) {
        let (g, w, keep) = (&self.conv.geometry, self.conv.weights, self.keep);
        let n_tiles = self.piece.n_tiles();
        let buffers = self.buffers(scratch);
        let per_frame = w.cin.div_ceil(SEG);
        let all = blocks(g, w);
        let channels = |block: usize| {
            let c0 = block % per_frame * SEG;
            Channels {
                dt: block / per_frame,
                c0,
                n: (w.cin - c0).min(SEG),
            }
        };
        let mut coefficients = Coefficients::new();
        for first in (0..all).step_by(keep.blocks) {
            for i in 0..keep.blocks {
                let channels = channels(first + i);
                let tiles = buffers.tiles.add(i * self.tiles_block());
                let scales = buffers.tile_scales.add(i * POINTS * n_tiles);
                let from = (buffers.rows, &mut coefficients);
                let (team, conv) = (self.team, self.conv);
                self.piece
                    .each_tile(team, conv, self.cut, channels, from, |tile, rows| {
                        let to = Tile {
                            at: tiles.add(tile * LDW),
                            point: self.tiles_point(),
                            scales: scales.add(tile),
                            scales_point: n_tiles,
                        };
                        transform_tile(rows, channels.n, buffers.tile, &to);
                    });
            }
            for (i, panel) in self.piece.panels.clone().enumerate() {
                let column = if keep.panels == 1 { 0 } else { i * PANEL };
                let sums = Points {
                    at: buffers.sums.at.add(column),
                    ..buffers.sums
                };
                for i in 0..keep.blocks {
                    let block = first + i;
                    self.multiply(panel, channels(block), i, block > 0, sums, &buffers);
                }
                if first + keep.blocks == all {
                    let (team, conv) = (self.team, self.conv);
                    let cols = w.cols(panel);
                    let pixels = buffers.pixels;
                    self.piece
                        .finish(team, conv, panel, sums, pixels, |src, dst, row| {
                            transform_sums(src, sums.point, cols, dst, row);
                        });
                }
            }
        }
    }

    fn tiles_point(&self) -> usize {
        self.piece.n_tiles() * LDW + SKEW
    }

    fn tiles_block(&self) -> usize {
        POINTS * self.tiles_point()
    }

    unsafe fn buffers(&self, scratch: &mut Carver<'_>) -> Buffers {
        let (w, keep, n_tiles) = (self.conv.weights, self.keep, self.piece.n_tiles());
        let n = w.cin.min(SEG);
        let ld = keep.panels * PANEL;
        Buffers {
            rows: scratch.floats(self.cut.row_floats()),
            tile: scratch.floats(POINTS * LDA),
            tiles: scratch.floats(keep.tile_floats(n_tiles)).cast(),
            tile_scales: scratch.floats(keep.scale_floats(n_tiles)),
            filters: scratch.floats(POINTS * FILTERS_POINT).cast(),
            filter_scales: scratch.floats(POINTS * PANEL),
            sums: Points {
                at: scratch.floats(keep.sum_floats(n_tiles)),
                point: n_tiles * ld + SKEW,
                ld,
            },
            pixels: scratch.floats(self.cut.pixel_floats()),
            pack: scratch.floats(w.pack_floats(w.taps * n)),
        }
    }

    /// Multiplies the tiles of the `kept`-th block of channels that is kept with a panel.
    #[allow(clippy::cast_ptr_alignment)] // panels of 16-bit weights begin at whole values
    unsafe fn multiply(
        &self,
        panel: usize,
        Channels { dt, c0, n }: Channels,
        kept: usize,
        accumulate: bool,
        sums: Points,
        buffers: &Buffers,
    ) {
        let w = self.conv.weights;
        let tap = n * PANEL;
        let first = dt * 9 * tap;
        let n_tiles = self.piece.n_tiles();
        let stored = w.stored_panel(panel, c0);
        let decoded = match (stored, w.dtype) {
            (Some(_), DType::F16 | DType::BF16) => std::ptr::null(),
            _ => w.panel(self.team.level, panel, c0, n, buffers.pack),
        };
        let to = Filters {
            at: buffers.filters,
            point: FILTERS_POINT,
            scales: buffers.filter_scales,
        };
        match (stored, w.dtype) {
            (Some(stored), DType::F16) => {
                transform_filters::<F16>(stored.cast::<u16>().add(first), n, &to);
            }
            (Some(stored), DType::BF16) => {
                transform_filters::<Bf16>(stored.cast::<u16>().add(first), n, &to);
            }
            _ => transform_filters::<F32>(decoded.add(first), n, &to),
        }
        for point in 0..POINTS {
            let tiles = kept * self.tiles_block() + point * self.tiles_point();
            let block = Int16Block {
                a: buffers.tiles.add(tiles),
                a_scales: buffers.tile_scales.add((kept * POINTS + point) * n_tiles),
                b: buffers.filters.add(point * FILTERS_POINT),
                b_scales: buffers.filter_scales.add(point * PANEL),
                slots: n.div_ceil(2),
                c: sums.at.add(point * sums.point),
                ldc: sums.ld,
                rows: n_tiles,
                cols: w.cols(panel),
                accumulate,
            };
            int16::block(&block);
        }
    }
}

/// Where a transformed tile goes: 36 rows of slots and their scales.
struct Tile {
    at: *mut i32,
    point: usize,
    scales: *mut f32,
    scales_point: usize,
}

/// Where transformed filters go: 36 panels of slots and their scales.
struct Filters {
    at: *mut i32,
    point: usize,
    scales: *mut f32,
}

#[cfg(target_arch = "x86_64")]
use avx512::{transform_filters, transform_sums, transform_tile};

/// Stand-ins where there is no int16 product; `int16::supported` keeps them from being called.
#[cfg(not(target_arch = "x86_64"))]
mod none {
    use super::super::transform::{IN, Stored};
    use super::{Filters, Tile};

    pub(super) unsafe fn transform_tile(_: &[*const f32; IN], _: usize, _: *mut f32, _: &Tile) {}
    pub(super) unsafe fn transform_filters<F: Stored>(_: *const F::Value, _: usize, _: &Filters) {}
    pub(super) unsafe fn transform_sums(_: *const f32, _: usize, _: usize, _: *mut f32, _: usize) {}
}
#[cfg(not(target_arch = "x86_64"))]
use none::{transform_filters, transform_sums, transform_tile};
