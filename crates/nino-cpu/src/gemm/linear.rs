//! Linear layers `x [rows, k] · wᵀ` with weights in any encoding, and products of activations.

use std::ops::Range;

use nino_dtype::DType;
use nino_graph::Graph;

use super::activations::Activations;
use super::epilogue::{Epilogue, Sums};
use super::grid::{Grid, PASS, TILE_PANELS, TILE_ROWS, Tile, Work};
use super::int8;
use super::micro::{self, Block, LDA, PANEL, SEG};
use super::pairs;
use super::prologue::{Coefficients, Source};
use super::rates;
use super::slot::Slot;
use super::weights::{Packed, PackedLayout};
use crate::simd::Level;
use crate::team::{Carver, Team, floats_bytes};

/// How many rows ahead of packing are prefetched. Each row starts in another page, where the CPU's
/// own prefetchers do not look.
const AHEAD: usize = 3;

const SEGMENTS: usize = PASS / SEG;

/// Rows of a piece of a tile: whole register tiles, of 6 rows and of 14.
const PIECE: usize = 42;

pub(crate) struct Linear<'a> {
    pub source: Source,
    pub b: Factor<'a>,
    pub epilogue: Epilogue,
    /// Rows that share one entry of grouped statistics.
    pub rows_per_batch: usize,
}

/// Whether a layer's gate is computed with it: both halves of its weight are whole panels, and
/// nothing else is to be done with the sums.
pub(crate) fn takes_gate(g: &Graph, o: &nino_graph::Linear) -> bool {
    let nino_graph::Epilogue { scale, bias, .. } = o.epi;
    let alone = nino_graph::Epilogue {
        scale,
        bias,
        ..nino_graph::Epilogue::default()
    };
    o.epi == alone && o.rows.is_none() && o.columns(g).is_multiple_of(2 * PANEL)
}

/// The right-hand side of a product.
#[derive(Clone, Copy)]
pub(crate) enum Factor<'a> {
    Weights(&'a Packed),
    Activations(Activations),
}

impl Factor<'_> {
    fn k(&self) -> usize {
        match self {
            Factor::Weights(w) => w.cin,
            Factor::Activations(b) => b.k,
        }
    }

    fn n(&self) -> usize {
        match self {
            Factor::Weights(w) => w.n,
            Factor::Activations(b) => b.n,
        }
    }

    fn cols(&self, panel: usize) -> usize {
        (self.n() - panel * PANEL).min(PANEL)
    }

    /// Gives the floats of scratch that a pack of a pass over `PASS` slots needs.
    fn pack_floats(&self, slot: Slot) -> usize {
        let k = PASS * slot.values();
        match (self, slot) {
            (Factor::Weights(w), Slot::F32) => w.pack_floats(k),
            (Factor::Weights(w), Slot::Pair) => w.pair_floats(k),
            (Factor::Activations(b), Slot::F32) => b.pack_floats(k),
            (Factor::Activations(b), Slot::Pair) => b.pair_floats(k),
        }
    }

    /// Gives weights that are multiplied as int8, where that is faster than what the slots are.
    fn int8(&self, level: Level, slot: Slot) -> Option<&Packed> {
        let faster = slot == Slot::F32 || rates::of(level).int8_beats_pairs();
        match self {
            Factor::Weights(w) if faster && int8::takes(level, w) => Some(w),
            _ => None,
        }
    }

    /// Gives what decides how the product with activations is cut, where `panels` of it make one of
    /// the output; `pre` says that activations are normalized. Times were estimated from the
    /// instructions of 16 values of k.
    pub(crate) fn work(&self, level: Level, slot: Slot, pre: bool, panels: usize) -> Work {
        let int8 = self.int8(level, slot).is_some();
        let tiles = slot == Slot::Pair && pairs::by_tiles();
        // Cycles of a product of a row and a panel, and of packing the row and the panel.
        let (product, row) = match slot {
            _ if int8 => (8.0, if pre { 16.0 } else { 10.0 }),
            Slot::Pair if tiles => (1.0, if pre { 6.0 } else { 2.0 }),
            Slot::Pair => (16.0, if pre { 6.0 } else { 2.0 }),
            Slot::F32 => (32.0, if pre { 6.0 } else { 2.0 }),
        };
        let panel = match self {
            Factor::Weights(w) if int8 && w.layout == PackedLayout::Int8 => 10.0,
            _ if int8 => 100.0,
            Factor::Activations(_) => 40.0,
            Factor::Weights(w) => match w.layout {
                PackedLayout::Pairs if slot == Slot::Pair => 20.0,
                PackedLayout::Panels if w.dtype == DType::F32 && slot == Slot::F32 => 20.0,
                PackedLayout::Panels | PackedLayout::Pairs => 50.0,
                PackedLayout::Int8 | PackedLayout::Q8Panels => 100.0,
                PackedLayout::Rows => 400.0,
            },
        };
        let pass = if int8 { PASS } else { PASS * slot.values() };
        Work {
            one_pass: self.k() <= pass,
            pack_row: row / product,
            pack_panel: panel / product,
            unit: if tiles { 32 } else { 1 },
            panels,
        }
    }

    /// Gives the columns of `panel` as slots `[k][PANEL]`, for values `k0..k0 + n`.
    unsafe fn panel(
        &self,
        slot: Slot,
        level: Level,
        panel: usize,
        (k0, n): (usize, usize),
        pack: *mut f32,
    ) -> *const f32 {
        let room = pack.wrapping_add(slot.slots(n) * PANEL);
        match (self, slot) {
            (Factor::Weights(w), Slot::F32) => w.panel(level, panel, k0, n, pack),
            (Factor::Weights(w), Slot::Pair) => w.pair_panel(level, panel, k0, n, pack),
            (Factor::Activations(b), Slot::F32) => b.panel(level, panel, k0, n, pack, room),
            (Factor::Activations(b), Slot::Pair) => b.pair_panel(level, panel, k0, n, pack, room),
        }
    }
}

/// Gives the bytes of scratch that each thread needs.
pub(crate) fn scratch_bytes(level: Level, slot: Slot, b: &Factor<'_>) -> usize {
    if let Some(w) = b.int8(level, slot) {
        return int8::scratch_bytes(w);
    }
    let sums = floats_bytes(TILE_ROWS * TILE_PANELS * PANEL);
    sums + floats_bytes(SEGMENTS * TILE_ROWS * LDA) + floats_bytes(b.pack_floats(slot))
}

/// Computes rows `rows` of the output.
pub(crate) unsafe fn run(team: &Team<'_>, l: &Linear<'_>, rows: Range<usize>) {
    let (k, n) = (l.b.k(), l.b.n());
    let slot = Slot::of(team.level, l.source.x.dtype);
    let int8 = l.b.int8(team.level, slot);
    let panels = l.epilogue.panels();
    let pre = l.source.pre.is_some();
    let work = l.b.work(team.level, slot, pre, panels);
    let grid = Grid::new(rows.len(), n / panels, &work, team.threads());
    team.run(
        grid.tasks(),
        rows.len() * n * k / 16,
        |task, mut scratch| {
            let mut tile = grid.tile(task);
            tile.row += rows.start;
            match int8 {
                Some(w) => int8::tile(team.level, l, w, tile, &mut scratch),
                None => slot_tile(team.level, l, tile, &mut scratch),
            }
        },
    );
}

/// Computes one tile of a product of activations; for callers that make tasks of their own.
pub(crate) unsafe fn tile(level: Level, l: &Linear<'_>, tile: Tile, scratch: &mut Carver<'_>) {
    slot_tile(level, l, tile, scratch);
}

unsafe fn slot_tile(level: Level, l: &Linear<'_>, tile: Tile, scratch: &mut Carver<'_>) {
    let w = &l.b;
    let k = w.k();
    let slot = Slot::of(level, l.source.x.dtype);
    // Values of k in a pass and in a segment.
    let (pass, seg) = (PASS * slot.values(), SEG * slot.values());
    let a = scratch.floats(SEGMENTS * tile.rows * LDA);
    let pack = scratch.floats(w.pack_floats(slot));
    // With one pass over k, sums are finished panel by panel. With several, the whole tile's are
    // kept.
    let ldc = l.sums_width(tile, k <= pass);
    let c = scratch.floats(tile.rows * ldc);
    let segments: [usize; SEGMENTS] = std::array::from_fn(|i| i * tile.rows * LDA);
    let mut coefficients = Coefficients::new();
    for k0 in (0..k).step_by(pass) {
        let len = (k - k0).min(pass);
        let n_segments = len.div_ceil(seg);
        each_row(
            l,
            tile,
            k0,
            len,
            &mut coefficients,
            |i, row, coefficients| {
                for (s, at) in segments[..n_segments].iter().enumerate() {
                    let n = (len - s * seg).min(seg);
                    let from = (row * k + k0 + s * seg, row, s * seg);
                    let dst = a.add(at + i * LDA);
                    l.source.pack(slot, level, coefficients, from, n, dst);
                }
            },
        );
        for i in 0..l.parts(tile) {
            let part = l.part(tile, i);
            let c = c.add(part.column(k <= pass));
            let block = Block {
                slot,
                a,
                segments: &segments[..n_segments],
                segment_len: SEG,
                k: slot.slots(len),
                b: w.panel(slot, level, part.panel, (k0, len), pack),
                c,
                ldc,
                rows: tile.rows,
                cols: w.cols(part.panel),
                accumulate: k0 > 0,
            };
            if k <= pass {
                in_pieces(l, tile, part.finishes, |row, rows| {
                    let piece = Block {
                        a: block.a.add(row * LDA),
                        c: block.c.add(row * ldc),
                        rows,
                        ..block
                    };
                    micro::block(level, &piece);
                });
            } else {
                // Outputs are few beside the products.
                micro::block(level, &block);
            }
            if let (Some(output), true) = (part.finishes, k0 + len == k) {
                finish(level, l, tile, output, block.c.sub(part.place * PANEL), ldc);
            }
        }
    }
}

/// A panel of B as part of a tile.
#[derive(Clone, Copy)]
pub(super) struct Part {
    /// Its number in the tile.
    index: usize,
    pub panel: usize,
    /// Its place among the panels of B that make one of the output.
    pub place: usize,
    /// The panel of the output that has all of its sums with this one.
    pub finishes: Option<usize>,
}

impl Part {
    /// Gives the column of the first sum in scratch, as [`Linear::sums_width`] counts them.
    pub(super) fn column(&self, one_at_a_time: bool) -> usize {
        PANEL
            * if one_at_a_time {
                self.place
            } else {
                self.index
            }
    }
}

impl Linear<'_> {
    /// Gives the columns of the output.
    fn columns(&self) -> usize {
        self.b.n() / self.epilogue.panels()
    }

    /// Gives the number of B's panels in a tile.
    pub(super) fn parts(&self, tile: Tile) -> usize {
        tile.panels * self.epilogue.panels()
    }

    /// Gives the columns of sums in scratch: those of the panels that make one of the output, or
    /// all of a tile's.
    pub(super) fn sums_width(&self, tile: Tile, one_at_a_time: bool) -> usize {
        PANEL
            * if one_at_a_time {
                self.epilogue.panels()
            } else {
                self.parts(tile)
            }
    }

    /// Gives the panel of B with number `index` in a tile. Those that make one of the output follow
    /// each other.
    pub(super) fn part(&self, tile: Tile, index: usize) -> Part {
        let each = self.epilogue.panels();
        let (output, place) = (tile.panel + index / each, index % each);
        let apart = self.epilogue.gate.map_or(0, |gate| gate.half / PANEL);
        Part {
            index,
            panel: output + place * apart,
            place,
            finishes: (place + 1 == each).then_some(output),
        }
    }
}

/// Calls `read(index in tile, row, coefficients)` with the coefficients of the row's batch element.
pub(super) unsafe fn each_row(
    l: &Linear<'_>,
    tile: Tile,
    k0: usize,
    len: usize,
    coefficients: &mut Coefficients,
    mut read: impl FnMut(usize, usize, &Coefficients),
) {
    let mut batch = usize::MAX;
    for i in 0..tile.rows {
        let row = tile.row + i;
        if let Some(pre) = &l.source.pre {
            let b = row / l.rows_per_batch;
            if b != batch {
                coefficients.set(pre, b, k0, len);
                batch = b;
            }
        }
        if i + AHEAD < tile.rows {
            l.source.x.prefetch((row + AHEAD) * l.b.k() + k0, len);
        }
        read(i, row, coefficients);
    }
}

/// Calls `multiply(first row, rows)` for pieces of a tile. Where a panel of the output is finished
/// afterwards, each piece's share of it and of the residual is prefetched meanwhile: one or two
/// cache lines of each row, mostly in another page, where the CPU's own prefetchers do not look.
pub(super) unsafe fn in_pieces(
    l: &Linear<'_>,
    tile: Tile,
    finished: Option<usize>,
    mut multiply: impl FnMut(usize, usize),
) {
    // Matrix tiles have other heights, and are soon done.
    let pieces = if pairs::by_tiles() {
        1
    } else {
        (tile.rows / PIECE).max(1)
    };
    for i in 0..pieces {
        let row = i * PIECE;
        let last_piece = i + 1 == pieces;
        let end = if last_piece { tile.rows } else { row + PIECE };
        if let Some(panel) = finished {
            for row in row..end {
                let at = tile.row * l.columns() + row * l.epilogue.ld + panel * PANEL;
                l.epilogue.prefetch(at, l.b.cols(panel));
            }
        }
        multiply(row, end - row);
    }
}

/// Finishes a panel of the output, whose sums begin at `c`.
pub(super) unsafe fn finish(
    level: Level,
    l: &Linear<'_>,
    tile: Tile,
    panel: usize,
    c: *mut f32,
    ldc: usize,
) {
    let col = panel * PANEL;
    let sums = Sums {
        c,
        ldc,
        rows: tile.rows,
        cols: l.b.cols(panel),
        at: tile.row * l.columns() + col,
        col,
    };
    l.epilogue.apply(level, sums);
}
