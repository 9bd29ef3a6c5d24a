//! Attention without the n×m matrix: blocks of keys pass by a block of queries, whose running
//! maximum and sum rescale what was gathered so far.
//!
//! Dao et al., "FlashAttention" (2022), algorithm 1, with the register-tile kernel for both
//! products: the scores of a block are written where the kernel reads its left side.

use std::ops::Range;

use crate::gemm::activations::Activations;
use crate::gemm::micro::{self, Block, LDA, PANEL, SEG};
use crate::memory::View;
use crate::simd::{Level, Simd, dispatch, math};
use crate::team::{Carver, Team, floats_bytes};

/// Most query rows of a task: each task packs all keys and values again.
const QUERIES: usize = 224;

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

/// Added to the scores; a dimension of size 1 has stride 0.
#[derive(Clone, Copy)]
pub(crate) struct Mask {
    pub view: View,
    /// Elements per step in batch, head and query.
    pub strides: [usize; 3],
}

impl Attention {
    /// Keys of one block: fewer where heads are long, so that packs stay in cache.
    fn keys(&self) -> usize {
        if self.hd > SEG { SEG } else { 2 * SEG }.min(self.m)
    }

    pub(crate) fn scratch_bytes(&self) -> usize {
        let width = self.hd.next_multiple_of(PANEL);
        floats_bytes(self.hd.div_ceil(SEG) * QUERIES * LDA)
            + floats_bytes(self.keys().div_ceil(SEG) * QUERIES * LDA)
            + floats_bytes(QUERIES * width)
            + 2 * floats_bytes(QUERIES)
            + floats_bytes(self.pack_floats())
            + floats_bytes(self.keys().max(self.hd))
    }

    fn pack_floats(&self) -> usize {
        self.factor(self.k, 0, true)
            .pack_floats(self.hd)
            .max(self.keys() * PANEL)
    }

    /// Keys (as columns) or values (as rows) from element `at`.
    fn factor(&self, view: View, at: usize, transposed: bool) -> Activations {
        let (k, n) = if transposed {
            (self.hd, self.m)
        } else {
            (self.m, self.hd)
        };
        Activations {
            view,
            at,
            k,
            n,
            transposed,
            ld: self.heads * self.hd,
        }
    }

    /// Computes query rows `rows`, counted over the batch, for all heads.
    pub(crate) unsafe fn run(&self, team: &Team<'_>, rows: Range<usize>) {
        let batches = rows.start / self.n..rows.end.div_ceil(self.n);
        let wanted = (team.threads() * 6).div_ceil(batches.len() * self.heads);
        let parts = self
            .n
            .div_ceil(QUERIES)
            .max(wanted.min(self.n.div_ceil(28)));
        let per_batch = parts * self.heads;
        let work = rows.len() * self.heads * self.m * self.hd / 8;
        team.run(batches.len() * per_batch, work, |task, mut scratch| {
            let (batch, i) = (batches.start + task / per_batch, task % per_batch);
            let (head, part) = (i / parts, i % parts);
            let base = batch * self.n;
            let first = (base + part * self.n / parts).max(rows.start);
            let last = (base + (part + 1) * self.n / parts).min(rows.end);
            if first < last {
                self.task(
                    team.level,
                    (batch, head),
                    first - base..last - base,
                    &mut scratch,
                );
            }
        });
    }

    unsafe fn task(
        &self,
        level: Level,
        (batch, head): (usize, usize),
        queries: Range<usize>,
        scratch: &mut Carver<'_>,
    ) {
        let (rows, hd, keys) = (queries.len(), self.hd, self.keys());
        let width = hd.next_multiple_of(PANEL);
        let q = scratch.floats(hd.div_ceil(SEG) * rows * LDA);
        let scores = scratch.floats(keys.div_ceil(SEG) * rows * LDA);
        let out = scratch.floats(rows * width);
        let (largest, total) = (scratch.floats(rows), scratch.floats(rows));
        let pack = scratch.floats(self.pack_floats());
        let buf = scratch.floats(keys.max(hd));
        let at = |row: usize| ((batch * self.n + row) * self.heads + head) * hd;
        let mut offsets = [0; 64];
        let n_offsets = hd.div_ceil(SEG).max(keys.div_ceil(SEG));
        assert!(
            n_offsets <= offsets.len(),
            "a head of {hd} values is too long"
        );
        for (i, offset) in offsets.iter_mut().enumerate() {
            *offset = i * rows * LDA;
        }
        for i in 0..rows {
            let row = self.q.row(level, at(queries.start + i), hd, buf);
            for (s, offset) in offsets[..hd.div_ceil(SEG)].iter().enumerate() {
                let n = (hd - s * SEG).min(SEG);
                scale(
                    level,
                    row.add(s * SEG),
                    q.add(offset + i * LDA),
                    n,
                    self.scale,
                );
            }
            *largest.add(i) = f32::NEG_INFINITY;
            *total.add(i) = 0.0;
        }
        out.write_bytes(0, rows * width);
        let first_key = (batch * self.m * self.heads + head) * hd;
        let (all_k, all_v) = (
            self.factor(self.k, first_key, true),
            self.factor(self.v, first_key, false),
        );
        for k0 in (0..self.m).step_by(keys) {
            let n = (self.m - k0).min(keys);
            for p in 0..n.div_ceil(PANEL) {
                let key = p * PANEL;
                let b = Activations {
                    n: self.m - k0,
                    at: all_k.at + k0 * all_k.ld,
                    ..all_k
                };
                let block = Block {
                    a: q,
                    segments: &offsets[..hd.div_ceil(SEG)],
                    segment_len: SEG,
                    k: hd,
                    b: b.panel(level, p, 0, hd, pack),
                    c: scores.add(offsets[key / SEG] + key % SEG),
                    ldc: LDA,
                    rows,
                    cols: PANEL.min(n - key),
                    accumulate: false,
                };
                micro::block(level, &block);
            }
            if let Some(mask) = &self.mask {
                for i in 0..rows {
                    let [b, h, r] = mask.strides;
                    let from = batch * b + head * h + (queries.start + i) * r + k0;
                    let add = mask.view.row(level, from, n, buf);
                    for s in 0..n.div_ceil(SEG) {
                        let row = scores.add(offsets[s] + i * LDA);
                        for j in 0..(n - s * SEG).min(SEG) {
                            *row.add(j) += *add.add(s * SEG + j);
                        }
                    }
                }
            }
            let step = Softmax {
                scores,
                segment: rows * LDA,
                rows,
                keys: n,
                largest,
                total,
                out,
                width,
            };
            softmax(level, &step);
            for p in 0..hd.div_ceil(PANEL) {
                let block = Block {
                    a: scores,
                    segments: &offsets[..n.div_ceil(SEG)],
                    segment_len: SEG,
                    k: n,
                    b: all_v.panel(level, p, k0, n, pack),
                    c: out.add(p * PANEL),
                    ldc: width,
                    rows,
                    cols: PANEL.min(hd - p * PANEL),
                    accumulate: true,
                };
                micro::block(level, &block);
            }
        }
        for i in 0..rows {
            let row = out.add(i * width);
            scale(level, row, row, hd, 1.0 / *total.add(i));
            self.out.store(level, at(queries.start + i), hd, row);
        }
    }
}

dispatch! { fn scale(src: *const f32, dst: *mut f32, n: usize, by: f32) = scale_impl }

#[inline(always)]
unsafe fn scale_impl<S: Simd>(src: *const f32, dst: *mut f32, n: usize, by: f32) {
    let by = S::splat(by);
    let mut i = 0;
    while i + S::LANES <= n {
        S::store(dst.add(i), S::mul(S::load(src.add(i)), by));
        i += S::LANES;
    }
    if i < n {
        S::store_n(dst.add(i), S::mul(S::load_n(src.add(i), n - i), by), n - i);
    }
}

/// One block of scores: turned into weights, with what was gathered before rescaled.
struct Softmax {
    scores: *mut f32,
    /// Floats between two segments of keys.
    segment: usize,
    rows: usize,
    keys: usize,
    largest: *mut f32,
    total: *mut f32,
    out: *mut f32,
    width: usize,
}

dispatch! { fn softmax(t: &Softmax) = softmax_impl }

#[inline(always)]
unsafe fn softmax_impl<S: Simd>(t: &Softmax) {
    for i in 0..t.rows {
        let row = t.scores.add(i * LDA);
        let before = *t.largest.add(i);
        let now = row_max::<S>(t, row).max(before);
        // A row masked in full keeps -inf: shift by 0 instead, so that no NaN is made.
        let sum = row_exp::<S>(t, row, if now == f32::NEG_INFINITY { 0.0 } else { now });
        let keep = if now > before {
            (before - now).exp()
        } else {
            1.0
        };
        *t.largest.add(i) = now;
        *t.total.add(i) = (*t.total.add(i)).mul_add(keep, sum);
        if now > before {
            let out = t.out.add(i * t.width);
            scale_impl::<S>(out, out, t.width, keep);
        }
    }
}

// No closures in these two: a closure keeps its own target features unless it is inlined.
#[inline(always)]
unsafe fn row_max<S: Simd>(t: &Softmax, mut row: *const f32) -> f32 {
    let mut most = S::splat(f32::NEG_INFINITY);
    let mut tail = f32::NEG_INFINITY;
    let mut left = t.keys;
    while left > 0 {
        let n = left.min(SEG);
        let mut j = 0;
        while j + S::LANES <= n {
            most = S::max(most, S::load(row.add(j)));
            j += S::LANES;
        }
        while j < n {
            tail = tail.max(*row.add(j));
            j += 1;
        }
        left -= n;
        row = row.add(t.segment);
    }
    S::hmax(most).max(tail)
}

/// Replaces a row by exp(x - shift); gives the sum.
#[inline(always)]
unsafe fn row_exp<S: Simd>(t: &Softmax, mut row: *mut f32, shift: f32) -> f32 {
    let shift = S::splat(shift);
    let mut sum = S::zero();
    let mut tail = 0.0;
    let mut left = t.keys;
    while left > 0 {
        let n = left.min(SEG);
        let mut j = 0;
        while j + S::LANES <= n {
            let e = math::exp::<S>(S::sub(S::load(row.add(j)), shift));
            S::store(row.add(j), e);
            sum = S::add(sum, e);
            j += S::LANES;
        }
        if j < n {
            let e = math::exp::<S>(S::sub(S::load_n(row.add(j), n - j), shift));
            S::store_n(row.add(j), e, n - j);
            for x in j..n {
                tail += *row.add(x);
            }
        }
        left -= n;
        row = row.add(t.segment);
    }
    S::sum(sum) + tail
}

#[cfg(test)]
mod tests;
