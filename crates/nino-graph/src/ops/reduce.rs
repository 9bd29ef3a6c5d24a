//! Statistics for norms, and reductions of one axis.

use super::check::{Inferred, activation, wrong};
use super::{Facts, InPlace, NormKind, OpDef, Operand, Part, Rows, Scratch, Traffic};
use crate::{Graph, Kind, Node, Shape};
use nino_dtype::DType;

/// What one mean and variance cover.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Over {
    /// This many groups of consecutive channels, over all positions of one batch element.
    Groups(usize),
    /// The last dimension of each row.
    Rows,
}

/// (mean, 1/√(var + eps)) as f32: `[b, groups, 2]` or `[rows, 2]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stats {
    pub x: Node,
    pub over: Over,
    pub kind: NormKind,
    pub eps: f32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReduceFn {
    Sum,
    Mean,
    Max,
}

/// Reduces one axis to size 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reduce {
    pub x: Node,
    pub axis: usize,
    pub f: ReduceFn,
}

impl Graph {
    #[track_caller]
    pub fn reduce(&mut self, x: Node, axis: usize, f: ReduceFn) -> Node {
        self.push(Reduce { x, axis, f })
    }
}

/// Positions of one batch element are cut into this many chunks for grouped statistics; chunk `i`
/// covers `i·len .. (i+1)·len` with `len = positions.div_ceil(chunks)`, clipped at the end.
pub fn stat_chunks(positions: usize) -> usize {
    const CHUNKS: usize = 512;
    // The longest chunk of the widest values is still less than every device binds.
    const LENGTHS: (usize, usize) = (16, 1 << 15);
    let len = positions.div_ceil(CHUNKS).clamp(LENGTHS.0, LENGTHS.1);
    positions.div_ceil(len).max(1)
}

fn batch_and_positions(x: Shape) -> (usize, usize) {
    (x[0], x[1..x.rank() - 1].iter().product())
}

impl OpDef for Stats {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.x = f(self.x);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        activation(g, self.x)?;
        let s = g.shape(self.x);
        match self.over {
            Over::Groups(groups) => {
                if s.rank() < 2 || groups == 0 || !s.last_dim().is_multiple_of(groups) {
                    wrong!("{groups} groups over shape {s}");
                }
                Ok(([s[0], groups, 2].into(), DType::F32))
            }
            Over::Rows => Ok(([s.rows(), 2].into(), DType::F32)),
        }
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        let x = g.shape(self.x);
        let (rows, scratch) = match self.over {
            // Chunks of positions, whose partial sums wait in scratch: `[b, chunks, groups, 2]` f32
            // of (mean, sum of squared deviations).
            Over::Groups(groups) => {
                let (b, positions) = batch_and_positions(x);
                let chunks = b * stat_chunks(positions);
                (
                    Rows::Operand(chunks),
                    Scratch::Bytes(chunks * groups * 2 * 4),
                )
            }
            Over::Rows => (Rows::Result(g.shape(out)[0]), Scratch::None),
        };
        Facts {
            flops: 3.0 * x.numel() as f64,
            traffic: Traffic::EachOnce,
            rows,
            blocks: vec![],
            scratch,
            in_place: InPlace::Never,
            kind: Kind::Other,
        }
    }

    fn reads(&self, operand: &Operand<'_>) -> Part {
        let Over::Groups(_) = self.over else {
            return Part::SameRows;
        };
        let (b, positions) = batch_and_positions(operand.shape);
        let chunks = stat_chunks(positions);
        let len = positions.div_ceil(chunks);
        let at = |chunk: usize| chunk / chunks * positions + (chunk % chunks * len).min(positions);
        Part::Pieces {
            count: b * positions,
            pieces: at(operand.rows.start)..at(operand.rows.end),
        }
    }
}

impl OpDef for Reduce {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.x = f(self.x);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        activation(g, self.x)?;
        let mut s = g.shape(self.x);
        if self.axis >= s.rank() {
            wrong!("axis {} of shape {s}", self.axis);
        }
        s[self.axis] = 1;
        Ok((s, g.dtype(self.x)))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        Facts {
            flops: g.shape(self.x).numel() as f64,
            traffic: Traffic::EachOnce,
            rows: Rows::Result(g.shape(out)[..self.axis].iter().product()),
            blocks: vec![],
            scratch: Scratch::None,
            in_place: InPlace::Never,
            kind: Kind::Other,
        }
    }

    fn reads(&self, _: &Operand<'_>) -> Part {
        Part::SameRows
    }
}
