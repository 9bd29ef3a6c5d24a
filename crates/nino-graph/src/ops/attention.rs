//! Attention, whole or cut by keys.

mod keys;

pub use keys::{KeyBlocks, KeyScratch, Piece};

use super::check::{Inferred, activation, expect_dtype, wrong};
use super::{Facts, InPlace, OpDef, Operand, Part, Rows, Scratch, Traffic, map_all, map_some};
use crate::{Graph, Kind, Node};

/// q `[b, n, heads, hd]`, k and v `[b, m, heads, hd]` → `[b, n, heads, hd]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attention {
    pub q: Node,
    pub k: Node,
    pub v: Node,
    /// Added to the scores: `[b or 1, heads or 1, n or 1, m]`.
    pub mask: Option<Node>,
    pub scale: f32,
    /// Steps are blocks of queries by blocks of keys ([`KeyBlocks`]) instead of queries. A plan
    /// sets this where all keys at once are too many.
    pub by_keys: bool,
}

impl Graph {
    /// q `[b, n, heads, hd]`, k and v `[b, m, heads, hd]`; scaled by 1/√hd.
    #[track_caller]
    pub fn attention(&mut self, q: Node, k: Node, v: Node, mask: Option<Node>) -> Node {
        let scale = 1.0 / (self.shape(q).last_dim() as f32).sqrt();
        self.push(Attention {
            q,
            k,
            v,
            mask,
            scale,
            by_keys: false,
        })
    }
}

impl OpDef for Attention {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        map_all(&mut [&mut self.q, &mut self.k, &mut self.v], f);
        map_some(&mut [&mut self.mask], f);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        let (q, k, v) = (g.shape(self.q), g.shape(self.k), g.shape(self.v));
        for n in [self.q, self.k, self.v] {
            activation(g, n)?;
            expect_dtype(g, n, g.dtype(self.q))?;
        }
        let fits = q.rank() == 4
            && k.rank() == 4
            && k == v
            && (q[0], q[2], q[3]) == (k[0], k[2], k[3])
            && k[1] > 0;
        if !fits {
            wrong!("q is {q}, k {k}, v {v}; all are [b, n, heads, hd]");
        }
        if let Some(mask) = self.mask {
            let m = g.shape(mask);
            let full = [q[0], q[2], q[1], k[1]];
            let fits = m.rank() == 4
                && m[3] == full[3]
                && m.iter()
                    .zip(full)
                    .all(|(&have, want)| have == want || have == 1);
            if !fits {
                wrong!("mask is {m} for scores {full:?}");
            }
        }
        Ok((q, g.dtype(self.q)))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        let shape = g.shape(out);
        let (rows, blocks, scratch) = if self.by_keys {
            let keys = KeyBlocks::new(g, self);
            let (batch, blocks) = (shape[0], keys);
            let scratch = Scratch::Bytes(keys.scratch().part_log.end);
            (Rows::Keys { batch, blocks }, keys.row_blocks(), scratch)
        } else {
            // The queries of one batch element share its keys.
            (
                Rows::Result(shape.leading(2)),
                vec![shape[1]],
                Scratch::Heads([self.q, self.k]),
            )
        };
        Facts {
            flops: 4.0 * shape.numel() as f64 * g.shape(self.k)[1] as f64,
            traffic: Traffic::EachOnce,
            rows,
            blocks,
            scratch,
            in_place: InPlace::Never,
            kind: Kind::Attention { x: g.dtype(self.q) },
        }
    }

    fn reads(&self, operand: &Operand<'_>) -> Part {
        let rows = &operand.rows;
        match operand.index {
            i @ 0..3 if self.by_keys => {
                let piece = KeyBlocks::new(operand.graph, self).piece(rows);
                Part::Pieces {
                    count: operand.shape.leading(2),
                    pieces: if i == 0 { piece.queries } else { piece.keys },
                }
            }
            0 => Part::SameRows,
            // Keys and values of the batch elements whose queries these are.
            1 | 2 => Part::Pieces {
                count: operand.out[0],
                pieces: rows.start / operand.out[1]..rows.end.div_ceil(operand.out[1]),
            },
            _ => Part::All,
        }
    }
}
