//! Which bytes an op touches for a range of its rows: what lets a step bind only a part of a large
//! value, and a plan say what the largest binding is.
//!
//! A row is a contiguous piece of the output: one image row of a conv, one token of a linear. The
//! rows of grouped statistics are chunks of positions, whose partial sums go to scratch; those of an
//! attention that is cut by keys are [`KeyBlocks`].

mod keys;

use crate::{Concat, Conv, Graph, Node, Op, Over, PadMode, Permute, Shape};
pub use keys::{KeyBlocks, KeyScratch, Piece};
use nino_dtype::DType;
use std::ops::Range;

/// Bytes of one operand (or of the result) that a step touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    pub node: Node,
    pub bytes: Range<usize>,
}

/// Positions of one batch element are cut into this many chunks for grouped statistics; chunk `i`
/// covers `i·len .. (i+1)·len` with `len = positions.div_ceil(chunks)`, clipped at the end.
pub fn stat_chunks(positions: usize) -> usize {
    const CHUNKS: usize = 512;
    // At most what every device binds, of the widest and largest values there are.
    const LENGTHS: (usize, usize) = (16, 1 << 15);
    let len = positions.div_ceil(CHUNKS).clamp(LENGTHS.0, LENGTHS.1);
    positions.div_ceil(len).max(1)
}

impl Graph {
    /// Number of rows an op can be cut into.
    pub fn op_rows(&self, node: Node) -> usize {
        let Some(op) = self.op(node) else { return 0 };
        let out = self.shape(node);
        match op {
            Op::Stats(o) => match o.over {
                Over::Groups(_) => {
                    let (b, positions) = batch_and_positions(self.shape(o.x));
                    b * stat_chunks(positions)
                }
                Over::Rows => out[0],
            },
            Op::Attention(o) if o.by_keys => out[0] * KeyBlocks::new(self, o).rows(),
            Op::Conv(_) | Op::Upsample(_) | Op::AvgPool(_) | Op::Attention(_) => leading(out, 2),
            Op::Reduce(o) => out[..o.axis].iter().product(),
            _ => out.rows(),
        }
    }

    /// Sizes of blocks of an op's rows, from large to 1. A step is some blocks of one size and lies in
    /// one block of the size before, so that what its rows share is there once.
    pub(crate) fn row_blocks(&self, node: Node) -> Vec<usize> {
        let out = self.shape(node);
        match self.op(node) {
            Some(Op::Attention(o)) if o.by_keys => KeyBlocks::new(self, o).row_blocks(),
            Some(Op::Attention(_)) => vec![out[1], 1],
            Some(Op::Permute(_)) => (1..out.rank())
                .map(|d| out[d..out.rank() - 1].iter().product())
                .collect(),
            _ => vec![1],
        }
    }

    /// Scratch bytes an op needs beside its operands and result: the partial sums of grouped
    /// statistics, `[b, chunks, groups, 2]` f32 of (mean, sum of squared deviations), or what an
    /// attention gathered from the keys before ([`KeyScratch`]).
    pub fn scratch_bytes(&self, node: Node) -> usize {
        match self.op(node) {
            Some(Op::Stats(o)) => match o.over {
                Over::Groups(groups) => self.op_rows(node) * groups * 2 * 4,
                Over::Rows => 0,
            },
            Some(Op::Attention(o)) if o.by_keys => KeyBlocks::new(self, o).scratch().part_log.end,
            _ => 0,
        }
    }

    /// Bytes of an op's block weights in f16, if `least` rows or more share them.
    pub fn expanded_bytes(&self, node: Node, least: usize) -> usize {
        let (x, w) = match self.op(node) {
            Some(Op::Linear(o)) => (o.x, o.w),
            Some(Op::Conv(o)) => (o.x, o.w),
            _ => return 0,
        };
        let worth = self.dtype(w).is_block()
            && self.dtype(x) == DType::F16
            && self.shape(node).rows() >= least;
        if worth { self.shape(w).numel() * 2 } else { 0 }
    }

    /// Bytes touched by the given rows of the op that makes `node`: each operand, then the result.
    pub fn uses(&self, node: Node, rows: &Range<usize>) -> Vec<Use> {
        let Some(op) = self.op(node) else {
            return Vec::new();
        };
        let operands = op.operands();
        let mut uses: Vec<Use> = operands
            .iter()
            .enumerate()
            .map(|(i, &operand)| Use {
                node: operand,
                bytes: self.operand_bytes(op, node, i, operand, rows),
            })
            .collect();
        uses.push(Use {
            node,
            bytes: self.result_bytes(op, node, rows),
        });
        uses
    }

    fn result_bytes(&self, op: &Op, node: Node, rows: &Range<usize>) -> Range<usize> {
        if let Op::Stats(o) = op
            && matches!(o.over, Over::Groups(_))
        {
            return 0..self.bytes(node);
        }
        if let Op::Attention(o) = op
            && o.by_keys
            && !rows.is_empty()
        {
            let queries = KeyBlocks::new(self, o).piece(rows).queries;
            return self.cut(node, leading(self.shape(node), 2), &queries);
        }
        self.cut(node, self.op_rows(node), rows)
    }

    /// The part of `node` for `rows` of `n_rows` equal pieces.
    fn cut(&self, node: Node, n_rows: usize, rows: &Range<usize>) -> Range<usize> {
        let bytes = self.bytes(node);
        if n_rows == 0 {
            return 0..bytes;
        }
        let each = bytes / n_rows;
        rows.start * each..rows.end * each
    }

    fn operand_bytes(
        &self,
        op: &Op,
        node: Node,
        i: usize,
        operand: Node,
        rows: &Range<usize>,
    ) -> Range<usize> {
        let all = 0..self.bytes(operand);
        if self.is_param(operand) || rows.is_empty() {
            return all;
        }
        let out = self.shape(node);
        let same_rows = || self.cut(operand, self.op_rows(node), rows);
        match op {
            Op::Conv(o) if i == 0 => {
                let in_rows = conv_input_rows(self, o, out, rows);
                self.cut(operand, leading(self.shape(operand), 2), &in_rows)
            }
            Op::Conv(o) if o.epi.residual == Some(operand) => same_rows(),
            Op::Linear(o) if i == 0 || o.epi.residual == Some(operand) => same_rows(),
            Op::MatMul(_) if i == 0 => same_rows(),
            Op::MatMul(_) => {
                let m = out[out.rank() - 2];
                let batches: usize = out[..out.rank() - 2].iter().product();
                self.cut(operand, batches, &(rows.start / m..rows.end.div_ceil(m)))
            }
            Op::Stats(o) => match o.over {
                Over::Rows => same_rows(),
                Over::Groups(_) => {
                    let (b, positions) = batch_and_positions(self.shape(operand));
                    let chunks = stat_chunks(positions);
                    let len = positions.div_ceil(chunks);
                    let at = |chunk: usize| {
                        chunk / chunks * positions + (chunk % chunks * len).min(positions)
                    };
                    self.cut(operand, b * positions, &(at(rows.start)..at(rows.end)))
                }
            },
            Op::Normalize(_) | Op::RowNorm(_) | Op::Rope(_) if i == 0 => same_rows(),
            Op::Softmax(_)
            | Op::Unary(..)
            | Op::Gate(..)
            | Op::Cast(..)
            | Op::Reduce(_)
            | Op::Gather(_)
            | Op::TimestepEmbed(_) => same_rows(),
            Op::Permute(o) => {
                let element = self.dtype(operand).block_bytes();
                let values = permuted(self.shape(operand), out, o, rows);
                values.start * element..values.end * element
            }
            Op::Attention(o) if o.by_keys && i < 3 => {
                let piece = KeyBlocks::new(self, o).piece(rows);
                let rows = if i == 0 { &piece.queries } else { &piece.keys };
                self.cut(operand, leading(self.shape(operand), 2), rows)
            }
            Op::Attention(_) if i == 0 => same_rows(),
            Op::Attention(_) if i < 3 => self.cut(
                operand,
                out[0],
                &(rows.start / out[1]..rows.end.div_ceil(out[1])),
            ),
            Op::Binary(_) if self.shape(operand) == out => same_rows(),
            Op::Upsample(_) | Op::AvgPool(_) => {
                let in_rows = resampled_rows(op, self.shape(operand), out, rows);
                self.cut(operand, leading(self.shape(operand), 2), &in_rows)
            }
            Op::Concat(o) => self.cut(
                operand,
                self.shape(operand).rows(),
                &self.concat_rows(o, i, out, rows),
            ),
            Op::Slice(o) => {
                let x = self.shape(operand);
                if o.axis + 1 == x.rank() {
                    return same_rows();
                }
                let inner: usize = x[o.axis + 1..x.rank() - 1].iter().product();
                let (block_in, block_out) = (x[o.axis] * inner, out[o.axis] * inner);
                let at = |r: usize| r / block_out * block_in + o.start * inner + r % block_out;
                self.cut(operand, x.rows(), &(at(rows.start)..at(rows.end - 1) + 1))
            }
            Op::Pad(o) => {
                let x = self.shape(operand);
                if o.axis + 1 == x.rank() {
                    return same_rows();
                }
                if let PadMode::Constant(_) = o.mode {
                    let rows = part_rows((o.axis, o.before), x, out, rows);
                    return self.cut(operand, x.rows(), &rows);
                }
                let block: usize = out[o.axis..out.rank() - 1].iter().product();
                let outer: usize = x[..o.axis].iter().product();
                self.cut(
                    operand,
                    outer,
                    &(rows.start / block..rows.end.div_ceil(block)),
                )
            }
            _ => all,
        }
    }

    /// Rows of one operand of a concat that lie in the given output rows.
    fn concat_rows(&self, o: &Concat, i: usize, out: Shape, rows: &Range<usize>) -> Range<usize> {
        if o.axis + 1 == out.rank() {
            return rows.clone();
        }
        let before: usize = o.xs[..i].iter().map(|&x| self.shape(x)[o.axis]).sum();
        part_rows((o.axis, before), self.shape(o.xs[i]), out, rows)
    }
}

/// Rows of `x` that lie in the given rows of `out`, which has it from `before` on along `axis`, as one
/// covering range.
fn part_rows(
    (axis, before): (usize, usize),
    x: Shape,
    out: Shape,
    rows: &Range<usize>,
) -> Range<usize> {
    let inner: usize = out[axis + 1..out.rank() - 1].iter().product();
    let (block, mine) = (out[axis] * inner, x[axis] * inner);
    // Output row -> number of rows of `x` before it.
    let at = |r: usize| r / block * mine + (r % block).saturating_sub(before * inner).min(mine);
    let part = at(rows.start)..at(rows.end);
    // None are none at the start: behind the last there may be no memory.
    if part.is_empty() { 0..0 } else { part }
}

/// Product of all but the last `tail` dimensions.
fn leading(s: Shape, tail: usize) -> usize {
    s[..s.rank().saturating_sub(tail)].iter().product()
}

/// Values of `x` among which are those of the given rows of the permuted `out`: of the outermost
/// dimension in which the rows differ those they have, of the ones within it all.
fn permuted(x: Shape, out: Shape, o: &Permute, rows: &Range<usize>) -> Range<usize> {
    let strides = x.strides();
    let (mut first, mut last) = (0, 0);
    let mut size = out.rows();
    let mut same = true;
    for (d, &from) in o.perm.iter().enumerate() {
        let len = out[d];
        let (low, high) = if same && d + 1 < out.rank() {
            size /= len.max(1);
            let at = |row: usize| row / size.max(1) % len.max(1);
            (at(rows.start), at(rows.end - 1))
        } else {
            (0, len.max(1) - 1)
        };
        same &= low == high;
        first += low * strides[from];
        last += high * strides[from];
    }
    first..last + 1
}

fn batch_and_positions(x: Shape) -> (usize, usize) {
    (x[0], x[1..x.rank() - 1].iter().product())
}

/// Input rows `(b, t, h)` that the output rows `(b, t, h)` read. Both ends grow with the output row.
fn conv_input_rows(g: &Graph, o: &Conv, out: Shape, rows: &Range<usize>) -> Range<usize> {
    let (Some([_, t_in, h_in, ..]), Some([_, t_out, h_out, ..]), Some([_, kt, kh, ..])) = (
        g.shape(o.x).as_video(),
        out.as_video(),
        g.shape(o.w).as_video(),
    ) else {
        return 0..0;
    };
    let at = |row: usize, tap_t: usize, tap_h: usize| {
        let (bt, y) = (row / h_out, row % h_out);
        let (b, t) = (bt / t_out, bt % t_out);
        let y = (y * o.stride[1] + tap_h * o.dilation[0]).saturating_sub(o.pad[0]) / o.upsample;
        (b * t_in + t * o.stride[0] + tap_t) * h_in + y.min(h_in - 1)
    };
    at(rows.start, 0, 0)..at(rows.end - 1, kt - 1, kh - 1) + 1
}

fn resampled_rows(op: &Op, x: Shape, out: Shape, rows: &Range<usize>) -> Range<usize> {
    let (h_in, h_out) = (x[x.rank() - 3], out[out.rank() - 3]);
    // (first, last) input row of output row y
    let span = |y: usize| match op {
        Op::Upsample(o) => {
            let reach = usize::from(matches!(o.mode, crate::UpsampleMode::Bilinear));
            let y = y / o.factor[0];
            (y.saturating_sub(reach), (y + reach).min(h_in - 1))
        }
        Op::AvgPool(o) => (y * o.size, (y + 1) * o.size - 1),
        _ => (0, h_in - 1),
    };
    let (first, last) = (rows.start, rows.end - 1);
    first / h_out * h_in + span(first % h_out).0..last / h_out * h_in + span(last % h_out).1 + 1
}
