//! Which bytes an op touches for a range of its rows: what lets a step bind only a part of a large
//! value, and a plan say what the largest binding is. Which rows those are, each op's definition
//! says ([`crate::ops`]); here they become bytes.
//!
//! A row is a contiguous piece of the output: one image row of a conv, one token of a linear.
//! Grouped statistics and attention that is cut by keys have rows of what they read instead.

use crate::ops::{Facts, InPlace, Operand, Part, Rows, Scratch};
use crate::{Graph, Limits, Node};
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

/// A product's operands in scratch as f16: first rows of its input, then its weights where those
/// are not f16 as stored, then f32 factors for each of these rows, which take them back. Rows are
/// multiplied with powers of two, so that none leaves the range of f16. Where the input has more
/// rows, they take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Halved {
    pub rows: usize,
    /// Values of a row.
    pub k: usize,
    /// Rows of the weights that are in scratch: all that are used, or none.
    pub columns: usize,
}

impl Halved {
    /// Rows at a time: enough to keep any device busy.
    const MOST_ROWS: usize = 8192;
    /// Columns of a product that repay a pass over its input.
    const LEAST_COLUMNS: usize = 128;
    /// Devices align what is bound to at most so many bytes.
    const ALIGN: usize = 256;

    /// The byte at which the weights begin.
    pub fn weights_at(self) -> usize {
        (self.rows * self.k * 2).next_multiple_of(Halved::ALIGN)
    }

    /// The byte at which the factors begin.
    pub fn factors_at(self) -> usize {
        (self.weights_at() + self.columns * self.k * 2).next_multiple_of(Halved::ALIGN)
    }

    /// The first factor of the weights, counted from the first factor of all.
    pub fn column_factor(self) -> usize {
        self.rows.next_multiple_of(Halved::ALIGN / size_of::<f32>())
    }

    pub fn bytes(self) -> usize {
        self.factors_at() + (self.column_factor() + self.columns) * size_of::<f32>()
    }

    /// The fewest equal turns of `rows`, in whole tiles of any kernel.
    pub fn turns(self, rows: usize) -> impl Iterator<Item = Range<usize>> {
        let each = even(rows, self.rows);
        (0..rows)
            .step_by(each)
            .map(move |first| first..(first + each).min(rows))
    }
}

/// The queries, keys and values of an attention in scratch as f16, each times a power of two, then
/// for each of the three f32 values to find the largest by, and a factor that takes it back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalvedHeads {
    /// Values of all queries.
    pub queries: usize,
    /// Values of all keys; as many are values.
    pub keys: usize,
}

impl HalvedHeads {
    /// Workgroups that look for the largest value, and the place of the factor behind theirs.
    pub const PARTS: usize = 256;
    /// f32 values from those of the queries to those of the keys.
    pub const FACTORS: usize = HalvedHeads::PARTS + Halved::ALIGN / size_of::<f32>();
    /// The kernel that takes them is for heads up to so wide,
    const MOST_WIDTH: usize = 160;
    /// and takes so many keys to repay a pass over the queries.
    const LEAST_KEYS: usize = 128;

    /// The byte at which the queries, the keys, the values and what belongs to factors begin.
    pub fn starts(self) -> [usize; 4] {
        let [queries, keys] =
            [self.queries, self.keys].map(|n| (n * 2).next_multiple_of(Halved::ALIGN));
        [0, queries, queries + keys, queries + 2 * keys]
    }

    pub fn bytes(self) -> usize {
        self.starts()[3] + 3 * HalvedHeads::FACTORS * size_of::<f32>()
    }
}

/// Rows of each of the fewest equal parts of at most `most` rows, a multiple of tiles' heights.
fn even(rows: usize, most: usize) -> usize {
    const TILE: usize = 128;
    if rows <= most {
        return rows.max(1);
    }
    let each = rows.div_ceil(rows.div_ceil(most));
    each.next_multiple_of(TILE).min(most)
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
            Some(Scratch::None | Scratch::Decoded { .. } | Scratch::Heads(_)) | None => 0,
        }
    }

    /// Bytes of scratch that make a product faster, if `least` rows or more share its weights: for
    /// its input rounded to 8 bits, where the device multiplies such (`Limits::int8`) and the
    /// weights are `Q8_0`; for bf16 operands as f16 (`Limits::halves`), of attention too; or else
    /// for weights in f16 that are stored in another type of at most 16 bits.
    pub fn prepared_bytes(&self, node: Node, least: usize, limits: &Limits) -> usize {
        let (x, w, values) = match self.facts(node).map(|facts| facts.scratch) {
            Some(Scratch::Decoded { x, w, values, .. }) => (x, w, values),
            Some(Scratch::Heads(heads)) if limits.halves && self.shape(node)[1] >= least => {
                return self.worth_halving(heads).map_or(0, HalvedHeads::bytes);
            }
            Some(Scratch::None | Scratch::Bytes(_) | Scratch::Heads(_)) | None => return 0,
        };
        if self.shape(node).rows() < least {
            return 0;
        }
        if let Some(rounded) = self.rounded(node).filter(|_| limits.int8) {
            return rounded.bytes();
        }
        if let Some(halved) = self.halved(node).filter(|_| limits.halves) {
            return halved.bytes();
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

    /// Sizes of a product's bf16 input and of its weights as f16, where the product takes them so.
    pub fn halved(&self, node: Node) -> Option<Halved> {
        let Scratch::Decoded {
            x,
            w,
            values,
            rounds: true,
        } = self.facts(node)?.scratch
        else {
            return None;
        };
        let (rows, k) = (self.shape(x).rows(), self.shape(x).last_dim());
        let columns = values / k.max(1);
        let whole = [k, columns].iter().all(|n| n.is_multiple_of(8));
        let takes = self.dtype(x) == DType::BF16 && whole && columns >= Halved::LEAST_COLUMNS;
        takes.then(|| Halved {
            rows: even(rows, Halved::MOST_ROWS),
            k,
            columns: match self.dtype(w) {
                DType::F16 => 0,
                _ => columns,
            },
        })
    }

    /// Sizes of an attention's bf16 operands as f16, where it takes them so.
    pub fn halved_heads(&self, node: Node) -> Option<HalvedHeads> {
        match self.facts(node)?.scratch {
            Scratch::Heads(heads) => self.worth_halving(heads),
            _ => None,
        }
    }

    fn worth_halving(&self, [q, k]: [Node; 2]) -> Option<HalvedHeads> {
        let width = self.shape(q).last_dim();
        let fits = width.is_multiple_of(8) && width <= HalvedHeads::MOST_WIDTH;
        let worth = self.shape(k)[1] >= HalvedHeads::LEAST_KEYS;
        (self.dtype(q) == DType::BF16 && fits && worth).then(|| HalvedHeads {
            queries: self.shape(q).numel(),
            keys: self.shape(k).numel(),
        })
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
