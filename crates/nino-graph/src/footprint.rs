//! Which bytes an op touches for a range of its rows: what lets a step bind only a part of a large
//! value, and a plan say what the largest binding is. Which rows those are, each op's definition
//! says ([`crate::ops`]); here they become bytes.
//!
//! A row is a contiguous piece of the output: one image row of a conv, one token of a linear.
//! Grouped statistics and attention that is cut by keys have rows of what they read instead.

use crate::ops::{Facts, InPlace, Operand, Part, Rows, Scratch};
use crate::{Graph, Node};
use nino_dtype::DType;
use std::ops::Range;

/// Bytes of one operand (or of the result) that a step touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    pub node: Node,
    pub bytes: Range<usize>,
}

/// Rows of a product's input rounded to 8 bits in scratch: a byte for each value, then an f32
/// factor for each 32 of a row. Where the input has more rows, they take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rounded {
    pub rows: usize,
    /// Values of a row, whole blocks of 32.
    pub k: usize,
}

impl Rounded {
    /// Values that share a factor, as in `Q8_0`.
    pub const BLOCK: usize = 32;
    /// Rows at a time: enough to keep any device busy.
    const MOST_ROWS: usize = 4096;

    /// The byte at which the factors begin; devices align what is bound to at most so much.
    pub fn factors_at(self) -> usize {
        (self.rows * self.k).next_multiple_of(256)
    }

    pub fn bytes(self) -> usize {
        self.factors_at() + self.rows * self.k / Rounded::BLOCK * size_of::<f32>()
    }
}

impl Graph {
    /// What the definition of the op that makes `node` says; nothing for inputs and parameters.
    pub(crate) fn facts(&self, node: Node) -> Option<Facts> {
        Some(self.op(node)?.def().facts(self, node))
    }

    /// Number of rows an op can be cut into.
    pub fn op_rows(&self, node: Node) -> usize {
        self.facts(node).map_or(0, |facts| facts.rows.count())
    }

    /// Sizes of blocks of an op's rows, from large to 1. A step is some blocks of one size and lies
    /// in one block of the size before, so that it holds once what its rows share.
    pub(crate) fn row_blocks(&self, node: Node) -> Vec<usize> {
        let mut blocks = self.facts(node).map_or(vec![], |facts| facts.blocks);
        blocks.push(1);
        blocks
    }

    /// Scratch bytes an op needs beside its operands and result: the partial sums of grouped
    /// statistics, or the partial results of an attention that is cut by keys
    /// ([`KeyScratch`](crate::KeyScratch)).
    pub fn scratch_bytes(&self, node: Node) -> usize {
        match self.facts(node).map(|facts| facts.scratch) {
            Some(Scratch::Bytes(bytes)) => bytes,
            Some(Scratch::None | Scratch::Decoded { .. }) | None => 0,
        }
    }

    /// Bytes of scratch that make a product faster, if `least` rows or more share its weights: for
    /// its input rounded to 8 bits, where the device multiplies such (`int8`) and the weights are
    /// `Q8_0`, or else for weights in f16 that are stored in another type of at most 16 bits.
    pub fn prepared_bytes(&self, node: Node, least: usize, int8: bool) -> usize {
        let (x, w, values) = match self.facts(node).map(|facts| facts.scratch) {
            Some(Scratch::Decoded { x, w, values, .. }) => (x, w, values),
            Some(Scratch::None | Scratch::Bytes(_)) | None => return 0,
        };
        if self.shape(node).rows() < least {
            return 0;
        }
        if let Some(rounded) = self.rounded(node).filter(|_| int8) {
            return rounded.bytes();
        }
        let other = !matches!(self.dtype(w), DType::F16 | DType::F32);
        let worth = other && self.dtype(x) == DType::F16;
        if worth { values * 2 } else { 0 }
    }

    /// Sizes of a product's input rounded to 8 bits, where the product takes it so.
    pub fn rounded(&self, node: Node) -> Option<Rounded> {
        match self.facts(node)?.scratch {
            Scratch::Decoded { x, w, rounds, .. } if rounds && self.dtype(w) == DType::Q8_0 => {
                Some(Rounded {
                    rows: self.shape(x).rows().min(Rounded::MOST_ROWS),
                    k: self.shape(x).last_dim(),
                })
            }
            _ => None,
        }
    }

    /// Operands in whose place an op may write its result, the best first, as far as its definition
    /// says; `residuals` where the device allows that for residuals.
    pub(crate) fn overwritable(&self, node: Node, residuals: bool) -> Vec<Node> {
        match self.facts(node).map(|facts| facts.in_place) {
            Some(InPlace::Over(x)) => vec![x],
            Some(InPlace::OverEither(a, b)) => vec![a, b],
            Some(InPlace::OverResidual(residual)) if residuals => residual.into_iter().collect(),
            Some(InPlace::OverResidual(_) | InPlace::Never) | None => vec![],
        }
    }

    /// Bytes touched by the given rows of the op that makes `node`: each operand, then the result.
    pub fn uses(&self, node: Node, rows: &Range<usize>) -> Vec<Use> {
        let Some(op) = self.op(node) else {
            return Vec::new();
        };
        let def = op.def();
        let of_op = def.facts(self, node).rows;
        let part = |index: usize, operand: Node| {
            if self.is_param(operand) || rows.is_empty() {
                return Part::All;
            }
            def.reads(&Operand {
                graph: self,
                index,
                node: operand,
                shape: self.shape(operand),
                out: self.shape(node),
                rows: rows.clone(),
            })
        };
        let operands = op.operands().into_iter().enumerate();
        let reads = operands.map(|(index, operand)| Use {
            node: operand,
            bytes: match part(index, operand) {
                Part::All => 0..self.bytes(operand),
                Part::SameRows => self.pieces(operand, of_op.count(), rows),
                Part::Pieces { count, pieces } => self.pieces(operand, count, &pieces),
            },
        });
        let mut uses: Vec<Use> = reads.collect();
        uses.push(Use {
            node,
            bytes: self.written(node, &of_op, rows),
        });
        uses
    }

    /// Bytes of the result that the given rows write.
    fn written(&self, node: Node, of_op: &Rows, rows: &Range<usize>) -> Range<usize> {
        match of_op {
            Rows::Operand(_) => 0..self.bytes(node),
            Rows::Keys { blocks, .. } if !rows.is_empty() => {
                let queries = blocks.piece(rows).queries;
                self.pieces(node, self.shape(node).leading(2), &queries)
            }
            Rows::Result(_) | Rows::Keys { .. } => self.pieces(node, of_op.count(), rows),
        }
    }

    /// Bytes of the given ones of `count` equal pieces of a value.
    fn pieces(&self, node: Node, count: usize, pieces: &Range<usize>) -> Range<usize> {
        let bytes = self.bytes(node);
        if count == 0 {
            return 0..bytes;
        }
        let each = bytes / count;
        pieces.start * each..pieces.end * each
    }
}
