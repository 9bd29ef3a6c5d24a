//! Attention: one launch for whole batch elements where the kernel can, else one for each.

use nino_graph::Attention as AttentionOp;

use super::{Launches, Lower};
use crate::ops::attention::Attention;

impl<'a> Lower<'a> {
    pub(super) fn attention(&self, o: &AttentionOp) -> Launches<'a> {
        let shape = self.shape();
        let [n, heads, hd] = [shape[1], shape[2], shape[3]];
        self.code(&self.out)?;
        let [q, k, v] = [self.operands[0], self.operands[1], self.operands[2]];
        let mask = o.mask.map(|m| {
            let s = self.graph.shape(m);
            (self.operands[3], [s[0], s[1], s[2], s[3]].map(|d| d as u32))
        });
        let launch = |batch_idx: usize, batch: usize, rows: std::ops::Range<usize>| Attention {
            batch_idx: batch_idx as u32,
            batch: batch as u32,
            rows: rows.len() as u32,
            first: (rows.start - batch_idx * n) as u32,
            n: n as u32,
            m: self.graph.shape(o.k)[1] as u32,
            heads: heads as u32,
            hd: hd as u32,
            q,
            k,
            v,
            out: self.out,
            mask,
            scale: o.scale,
        };
        let batches = self.rows.start / n..self.rows.end.div_ceil(n);
        let whole = self.rows.start.is_multiple_of(n) && self.rows.end.is_multiple_of(n);
        let first = batches.start * n..(batches.start + 1) * n;
        let together = launch(batches.start, batches.len(), first);
        if whole && together.takes_batch(self.gpu) {
            return Ok(vec![together.best(self.gpu)?]);
        }
        let one = |b: usize| {
            let rows = self.rows.start.max(b * n)..self.rows.end.min((b + 1) * n);
            launch(b, 1, rows).best(self.gpu)
        };
        batches.map(one).collect()
    }
}
