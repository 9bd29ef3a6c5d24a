//! 3×3 convolution with stride 1 by Winograd's F(4×4, 3×3), in blocks of tiles that stay in cache.
//!
//! A task takes a block of tiles and a range of output channels. For each block of input channels
//! it transforms the tiles, then, panel by panel, the filters (which are never stored transformed:
//! that would take four times their bytes) and adds 36 small products. Frames of the window are
//! summed before the output transform. Tiles are anchored at each frame's origin, so that a cut by
//! rows computes the same numbers.

use std::ops::Range;

use nino_dtype::DType;

use super::region::Frame;
use super::transform::{self, IN, OUT, POINTS};
use super::{Conv, Geometry};
use crate::gemm::epilogue::Sums;
use crate::gemm::micro::{self, Block, LDA, PANEL, SEG};
use crate::gemm::prologue::Coefficients;
use crate::gemm::slot::Slot;
use crate::gemm::weights::Packed;
use crate::split::{self, Way};
use crate::team::{Carver, Team, floats_bytes};

/// Most tiles of a block.
const TILES: usize = 64;
/// Most tiles of a block in one row.
const TILES_WIDE: usize = 8;
/// Most panels of a task when sums of several channel blocks are kept.
const TASK_PANELS: usize = 4;
/// The floats left free between the 36 parts of a buffer, so that they do not fall into the same
/// cache sets.
pub(super) const SKEW: usize = 16;

/// How a convolution is cut into blocks of tiles.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// Tile rows and columns of one frame.
    pub(super) tiles: [usize; 2],
    /// Tile rows and columns of one block.
    pub(super) block: [usize; 2],
}

/// The times of transforming a tile and the filters of a panel, where that of multiplying a tile
/// with a panel is 1.
const TRANSFORM_TILE: f64 = 0.25;
const TRANSFORM_FILTERS: f64 = 8.0;

/// How a step is cut into tasks: blocks of tiles down and across, and ranges of panels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tasks {
    down: usize,
    across: usize,
    panels: usize,
}

impl Cut {
    pub(super) fn new(g: &Geometry, n_tiles: usize) -> Cut {
        let tiles = [g.output[1].div_ceil(OUT), g.output[2].div_ceil(OUT)];
        let wide = tiles[1].div_ceil(tiles[1].div_ceil(TILES_WIDE));
        Cut {
            tiles,
            block: [n_tiles / wide, wide],
        }
    }

    /// Cuts `tile_rows` rows of tiles and `panels` panels. Blocks may be smaller than whole ones.
    fn tasks(&self, tile_rows: usize, panels: usize, threads: usize) -> Tasks {
        let across = self.across();
        let whole = Tasks {
            down: tile_rows.div_ceil(self.block[0]),
            across,
            panels: panels.div_ceil(TASK_PANELS),
        };
        let rows = (1..=4).map(|quarters| (self.block[0] * quarters / 4).max(1));
        let ways = rows.rev().flat_map(|rows| {
            (1..=TASK_PANELS).rev().map(move |each| {
                let cut = Tasks {
                    down: tile_rows.div_ceil(rows),
                    across,
                    panels: panels.div_ceil(each),
                };
                let n_tiles = tile_rows.div_ceil(cut.down) * self.tiles[1].div_ceil(across);
                let (n_tiles, each) = (n_tiles as f64, panels.div_ceil(cut.panels) as f64);
                Way {
                    cut,
                    tasks: cut.down * across * cut.panels,
                    task: n_tiles * TRANSFORM_TILE + each * (n_tiles + TRANSFORM_FILTERS),
                }
            })
        });
        split::fastest(ways, threads).unwrap_or(whole)
    }

    fn n_tiles(&self) -> usize {
        self.block[0] * self.block[1]
    }

    /// The tile rows, counted over all frames, that output rows depend on.
    pub(super) fn tile_rows(&self, g: &Geometry, rows: &Range<usize>) -> Range<usize> {
        let h_out = g.output[1];
        let tile_row = |row: usize| row / h_out * self.tiles[0] + row % h_out / OUT;
        tile_row(rows.start)..tile_row(rows.end - 1) + 1
    }

    /// The blocks of a row of tiles.
    pub(super) fn across(&self) -> usize {
        self.tiles[1].div_ceil(self.block[1])
    }

    /// The floats of a block's copied rows.
    pub(super) fn row_floats(&self) -> usize {
        IN * self.row_pixels() * LDA
    }

    /// The floats of one row of a block's output tiles.
    pub(super) fn pixel_floats(&self) -> usize {
        OUT * self.block[1] * OUT * PANEL
    }

    /// Pixels of one copied row.
    fn row_pixels(&self) -> usize {
        self.block[1] * OUT + IN - OUT
    }
}

pub(crate) fn scratch_bytes(g: &Geometry, w: &Packed) -> usize {
    let cut = Cut::new(g, TILES);
    let n = w.cin.min(SEG);
    floats_bytes(cut.row_floats())
        + floats_bytes(POINTS * (cut.n_tiles() * LDA + SKEW))
        + floats_bytes(POINTS * (n * PANEL + SKEW))
        + floats_bytes(POINTS * (cut.n_tiles() * TASK_PANELS * PANEL + SKEW))
        + floats_bytes(cut.pixel_floats())
        + floats_bytes(w.pack_floats(w.taps * n))
}

pub(crate) unsafe fn run(team: &Team<'_>, conv: &Conv<'_>, rows: Range<usize>) {
    let (g, w) = (&conv.geometry, conv.weights);
    let cut = Cut::new(g, TILES);
    let tile_rows = cut.tile_rows(g, &rows);
    let panels = w.panels();
    let Tasks {
        down,
        across,
        panels: panel_tiles,
    } = cut.tasks(tile_rows.len(), panels, team.threads());
    let work = rows.len() * g.output[2] * w.n * w.taps * w.cin / 64;
    team.run(down * across * panel_tiles, work, |task, mut scratch| {
        let (block, part) = (task / panel_tiles, task % panel_tiles);
        let (i, j) = (block / across, block % across);
        let first = tile_rows.start + i * tile_rows.len() / down;
        let piece = Piece {
            tile_rows: first..tile_rows.start + (i + 1) * tile_rows.len() / down,
            tile_cols: j * cut.tiles[1] / across..(j + 1) * cut.tiles[1] / across,
            panels: part * panels / panel_tiles..(part + 1) * panels / panel_tiles,
            rows: rows.clone(),
        };
        piece.run(team, conv, &cut, &mut scratch);
    });
}

/// The part of the output that one task computes.
pub(super) struct Piece {
    /// The tile rows, counted over all frames.
    pub(super) tile_rows: Range<usize>,
    pub(super) tile_cols: Range<usize>,
    pub(super) panels: Range<usize>,
    /// The output rows to store; tiles may reach beyond them.
    pub(super) rows: Range<usize>,
}

/// A task's buffers: copied rows, transformed tiles and filters, sums, and one row of output tiles.
struct Buffers {
    rows: *mut f32,
    tiles: *mut f32,
    tiles_point: usize,
    filters: *mut f32,
    sums: Points,
    pixels: *mut f32,
    pack: *mut f32,
}

/// The 36 sums of each tile of a piece, `point` floats apart, with tiles `ld` apart.
#[derive(Clone, Copy)]
pub(super) struct Points {
    pub(super) at: *mut f32,
    pub(super) point: usize,
    pub(super) ld: usize,
}

/// What is transformed at a time: a frame of the window and a block of channels.
#[derive(Clone, Copy)]
pub(super) struct Channels {
    pub(super) dt: usize,
    pub(super) c0: usize,
    pub(super) n: usize,
}

impl Piece {
    pub(super) fn n_tiles(&self) -> usize {
        self.tile_rows.len() * self.tile_cols.len()
    }

    unsafe fn run(&self, team: &Team<'_>, conv: &Conv<'_>, cut: &Cut, scratch: &mut Carver<'_>) {
        let w = conv.weights;
        let kt = conv.geometry.window[0];
        let n_max = w.cin.min(SEG);
        let one_pass = kt == 1 && w.cin <= SEG;
        let ldc = if one_pass {
            PANEL
        } else {
            self.panels.len() * PANEL
        };
        let tiles_point = self.n_tiles() * LDA + SKEW;
        let buffers = Buffers {
            rows: scratch.floats(cut.row_floats()),
            tiles: scratch.floats(POINTS * tiles_point),
            tiles_point,
            filters: scratch.floats(POINTS * (n_max * PANEL + SKEW)),
            sums: {
                let point = self.n_tiles() * ldc + SKEW;
                let at = scratch.floats(POINTS * point);
                Points { at, point, ld: ldc }
            },
            pixels: scratch.floats(cut.pixel_floats()),
            pack: scratch.floats(w.pack_floats(w.taps * n_max)),
        };
        let mut coefficients = Coefficients::new();
        for dt in 0..kt {
            for c0 in (0..w.cin).step_by(SEG) {
                let n = (w.cin - c0).min(SEG);
                let channels = Channels { dt, c0, n };
                let rows = (buffers.rows, &mut coefficients);
                self.each_tile(team, conv, cut, channels, rows, |tile, rows| {
                    let dst = buffers.tiles.add(tile * LDA);
                    transform::input(team.level, rows, LDA, n, dst, buffers.tiles_point);
                });
                for (i, panel) in self.panels.clone().enumerate() {
                    let column = if one_pass { 0 } else { i * PANEL };
                    self.multiply(team, conv, panel, channels, column, &buffers);
                    if dt + 1 == kt && c0 + n == w.cin {
                        let sums = Points {
                            at: buffers.sums.at.add(column),
                            ..buffers.sums
                        };
                        let cols = w.cols(panel);
                        self.finish(team, conv, panel, sums, buffers.pixels, |src, dst, row| {
                            transform::output(team.level, src, sums.point, cols, dst, row);
                        });
                    }
                }
            }
        }
    }

    /// Calls `transform` with every tile and its six rows of pixels, [`LDA`] floats apart, which
    /// are copied to `copied`.
    pub(super) unsafe fn each_tile(
        &self,
        team: &Team<'_>,
        conv: &Conv<'_>,
        cut: &Cut,
        Channels { dt, c0, n }: Channels,
        (copied, coefficients): (*mut f32, &mut Coefficients),
        mut transform: impl FnMut(usize, &[*const f32; IN]),
    ) {
        let g = &conv.geometry;
        let (t_in, t_out) = (g.input[0], g.output[0]);
        let row_floats = cut.row_pixels() * LDA;
        let x = (self.tile_cols.start * OUT) as isize - g.pad_left as isize;
        let width = self.tile_cols.len() * OUT + IN - OUT;
        let mut batch = usize::MAX;
        for (i, tile_row) in self.tile_rows.clone().enumerate() {
            let (frame, y) = (tile_row / cut.tiles[0], tile_row % cut.tiles[0] * OUT);
            let (b, t) = (frame / t_out, frame % t_out);
            if let Some(pre) = &conv.source.pre
                && b != batch
            {
                coefficients.set(pre, b, c0, n);
                batch = b;
            }
            let from = Frame {
                geometry: g,
                source: &conv.source,
                readable: &conv.readable,
                coefficients,
                level: team.level,
                slot: Slot::F32,
                index: b * t_in + t + dt,
                c0,
                n,
                cin: conv.weights.cin,
            };
            // Rows are kept in a ring, because the next tile row shares two of its six.
            let known = if i > 0 && y > 0 { IN - OUT } else { 0 };
            let slot = |r: usize| copied.add((y + r) % IN * row_floats);
            for r in known..IN {
                from.row(
                    ((y + r) as isize - g.pad_top as isize, x),
                    width,
                    (1, 0),
                    slot(r),
                );
            }
            for j in 0..self.tile_cols.len() {
                let rows: [*const f32; IN] =
                    std::array::from_fn(|r| slot(r).add(j * OUT * LDA).cast_const());
                transform(i * self.tile_cols.len() + j, &rows);
            }
        }
    }

    #[allow(clippy::cast_ptr_alignment)] // panels of 16-bit weights begin at whole values
    unsafe fn multiply(
        &self,
        team: &Team<'_>,
        conv: &Conv<'_>,
        panel: usize,
        Channels { dt, c0, n }: Channels,
        column: usize,
        buffers: &Buffers,
    ) {
        let (w, level) = (conv.weights, team.level);
        let tap = n * PANEL;
        let point = tap + SKEW;
        let (first, to) = (dt * 9 * tap, buffers.filters);
        match (w.stored_panel(panel, c0), w.dtype) {
            (Some(stored), DType::F16) => {
                let stored = stored.add(2 * first);
                transform::filter_from_f16(level, stored.cast(), tap, n, to, point);
            }
            (Some(stored), DType::BF16) => {
                let stored = stored.add(2 * first);
                transform::filter_from_bf16(level, stored.cast(), tap, n, to, point);
            }
            _ => {
                let decoded = w.panel(level, panel, c0, n, buffers.pack).add(first);
                transform::filter(level, decoded, tap, n, to, point);
            }
        }
        for p in 0..POINTS {
            let block = Block {
                slot: Slot::F32,
                a: buffers.tiles.add(p * buffers.tiles_point),
                segments: &[0],
                segment_len: n,
                k: n,
                b: buffers.filters.add(p * point),
                c: buffers.sums.at.add(p * buffers.sums.point + column),
                ldc: buffers.sums.ld,
                rows: self.n_tiles(),
                cols: w.cols(panel),
                accumulate: dt > 0 || c0 > 0,
            };
            micro::block(level, &block);
        }
    }

    /// Stores the output of a panel. `transform` makes pixels, in rows that are its third argument
    /// apart, at the second of the sums at the first; `pixels` has room for a row of tiles.
    pub(super) unsafe fn finish(
        &self,
        team: &Team<'_>,
        conv: &Conv<'_>,
        panel: usize,
        from: Points,
        pixels: *mut f32,
        transform: impl Fn(*const f32, *mut f32, usize),
    ) {
        let (g, w) = (&conv.geometry, conv.weights);
        let [_, h_out, w_out] = g.output;
        let tiles_h = h_out.div_ceil(OUT);
        let cols = w.cols(panel);
        let row = self.tile_cols.len() * OUT * PANEL;
        let x = self.tile_cols.start * OUT;
        for (i, tile_row) in self.tile_rows.clone().enumerate() {
            for j in 0..self.tile_cols.len() {
                let tile = i * self.tile_cols.len() + j;
                let src = from.at.add(tile * from.ld);
                let dst = pixels.add(j * OUT * PANEL);
                transform(src, dst, row);
            }
            let (frame, y0) = (tile_row / tiles_h, tile_row % tiles_h * OUT);
            for r in 0..OUT.min(h_out - y0) {
                let out_row = frame * h_out + y0 + r;
                if !self.rows.contains(&out_row) {
                    continue;
                }
                let sums = Sums {
                    c: pixels.add(r * row),
                    ldc: PANEL,
                    rows: (self.tile_cols.len() * OUT).min(w_out - x),
                    cols,
                    at: (out_row * w_out + x) * w.n + panel * PANEL,
                    col: panel * PANEL,
                };
                conv.epilogue.apply(team.level, sums);
            }
        }
    }
}
