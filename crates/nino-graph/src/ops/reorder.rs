//! The same values in another order or under another shape.

use super::check::{Inferred, like, wrong};
use super::layout::moves;
use super::{Facts, OpDef, Operand, Part, Traffic};
use crate::{Graph, Node, Shape};

/// Output dimension i is input dimension `perm[i]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Permute {
    pub x: Node,
    pub perm: Vec<usize>,
}

/// Same bytes, other shape: costs nothing, shares its operand's place.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reshape {
    pub x: Node,
}

impl Graph {
    #[track_caller]
    pub fn permute(&mut self, x: Node, perm: &[usize]) -> Node {
        let perm = perm.to_vec();
        self.push(Permute { x, perm })
    }

    /// Same values in the same order under another shape.
    #[track_caller]
    pub fn reshape(&mut self, x: Node, shape: impl Into<Shape>) -> Node {
        let shape = shape.into();
        if self.error().is_none() && self.shape(x).numel() != shape.numel() {
            return self.mistake("reshape", format!("{} to {shape}", self.shape(x)));
        }
        let node = self.push(Reshape { x });
        self.value_mut(node).shape = shape;
        node
    }
}

impl OpDef for Permute {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.x = f(self.x);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        let s = g.shape(self.x);
        let mut seen = vec![false; s.rank()];
        let mut new = |p: usize| p < s.rank() && !std::mem::replace(&mut seen[p], true);
        if self.perm.len() != s.rank() || !self.perm.iter().all(|&p| new(p)) {
            wrong!("order {:?} of shape {s}", self.perm);
        }
        // Blocks hold neighbors of a row, which would no longer be neighbors.
        if g.dtype(self.x).is_block() {
            wrong!(
                "operand is {}, whose values cannot be moved one by one",
                g.dtype(self.x)
            );
        }
        let dims: Vec<usize> = self.perm.iter().map(|&p| s[p]).collect();
        Ok((Shape::new(&dims), g.dtype(self.x)))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        let shape = g.shape(out);
        // Rows that agree in more leading dimensions read closer values.
        let last = shape.rank().saturating_sub(1);
        let block = |d: usize| shape[d..last].iter().product();
        moves(g, out, Traffic::EachOnce, (1..last).map(block).collect())
    }

    /// A range that covers the values of these rows: in the outermost dimension in which the rows
    /// differ from the first row's index to the last's, in those within it everything.
    fn reads(&self, operand: &Operand<'_>) -> Part {
        let (out, rows) = (operand.out, &operand.rows);
        let strides = operand.shape.strides();
        let (mut first, mut last) = (0, 0);
        let mut size = out.rows();
        let mut same = true;
        for (d, &from) in self.perm.iter().enumerate() {
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
        Part::Pieces {
            count: operand.shape.numel(),
            pieces: first..last + 1,
        }
    }
}

impl OpDef for Reshape {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.x = f(self.x);
    }

    /// The shape is the caller's to set; see [`Graph::reshape`].
    fn infer(&self, g: &Graph) -> Inferred {
        Ok(like(g, self.x))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        moves(g, out, Traffic::Nothing, vec![])
    }

    fn reads(&self, _: &Operand<'_>) -> Part {
        Part::All
    }
}
