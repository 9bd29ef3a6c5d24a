//! Convolution as an implicit matrix product: the filter's taps are segments of A, all in one
//! copied region of the input.

use std::ops::Range;

use super::region::Frame;
use super::{Conv, Geometry};
use crate::gemm::epilogue::Sums;
use crate::gemm::grid::TILE_PANELS;
use crate::gemm::micro::{self, Block, LDA, PANEL, SEG};
use crate::gemm::pairs;
use crate::gemm::prologue::Coefficients;
use crate::gemm::slot::Slot;
use crate::gemm::weights::Packed;
use crate::split::{self, PIECES, Way};
use crate::team::{Carver, Team, floats_bytes};

/// Most pixels of a tile, and what is tried besides.
const TILE_PIXELS: usize = 256;
const FEWER_PIXELS: [usize; 2] = [128, 64];
const TILE_WIDTH: usize = 32;
const MAX_TAPS: usize = 512;

/// Output pixels of one task, and the input they need.
#[derive(Clone, Copy, Debug)]
struct Cut {
    h: usize,
    w: usize,
    region_h: usize,
    /// The columns that have the same remainder by the stride.
    group: usize,
    region_w: usize,
}

/// The time of copying a pixel to the region, where that of multiplying one with a panel is 1.
/// Pixels are multiplied the faster, the more a norm in front of them counts.
fn copy_time(slot: Slot, conv: &Conv<'_>) -> f64 {
    let [_, kh, kw] = conv.geometry.window;
    let product = match slot {
        Slot::F32 => 128.0,
        Slot::Pair if pairs::by_tiles() => 15.0,
        Slot::Pair => 64.0,
    } * (kh * kw) as f64
        / 9.0;
    let copy = if conv.source.pre.is_some() { 12.0 } else { 2.0 };
    copy / product
}

impl Cut {
    fn new(g: &Geometry, pixels: usize) -> Cut {
        let [_, h_out, w_out] = g.output;
        let parts = w_out.div_ceil(TILE_WIDTH);
        let w = w_out.div_ceil(parts);
        let h = (pixels / w).clamp(1, h_out);
        let reach = |n: usize, stride: usize, k: usize, dilation: usize| {
            (n - 1) * stride + (k - 1) * dilation + 1
        };
        let region_w = reach(w, g.stride[2], g.window[2], g.dilation[1]);
        Cut {
            h,
            w,
            region_h: reach(h, g.stride[1], g.window[1], g.dilation[0]),
            group: region_w.div_ceil(g.stride[2]),
            region_w,
        }
    }

    /// Gives the pixels of one row of the region, for all remainders together.
    fn row(&self, g: &Geometry) -> usize {
        self.group * g.stride[2]
    }

    /// Gives the offsets of the taps from an output pixel's first tap, in slots.
    fn segments<'a>(&self, g: &Geometry, taps: &'a mut [usize; MAX_TAPS]) -> &'a [usize] {
        let [kt, kh, kw] = g.window;
        let mut n = 0;
        for dt in 0..kt {
            for dy in 0..kh {
                for dx in 0..kw {
                    let column = dx * g.dilation[1];
                    let column = column % g.stride[2] * self.group + column / g.stride[2];
                    let row = dt * self.region_h + dy * g.dilation[0];
                    taps[n] = (row * self.row(g) + column) * LDA;
                    n += 1;
                }
            }
        }
        &taps[..n]
    }

    fn region_floats(&self, g: &Geometry) -> usize {
        g.window[0] * self.region_h * self.row(g) * LDA
    }
}

/// Gives the floats of scratch that the pack of a panel needs.
fn pack_floats(slot: Slot, w: &Packed) -> usize {
    match slot {
        Slot::F32 => w.pack_floats(w.taps * w.cin.min(SEG)),
        Slot::Pair => w.pair_floats(w.cin.min(SEG)),
    }
}

pub(crate) fn scratch_bytes(slot: Slot, g: &Geometry, w: &Packed) -> usize {
    let cut = Cut::new(g, TILE_PIXELS);
    floats_bytes(cut.region_floats(g))
        + floats_bytes(pack_floats(slot, w))
        + floats_bytes(cut.h * cut.w * TILE_PANELS * PANEL)
}

/// Whether the filter has few enough taps for the segment list.
pub(crate) fn supported(g: &Geometry) -> bool {
    g.window.iter().product::<usize>() <= MAX_TAPS
}

pub(crate) unsafe fn run(team: &Team<'_>, slot: Slot, conv: &Conv<'_>, rows: Range<usize>) {
    let (g, w) = (&conv.geometry, conv.weights);
    let [_, h_out, w_out] = g.output;
    let frames = rows.start / h_out..rows.end.div_ceil(h_out);
    let panels = w.panels();
    let whole = Cut::new(g, TILE_PIXELS);
    let cuts = std::iter::once(whole).chain(FEWER_PIXELS.map(|n| Cut::new(g, n)));
    let copy = copy_time(slot, conv);
    let ways = cuts.flat_map(|cut| {
        let tiles = frames.len() * h_out.div_ceil(cut.h) * w_out.div_ceil(cut.w);
        let copied = (g.window[0] * cut.region_h * cut.region_w) as f64 * copy;
        let pieces = PIECES.into_iter().filter(|&n| n <= TILE_PANELS);
        pieces.map(move |n| {
            let parts = panels.div_ceil(n);
            let multiplied = (cut.h * cut.w * panels.div_ceil(parts)) as f64;
            Way {
                cut: (cut, parts),
                tasks: tiles * parts,
                task: copied + multiplied,
            }
        })
    });
    let (cut, panel_tiles) = split::fastest(ways, team.threads())
        .unwrap_or_else(|| (whole, panels.div_ceil(TILE_PANELS)));
    let (y_tiles, x_tiles) = (h_out.div_ceil(cut.h), w_out.div_ceil(cut.w));
    let pixel_tiles = frames.len() * y_tiles * x_tiles;
    let work = rows.len() * w_out * w.n * w.taps * w.cin / 16;
    team.run(pixel_tiles * panel_tiles, work, |task, mut scratch| {
        let (tile, part) = (task / panel_tiles, task % panel_tiles);
        let (frame, tile) = (
            frames.start + tile / (y_tiles * x_tiles),
            tile % (y_tiles * x_tiles),
        );
        let (y, x) = (tile / x_tiles * cut.h, tile % x_tiles * cut.w);
        let first = (frame * h_out + y).max(rows.start);
        let last = (frame * h_out + (y + cut.h).min(h_out)).min(rows.end);
        if first >= last {
            return;
        }
        let piece = Piece {
            slot,
            frame,
            y: first - frame * h_out,
            h: last - first,
            x,
            w: cut.w.min(w_out - x),
            panels: part * panels / panel_tiles..(part + 1) * panels / panel_tiles,
        };
        piece.run(team, conv, &cut, &mut scratch);
    });
}

/// The part of the output that one task computes.
struct Piece {
    slot: Slot,
    frame: usize,
    y: usize,
    h: usize,
    x: usize,
    w: usize,
    panels: Range<usize>,
}

impl Piece {
    unsafe fn run(&self, team: &Team<'_>, conv: &Conv<'_>, cut: &Cut, scratch: &mut Carver<'_>) {
        let (g, w, level) = (&conv.geometry, conv.weights, team.level);
        let region = scratch.floats(cut.region_floats(g));
        let slot = self.slot;
        let pack = scratch.floats(pack_floats(slot, w));
        let one_pass = w.cin <= SEG;
        let ldc = if one_pass {
            PANEL
        } else {
            self.panels.len() * PANEL
        };
        let c = scratch.floats(self.h * self.w * ldc);
        let mut taps = [0; MAX_TAPS];
        let segments = cut.segments(g, &mut taps);
        let mut coefficients = Coefficients::new();
        for c0 in (0..w.cin).step_by(SEG) {
            let n = (w.cin - c0).min(SEG);
            self.fill(team, conv, cut, (c0, n), &mut coefficients, region);
            for (i, panel) in self.panels.clone().enumerate() {
                let b = match slot {
                    Slot::F32 => w.panel(level, panel, c0, n, pack),
                    Slot::Pair => w.pair_panel(level, panel, c0, n, pack),
                };
                let c = if one_pass { c } else { c.add(i * PANEL) };
                for y in 0..self.h {
                    let block = Block {
                        slot,
                        a: region.add(y * g.stride[1] * cut.row(g) * LDA),
                        segments,
                        segment_len: slot.slots(n),
                        k: slot.slots(n) * segments.len(),
                        b,
                        c: c.add(y * self.w * ldc),
                        ldc,
                        rows: self.w,
                        cols: w.cols(panel),
                        accumulate: c0 > 0,
                    };
                    micro::block(level, &block);
                    if c0 + n == w.cin {
                        self.finish(team, conv, y, panel, block.c, ldc);
                    }
                }
            }
        }
    }

    unsafe fn fill(
        &self,
        team: &Team<'_>,
        conv: &Conv<'_>,
        cut: &Cut,
        (c0, n): (usize, usize),
        coefficients: &mut Coefficients,
        region: *mut f32,
    ) {
        let (g, cin) = (&conv.geometry, conv.weights.cin);
        let (t_in, t_out) = (g.input[0], g.output[0]);
        let (b, t) = (self.frame / t_out, self.frame % t_out);
        if let Some(pre) = &conv.source.pre {
            coefficients.set(pre, b, c0, n);
        }
        for dt in 0..g.window[0] {
            let from = Frame {
                geometry: g,
                source: &conv.source,
                readable: &conv.readable,
                coefficients,
                level: team.level,
                slot: self.slot,
                index: b * t_in + t * g.stride[0] + dt,
                c0,
                n,
                cin,
            };
            let x = (self.x * g.stride[2]) as isize - g.pad_left as isize;
            for r in 0..=(self.h - 1) * g.stride[1] + (g.window[1] - 1) * g.dilation[0] {
                let y = (self.y * g.stride[1] + r) as isize - g.pad_top as isize;
                let dst = region.add((dt * cut.region_h + r) * cut.row(g) * LDA);
                from.row((y, x), cut.region_w, (g.stride[2], cut.group), dst);
            }
        }
    }

    unsafe fn finish(
        &self,
        team: &Team<'_>,
        conv: &Conv<'_>,
        y: usize,
        panel: usize,
        c: *mut f32,
        ldc: usize,
    ) {
        let [_, h_out, w_out] = conv.geometry.output;
        let col = panel * PANEL;
        let pixel = (self.frame * h_out + self.y + y) * w_out + self.x;
        let sums = Sums {
            c,
            ldc,
            rows: self.w,
            cols: conv.weights.cols(panel),
            at: pixel * conv.weights.n + col,
            col,
        };
        conv.epilogue.apply(team.level, sums);
    }
}
