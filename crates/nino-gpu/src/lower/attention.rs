//! Attention: cut at batch elements, since a launch serves one.

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
        let mut launches = Vec::new();
        for batch_idx in self.rows.start / n..self.rows.end.div_ceil(n) {
            let first = self.rows.start.max(batch_idx * n);
            let end = self.rows.end.min((batch_idx + 1) * n);
            let op = Attention {
                batch_idx: batch_idx as u32,
                rows: (end - first) as u32,
                first: (first - batch_idx * n) as u32,
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
            launches.push(op.best(self.gpu)?);
        }
        Ok(launches)
    }
}
