//! Attention: one launch for whole batch elements where the kernel can, else one for each; of some
//! keys only, one launch for them and one that puts it together with what others gave.

use std::ops::Range;

use nino_graph::{Attention as AttentionOp, KeyBlocks, Piece};

use super::{Launches, Lower};
use crate::GpuError;
use crate::kernel::{Launch, View};
use crate::ops::attention::{Attention, Heads, halves};
use crate::shader::KernelKey;

impl<'a> Lower<'a> {
    pub(super) fn attention(&self, o: &AttentionOp) -> Launches<'a> {
        self.code(&self.out)?;
        if !o.by_keys {
            let (heads, mut launches) = self.heads(o)?;
            launches.extend(self.all_keys(o, heads, &self.rows)?);
            return Ok(launches);
        }
        let blocks = KeyBlocks::new(self.graph, o);
        let piece = blocks.piece(&self.rows);
        if piece.is_whole() {
            return self.all_keys(o, self.stored(), &piece.queries);
        }
        self.some_keys(o, &blocks, &piece)
    }

    fn stored(&self) -> Heads<'a> {
        Heads {
            qkv: [self.operands[0], self.operands[1], self.operands[2]],
            factors: None,
        }
    }

    /// The operands to compute with, and what must run before: where the plan has scratch for it,
    /// they are written there as f16.
    fn heads(&self, o: &AttentionOp) -> Result<(Heads<'a>, Vec<Launch<'a>>), GpuError> {
        let stored = self.stored();
        let sizes = self.graph.halved_heads(self.node);
        let scratch = self.scratch.filter(|_| self.caps.halves_rows());
        let Some((scratch, sizes)) = scratch.zip(sizes) else {
            return Ok((stored, Vec::new()));
        };
        let (halves, launches) = halves::of(self.caps, stored.qkv, scratch, sizes)?;
        // Whether it fits depends on places alone, which are alike for all rows.
        let first = self.rows.start..self.rows.start + 1;
        let batch = self.rows.start / self.shape()[1];
        if self.launch(o, halves, batch, &first).coop_fits(self.caps) {
            Ok((halves, launches))
        } else {
            Ok((stored, Vec::new()))
        }
    }

    fn launch(
        &self,
        o: &AttentionOp,
        from: Heads<'a>,
        batch_idx: usize,
        rows: &Range<usize>,
    ) -> Attention<'a> {
        let shape = self.shape();
        let [n, heads, hd] = [shape[1], shape[2], shape[3]];
        let [q, k, v] = from.qkv;
        let mask = o.mask.map(|m| {
            let s = self.graph.shape(m);
            (self.operands[3], [s[0], s[1], s[2], s[3]].map(|d| d as u32))
        });
        let m = self.graph.shape(o.k)[1] as u32;
        Attention {
            batch_idx: batch_idx as u32,
            batch: 1,
            rows: rows.len() as u32,
            first: (rows.start - batch_idx * n) as u32,
            n: n as u32,
            m,
            first_key: 0,
            all_keys: m,
            heads: heads as u32,
            hd: hd as u32,
            q,
            k,
            v,
            out: self.out,
            mask,
            scale: o.scale,
            log: None,
            factors: from.factors,
        }
    }

    fn all_keys(&self, o: &AttentionOp, from: Heads<'a>, rows: &Range<usize>) -> Launches<'a> {
        let n = self.shape()[1];
        let batches = rows.start / n..rows.end.div_ceil(n);
        let whole = rows.start.is_multiple_of(n) && rows.end.is_multiple_of(n);
        let first = batches.start * n..(batches.start + 1) * n;
        let together = Attention {
            batch: batches.len() as u32,
            ..self.launch(o, from, batches.start, &first)
        };
        if whole && together.takes_batch(self.caps) {
            return Ok(vec![together.best(self.caps)?]);
        }
        let one = |b: usize| {
            let rows = rows.start.max(b * n)..rows.end.min((b + 1) * n);
            self.launch(o, from, b, &rows).best(self.caps)
        };
        batches.map(one).collect()
    }

    fn some_keys(&self, o: &AttentionOp, blocks: &KeyBlocks, piece: &Piece) -> Launches<'a> {
        let shape = self.shape();
        let [n, heads, hd] = [shape[1], shape[2], shape[3]];
        let scratch = self
            .scratch
            .ok_or_else(|| self.unsupported("keys in parts without scratch".to_owned()))?;
        let within = |range: &Range<usize>| View {
            offset: scratch.offset + range.start as u64,
            bytes: range.len() as u64,
            ..scratch
        };
        let places = blocks.scratch();
        let [sums, sums_log, part_log] =
            [&places.sums, &places.sums_log, &places.part_log].map(within);
        let part = View {
            dtype: self.out.dtype,
            ..within(&places.part)
        };
        let attention = Attention {
            m: piece.keys.len() as u32,
            first_key: piece.before as u32,
            // The part has the step's queries alone.
            out: View {
                first: (piece.queries.start * heads * hd) as u64,
                ..part
            },
            log: Some(part_log),
            ..self.launch(o, self.stored(), piece.queries.start / n, &piece.queries)
        };
        let views = [sums, sums_log, self.out, part, part_log];
        let quads = hd.is_multiple_of(4) && self.quads(&views);
        let key = KernelKey::new("attention_join")
            .with("OT", self.code(&self.out)?)
            .with("VEC", quads)
            .with("LAST", !piece.more);
        let base = |view: &View<'_>| self.caps.base(view);
        let out_row = (piece.queries.start * heads).wrapping_mul(hd) as u32;
        let join = Launch {
            kernel: key.into(),
            views: if piece.more {
                vec![sums, sums_log, part, part_log]
            } else {
                views.to_vec()
            },
            writes: if piece.more { 2 } else { 3 },
            params: vec![
                heads as u32,
                hd as u32,
                u32::from(piece.before == 0),
                base(&sums),
                base(&sums_log),
                base(&part),
                base(&part_log),
                base(&self.out).wrapping_add(out_row),
            ],
            groups: [piece.queries.len() as u32, heads as u32, 1],
        };
        Ok(vec![attention.best(self.caps)?, join])
    }
}
