//! Attention without the n×m matrix: blocks of keys pass by panels of queries, whose running maxima
//! and sums rescale what was gathered so far.
//!
//! Dao et al., "FlashAttention" (2022), algorithm 1, turned on its side: scores are kept as
//! `[keys][PANEL queries]` and results as `[hd][PANEL queries]`, so that vectors run over queries.
//! The softmax then needs no sums across a vector, weights are a right-hand side of the
//! register-tile kernel as they are, and no lane is wasted however long a head is. Where queries,
//! keys and values are bf16, both products are of pairs of bf16 (`Slot::Pair`), while scores, their
//! maxima and all sums stay f32.
//!
//! # Safety
//!
//! Beyond the crate's contract: the views have the shapes that [`Attention`] names. [`Buffers`] are
//! scratch of the running thread with the sizes that [`Attention::scratch_bytes`] counted, in
//! panels of whole vectors. `Part::state` has room for all panels of the step, and each task
//! touches its own.

// Nearly every expression here is an unsafe operation under the contract above, so blocks around
// each would say nothing and hide the arithmetic.
#![allow(unsafe_op_in_unsafe_fn)]

mod columns;
mod pairs;
#[cfg(test)]
mod tests;

use std::f32::consts::LOG2_E;
use std::ops::Range;

use crate::gemm::activations::Activations;
use crate::gemm::grid::PASS;
use crate::gemm::micro::{self, Block, LDA, PANEL, SEG};
use crate::gemm::pairs::{by_tiles, copy_rows, pair_rows};
use crate::gemm::slot::Slot;
use crate::memory::View;
use crate::simd::Level;
use crate::split::{self, PIECES, Way};
use crate::team::{Carver, Team, floats_bytes};
use columns::{Softmax, divide, scale, turn, weigh};

/// Most panels of queries of a task. A task has many, because each packs all keys and values again.
const PANELS: usize = 16;
/// Most lanes of a vector.
const LANES: usize = 16;

#[derive(Clone, Copy)]
pub(crate) struct Attention {
    /// `[b, n, heads, hd]`
    pub q: View,
    /// `[b, m, heads, hd]`
    pub k: View,
    pub v: View,
    pub mask: Option<Mask>,
    pub out: View,
    pub n: usize,
    pub m: usize,
    pub heads: usize,
    pub hd: usize,
    pub scale: f32,
}

/// The keys of one batch element that a step covers, and the sums that pass from step to step.
pub(crate) struct Part {
    pub keys: Range<usize>,
    /// The sums over earlier keys, which later steps add to. For each head and panel of the step's
    /// queries it holds `[hd + 2][PANEL]`; the last two rows are the largest score and the total.
    pub state: *mut f32,
}

// SAFETY: tasks of a step touch the panels of their own queries.
unsafe impl Sync for Part {}

/// A mask, which is added to the scores. A dimension of size 1 has stride 0.
#[derive(Clone, Copy)]
pub(crate) struct Mask {
    pub view: View,
    /// Elements per step in batch, head and query.
    pub strides: [usize; 3],
}

impl Attention {
    /// Gives the keys of one block. There are fewer where heads are long, so that packs stay in
    /// cache.
    fn keys(&self) -> usize {
        if self.hd > 256 { SEG / 2 } else { SEG }.min(self.m)
    }

    /// Gives the panels of a task, fewer where heads are long: they stay in the second-level cache.
    fn panels(&self) -> usize {
        match self.hd {
            ..=64 => PANELS,
            65..=128 => PANELS / 2,
            _ => PANELS / 4,
        }
    }

    /// Gives the values of a head, rounded up to whole vectors.
    fn width(&self) -> usize {
        self.hd.next_multiple_of(LANES)
    }

    fn slot(&self, level: Level) -> Slot {
        let same = self.k.dtype == self.q.dtype && self.v.dtype == self.q.dtype;
        // The largest score is looked for before scores are scaled.
        if same && self.scale > 0.0 {
            Slot::of(level, self.q.dtype)
        } else {
            Slot::F32
        }
    }

    /// Gives the tasks that the queries of a head are cut into.
    fn parts(&self, team: &Team<'_>, batches: usize, panels: usize) -> usize {
        // The time of packing a block of keys and values, where that of adding it to a panel is 1.
        let tiles = self.slot(team.level) == Slot::Pair && by_tiles();
        let pack = if tiles { 1.0 } else { 0.4 };
        let pieces = PIECES.into_iter().filter(|&n| n <= self.panels());
        let ways = pieces.map(|n| {
            let parts = panels.div_ceil(n);
            Way {
                cut: parts,
                tasks: batches * self.heads * parts,
                task: pack + panels.div_ceil(parts) as f64,
            }
        });
        split::fastest(ways, team.threads()).unwrap_or(panels)
    }

    fn q_segments(&self, slot: Slot) -> usize {
        slot.slots(self.hd).div_ceil(SEG)
    }

    pub(crate) fn scratch_bytes(&self, level: Level) -> usize {
        let (panels, slot) = (self.panels(), self.slot(level));
        2 * floats_bytes(panels * self.width() * PANEL)
            + 2 * floats_bytes(panels * PANEL)
            + floats_bytes(self.q_segments(slot) * self.keys() * LDA)
            + floats_bytes(self.width() * LDA)
            + floats_bytes(self.keys() * PANEL)
            + floats_bytes(self.rows_floats())
    }

    /// Gives the floats that rows need on their way between a tensor and a panel.
    fn rows_floats(&self) -> usize {
        let mask = if self.mask.is_some() { SEG * PANEL } else { 0 };
        (PANEL * self.width()).max(PANEL * (PASS + 256) + mask)
    }

    /// Computes query rows `rows`, counted over the batch, for all heads. With a part, the rows
    /// must belong to one batch element, and only the part's keys are added.
    pub(crate) unsafe fn run(&self, team: &Team<'_>, rows: Range<usize>, part: Option<&Part>) {
        let keys = part.map_or(self.m, |part| part.keys.len());
        let batches = rows.start / self.n..rows.end.div_ceil(self.n);
        let panels = self.n.div_ceil(PANEL);
        let parts = self.parts(team, batches.len(), panels);
        let per_batch = parts * self.heads;
        let work = rows.len() * self.heads * keys * self.hd / 8;
        team.run(batches.len() * per_batch, work, |task, mut scratch| {
            let (batch, i) = (batches.start + task / per_batch, task % per_batch);
            let (head, i) = (i / parts, i % parts);
            let base = batch * self.n;
            let cut = |i: usize| (i * panels / parts * PANEL).min(self.n);
            let first = (base + cut(i)).max(rows.start);
            let last = (base + cut(i + 1)).min(rows.end);
            if first < last {
                let task = Task {
                    a: self,
                    level: team.level,
                    slot: self.slot(team.level),
                    batch,
                    head,
                    queries: first - base..last - base,
                    part,
                    panel: head * rows.len().div_ceil(PANEL) + (first - rows.start) / PANEL,
                };
                task.run(&mut scratch);
            }
        });
    }
}

/// Some queries of one head.
struct Task<'a> {
    a: &'a Attention,
    level: Level,
    slot: Slot,
    batch: usize,
    head: usize,
    queries: Range<usize>,
    part: Option<&'a Part>,
    /// The index of its first queries' panel, among the panels of all heads of the step.
    panel: usize,
}

/// A task's scratch.
struct Buffers {
    /// Queries `[panel][hd][PANEL]`: f32 scaled so that weights are powers of two, or pairs as they
    /// came.
    q: *mut f32,
    /// Weighted sums of values `[panel][hd][PANEL]`.
    out: *mut f32,
    /// The largest scores so far: `[panel][PANEL]`.
    largest: *mut f32,
    /// The sums of the scores' powers: `[panel][PANEL]`.
    total: *mut f32,
    /// A block's keys, `[segment][key][LDA]`, and its values turned, `[hd][LDA]`, both in slots.
    k: *mut f32,
    v: *mut f32,
    /// `[key][PANEL]`
    scores: *mut f32,
    rows: *mut f32,
}

impl Task<'_> {
    unsafe fn run(&self, scratch: &mut Carver<'_>) {
        let a = self.a;
        let panels = a.panels();
        let buffers = Buffers {
            q: scratch.floats(panels * a.width() * PANEL),
            out: scratch.floats(panels * a.width() * PANEL),
            largest: scratch.floats(panels * PANEL),
            total: scratch.floats(panels * PANEL),
            k: scratch.floats(a.q_segments(self.slot) * a.keys() * LDA),
            v: scratch.floats(a.width() * LDA),
            scores: scratch.floats(a.keys() * PANEL),
            rows: scratch.floats(a.rows_floats()),
        };
        let all = self.part.map_or(0..a.m, |part| part.keys.clone());
        for p in 0..self.n_panels() {
            self.start(&buffers, p);
            if all.start > 0 {
                self.state(&buffers, p, |state, own, n| {
                    own.copy_from_nonoverlapping(state, n);
                });
            }
        }
        for k0 in all.clone().step_by(a.keys()) {
            let keys = k0..all.end.min(k0 + a.keys());
            self.pack_keys(&buffers, &keys);
            self.pack_values(&buffers, &keys);
            for p in 0..self.n_panels() {
                self.gather(&buffers, p, &keys);
            }
        }
        for p in 0..self.n_panels() {
            if all.end < a.m {
                self.state(&buffers, p, |state, own, n| {
                    state.copy_from_nonoverlapping(own, n);
                });
            } else {
                self.finish(&buffers, p);
            }
        }
    }

    /// Calls `copy(state, buffer, n)` for each piece of panel `p` that passes between steps.
    unsafe fn state(&self, buffers: &Buffers, p: usize, copy: impl Fn(*mut f32, *mut f32, usize)) {
        let Some(part) = self.part else { return };
        let values = self.a.hd * PANEL;
        let state = part.state.add((self.panel + p) * (values + 2 * PANEL));
        copy(state, buffers.out.add(p * self.a.width() * PANEL), values);
        for (i, own) in [buffers.largest, buffers.total].into_iter().enumerate() {
            copy(state.add(values + i * PANEL), own.add(p * PANEL), PANEL);
        }
    }

    fn n_panels(&self) -> usize {
        self.queries.len().div_ceil(PANEL)
    }

    /// Gives the queries of panel `p`.
    fn rows(&self, p: usize) -> Range<usize> {
        let first = self.queries.start + p * PANEL;
        first..(first + PANEL).min(self.queries.end)
    }

    fn query_at(&self, row: usize) -> usize {
        ((self.batch * self.a.n + row) * self.a.heads + self.head) * self.a.hd
    }

    fn key_at(&self, key: usize) -> usize {
        ((self.batch * self.a.m + key) * self.a.heads + self.head) * self.a.hd
    }

    unsafe fn start(&self, buffers: &Buffers, p: usize) {
        let (a, rows) = (self.a, self.rows(p));
        let panel = Activations {
            view: a.q,
            at: self.query_at(rows.start),
            k: a.hd,
            n: rows.len(),
            transposed: true,
            ld: a.heads * a.hd,
        };
        let q = buffers.q.add(p * a.width() * PANEL);
        for k0 in (0..a.hd).step_by(PASS) {
            let n = (a.hd - k0).min(PASS);
            let dst = q.add(self.slot.slots(k0) * PANEL);
            match self.slot {
                Slot::F32 => panel.panel(self.level, 0, k0, n, dst, buffers.rows),
                Slot::Pair => panel.pair_panel(self.level, 0, k0, n, dst, buffers.rows),
            };
        }
        if self.slot == Slot::F32 {
            scale(self.level, q, a.hd * PANEL, a.scale * LOG2_E);
        }
        buffers
            .out
            .add(p * a.width() * PANEL)
            .write_bytes(0, a.hd * PANEL);
        for i in p * PANEL..(p + 1) * PANEL {
            *buffers.largest.add(i) = f32::NEG_INFINITY;
            *buffers.total.add(i) = 0.0;
        }
    }

    unsafe fn pack_keys(&self, buffers: &Buffers, keys: &Range<usize>) {
        let (hd, seg) = (self.a.hd, SEG * self.slot.values());
        for s in 0..self.a.q_segments(self.slot) {
            let n = (hd - s * seg).min(seg);
            let dst = buffers.k.add(s * keys.len() * LDA);
            let at = self.key_at(keys.start) + s * seg;
            let ld = self.a.heads * hd;
            match self.slot {
                Slot::F32 => {
                    for i in 0..keys.len() {
                        self.a.k.load(self.level, at + i * ld, n, dst.add(i * LDA));
                    }
                }
                Slot::Pair => copy_rows(self.a.k.at(at).cast(), ld, n, keys.len(), dst),
            }
        }
    }

    unsafe fn pack_values(&self, buffers: &Buffers, keys: &Range<usize>) {
        if self.slot == Slot::Pair {
            return self.pack_value_pairs(buffers, keys);
        }
        let width = self.a.width();
        for first in keys.clone().step_by(LANES) {
            for (i, key) in (first..keys.end.min(first + LANES)).enumerate() {
                let row = buffers.rows.add(i * width);
                self.a.v.load(self.level, self.key_at(key), self.a.hd, row);
            }
            let dst = buffers.v.add(first - keys.start);
            turn(self.level, buffers.rows, width, [LANES, width], dst, LDA);
        }
    }

    /// Packs values as pairs of neighboring keys.
    unsafe fn pack_value_pairs(&self, buffers: &Buffers, keys: &Range<usize>) {
        let width = self.a.width();
        let row = |key: usize| -> *const u16 { self.a.v.at(self.key_at(key)).cast_const().cast() };
        for first in keys.clone().step_by(2 * LANES) {
            let pairs = (first..keys.end.min(first + 2 * LANES)).step_by(2);
            for (i, key) in pairs.enumerate() {
                let next = if key + 1 < keys.end {
                    row(key + 1)
                } else {
                    std::ptr::null()
                };
                pair_rows(row(key), next, self.a.hd, buffers.rows.add(i * width));
            }
            let dst = buffers.v.add((first - keys.start) / 2);
            turn(self.level, buffers.rows, width, [LANES, width], dst, LDA);
        }
    }

    /// Adds one block of keys to one panel of queries.
    unsafe fn gather(&self, buffers: &Buffers, p: usize, keys: &Range<usize>) {
        let (a, level, slot) = (self.a, self.level, self.slot);
        let mut segments = [0; 64];
        let n_segments = a.q_segments(slot);
        assert!(
            n_segments <= segments.len(),
            "a head of {} values is too long",
            a.hd
        );
        for (s, segment) in segments.iter_mut().take(n_segments).enumerate() {
            *segment = s * keys.len() * LDA;
        }
        let out = buffers.out.add(p * a.width() * PANEL);
        let scores = Block {
            slot,
            a: buffers.k,
            segments: &segments[..n_segments],
            segment_len: SEG,
            k: slot.slots(a.hd),
            b: buffers.q.add(p * a.width() * PANEL),
            c: buffers.scores,
            ldc: PANEL,
            rows: keys.len(),
            cols: PANEL,
            accumulate: false,
        };
        micro::block(level, &scores);
        if let Some(mask) = &a.mask {
            self.add_mask(buffers, mask, p, keys);
        }
        let softmax = Softmax {
            scores: buffers.scores,
            keys: keys.len(),
            largest: buffers.largest.add(p * PANEL),
            total: buffers.total.add(p * PANEL),
            out,
            hd: a.hd,
        };
        match slot {
            Slot::F32 => weigh(level, &softmax),
            Slot::Pair => pairs::weigh(&softmax, self.scale_left()),
        }
        let sums = Block {
            slot,
            a: buffers.v,
            segments: &[0],
            segment_len: SEG,
            k: slot.slots(keys.len()),
            b: buffers.scores,
            c: out,
            ldc: PANEL,
            rows: a.hd,
            cols: PANEL,
            accumulate: true,
        };
        micro::block(level, &sums);
    }

    /// Gives what scores are still to be multiplied with when they are weighed. Queries in pairs
    /// are not scaled, but a mask is added to scaled scores.
    fn scale_left(&self) -> f32 {
        if self.a.mask.is_some() {
            1.0
        } else {
            self.a.scale * LOG2_E
        }
    }

    unsafe fn add_mask(&self, buffers: &Buffers, mask: &Mask, p: usize, keys: &Range<usize>) {
        let [b, h, r] = mask.strides;
        let rows = self.rows(p);
        let panel = Activations {
            view: mask.view,
            at: self.batch * b + self.head * h + rows.start * r,
            k: self.a.m,
            n: rows.len(),
            transposed: true,
            ld: r,
        };
        let turned = buffers.rows.add(PANEL * PASS);
        panel.panel(self.level, 0, keys.start, keys.len(), turned, buffers.rows);
        let scale = match self.slot {
            Slot::F32 => 1.0,
            Slot::Pair => self.a.scale * LOG2_E,
        };
        for i in 0..keys.len() * PANEL {
            let score = buffers.scores.add(i);
            *score = *score * scale + LOG2_E * *turned.add(i);
        }
    }

    unsafe fn finish(&self, buffers: &Buffers, p: usize) {
        let (a, level) = (self.a, self.level);
        let out = buffers.out.add(p * a.width() * PANEL);
        divide(level, out, a.hd, buffers.total.add(p * PANEL));
        let width = a.width();
        turn(level, out, PANEL, [width, PANEL], buffers.rows, width);
        for (i, row) in self.rows(p).enumerate() {
            let values = buffers.rows.add(i * width);
            a.out.store(level, self.query_at(row), a.hd, values);
        }
    }
}
