//! Values put together, taken apart and padded along one axis.

use super::check::{Inferred, wrong};
use super::{Facts, InPlace, OpDef, Operand, Part, Rows, Scratch, Traffic};
use crate::{Graph, Kind, Node};
use std::ops::Range;

/// The operands one behind the other along an axis.
#[derive(Clone, Debug, PartialEq)]
pub struct Concat {
    pub xs: Vec<Node>,
    pub axis: usize,
}

/// Elements `start..end` of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    pub x: Node,
    pub axis: usize,
    pub start: usize,
    pub end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum PadMode {
    Constant(f32),
    Replicate,
    /// Mirrors without repeating the border.
    Reflect,
}

/// Elements added before and after those of an axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pad {
    pub x: Node,
    pub axis: usize,
    pub before: usize,
    pub after: usize,
    pub mode: PadMode,
}

impl Graph {
    #[track_caller]
    pub fn concat(&mut self, xs: &[Node], axis: usize) -> Node {
        let xs = xs.to_vec();
        self.push(Concat { xs, axis })
    }

    #[track_caller]
    pub fn slice(&mut self, x: Node, axis: usize, start: usize, end: usize) -> Node {
        self.push(Slice {
            x,
            axis,
            start,
            end,
        })
    }

    #[track_caller]
    pub fn pad(
        &mut self,
        x: Node,
        axis: usize,
        before: usize,
        after: usize,
        mode: PadMode,
    ) -> Node {
        self.push(Pad {
            x,
            axis,
            before,
            after,
            mode,
        })
    }
}

/// Rows of a part of the result that lie in the given rows of the result, as one covering range.
/// The part begins at element `before` of `axis`.
fn rows_of_part(operand: &Operand<'_>, axis: usize, before: usize) -> Range<usize> {
    let (part, out) = (operand.shape, operand.out);
    let inner: usize = out[axis + 1..out.rank() - 1].iter().product();
    let (block, mine) = (out[axis] * inner, part[axis] * inner);
    // Row of the result -> number of rows of the part before it.
    let at = |r: usize| r / block * mine + (r % block).saturating_sub(before * inner).min(mine);
    let rows = at(operand.rows.start)..at(operand.rows.end);
    // An empty range is 0..0: an offset past the last row may be outside of memory.
    if rows.is_empty() { 0..0 } else { rows }
}

/// What all ops that only move values have in common.
pub(super) fn moves(g: &Graph, out: Node, traffic: Traffic, blocks: Vec<usize>) -> Facts {
    Facts {
        flops: 0.0,
        traffic,
        rows: Rows::Result(g.shape(out).rows()),
        blocks,
        scratch: Scratch::None,
        in_place: InPlace::Never,
        kind: Kind::Other,
    }
}

impl OpDef for Concat {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.xs.iter_mut().for_each(|x| *x = f(*x));
    }

    fn infer(&self, g: &Graph) -> Inferred {
        let Some(&first) = self.xs.first() else {
            wrong!("no operands")
        };
        let mut shape = g.shape(first);
        if self.axis >= shape.rank() {
            wrong!("axis {} of shape {shape}", self.axis);
        }
        for &x in &self.xs[1..] {
            let s = g.shape(x);
            let same = s.rank() == shape.rank()
                && (0..s.rank()).all(|i| i == self.axis || s[i] == shape[i])
                && g.dtype(x) == g.dtype(first);
            if !same {
                wrong!(
                    "{} {} and {} {s} along axis {}",
                    g.dtype(first),
                    g.shape(first),
                    g.dtype(x),
                    self.axis
                );
            }
            shape[self.axis] += s[self.axis];
        }
        Ok((shape, g.dtype(first)))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        moves(g, out, Traffic::EachOnce, vec![])
    }

    fn reads(&self, operand: &Operand<'_>) -> Part {
        if self.axis + 1 == operand.out.rank() {
            return Part::SameRows;
        }
        let sizes = self.xs[..operand.index].iter();
        let before: usize = sizes.map(|&x| operand.graph.shape(x)[self.axis]).sum();
        Part::Pieces {
            count: operand.shape.rows(),
            pieces: rows_of_part(operand, self.axis, before),
        }
    }
}

impl OpDef for Slice {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.x = f(self.x);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        let mut s = g.shape(self.x);
        if self.axis >= s.rank() || self.start >= self.end || self.end > s[self.axis] {
            wrong!(
                "{}..{} of axis {} of shape {s}",
                self.start,
                self.end,
                self.axis
            );
        }
        s[self.axis] = self.end - self.start;
        Ok((s, g.dtype(self.x)))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        moves(g, out, Traffic::AsWritten, vec![])
    }

    fn reads(&self, operand: &Operand<'_>) -> Part {
        let (x, out, rows) = (operand.shape, operand.out, &operand.rows);
        if self.axis + 1 == x.rank() {
            return Part::SameRows;
        }
        let inner: usize = x[self.axis + 1..x.rank() - 1].iter().product();
        let (block_in, block_out) = (x[self.axis] * inner, out[self.axis] * inner);
        let at = |r: usize| r / block_out * block_in + self.start * inner + r % block_out;
        Part::Pieces {
            count: x.rows(),
            pieces: at(rows.start)..at(rows.end - 1) + 1,
        }
    }
}

impl OpDef for Pad {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.x = f(self.x);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        let mut s = g.shape(self.x);
        if self.axis >= s.rank() {
            wrong!("axis {} of shape {s}", self.axis);
        }
        if self.mode == PadMode::Reflect && self.before.max(self.after) >= s[self.axis] {
            wrong!(
                "reflecting {} and {} of axis {} of shape {s}",
                self.before,
                self.after,
                self.axis
            );
        }
        s[self.axis] += self.before + self.after;
        Ok((s, g.dtype(self.x)))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        moves(g, out, Traffic::EachOnce, vec![])
    }

    fn reads(&self, operand: &Operand<'_>) -> Part {
        let (x, out, rows) = (operand.shape, operand.out, &operand.rows);
        if self.axis + 1 == x.rank() {
            return Part::SameRows;
        }
        if let PadMode::Constant(_) = self.mode {
            return Part::Pieces {
                count: x.rows(),
                pieces: rows_of_part(operand, self.axis, self.before),
            };
        }
        // Padding repeats values from anywhere in the axis, so what lies outside of it is cut.
        let block: usize = out[self.axis..out.rank() - 1].iter().product();
        Part::Pieces {
            count: x[..self.axis].iter().product(),
            pieces: rows.start / block..rows.end.div_ceil(block),
        }
    }
}
