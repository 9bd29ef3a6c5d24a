//! Images enlarged, and made smaller by averages.

use super::check::{Inferred, image, wrong};
use super::{Facts, InPlace, OpDef, Operand, Part, Rows, Scratch, Traffic};
use crate::{Graph, Kind, Node};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpsampleMode {
    Nearest,
    /// Half-pixel centers (`align_corners = false`).
    Bilinear,
}

/// Enlarges h and w of `[.., h, w, c]` by whole factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Upsample {
    pub x: Node,
    /// `[h, w]`
    pub factor: [usize; 2],
    pub mode: UpsampleMode,
}

/// Mean over `size × size` windows of `[.., h, w, c]`, stride = size, remainder dropped.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AvgPool {
    pub x: Node,
    pub size: usize,
}

impl Graph {
    #[track_caller]
    pub fn upsample(&mut self, x: Node, factor: usize, mode: UpsampleMode) -> Node {
        let factor = [factor; 2];
        self.push(Upsample { x, factor, mode })
    }

    #[track_caller]
    pub fn avg_pool(&mut self, x: Node, size: usize) -> Node {
        self.push(AvgPool { x, size })
    }
}

/// Rows of the input for the given rows of the result, where `span` gives the first and the last
/// row of an image that row `y` of its result reads.
fn input_rows(operand: &Operand<'_>, span: impl Fn(usize) -> (usize, usize)) -> Part {
    let (x, out) = (operand.shape, operand.out);
    let (h_in, h_out) = (x[x.rank() - 3], out[out.rank() - 3]);
    let (first, last) = (operand.rows.start, operand.rows.end - 1);
    let start = first / h_out * h_in + span(first % h_out).0;
    let end = last / h_out * h_in + span(last % h_out).1 + 1;
    Part::Pieces {
        count: x.leading(2),
        pieces: start..end,
    }
}

impl OpDef for Upsample {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.x = f(self.x);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        let mut s = image(g, self.x)?;
        if self.factor.contains(&0) {
            wrong!("factor {:?} of shape {s}", self.factor);
        }
        let r = s.rank();
        s[r - 3] *= self.factor[0];
        s[r - 2] *= self.factor[1];
        Ok((s, g.dtype(self.x)))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        let shape = g.shape(out);
        Facts {
            flops: shape.numel() as f64,
            traffic: Traffic::EachOnce,
            rows: Rows::Result(shape.leading(2)),
            blocks: vec![],
            scratch: Scratch::None,
            in_place: InPlace::Never,
            kind: Kind::Other,
        }
    }

    fn reads(&self, operand: &Operand<'_>) -> Part {
        let h = operand.shape[operand.shape.rank() - 3];
        // A bilinear row lies between two of the input.
        let reach = usize::from(self.mode == UpsampleMode::Bilinear);
        input_rows(operand, |y| {
            let y = y / self.factor[0];
            (y.saturating_sub(reach), (y + reach).min(h - 1))
        })
    }
}

impl OpDef for AvgPool {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.x = f(self.x);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        let mut s = image(g, self.x)?;
        let r = s.rank();
        if self.size == 0 || s[r - 3] < self.size || s[r - 2] < self.size {
            wrong!("window of {} over shape {s}", self.size);
        }
        s[r - 3] /= self.size;
        s[r - 2] /= self.size;
        Ok((s, g.dtype(self.x)))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        let shape = g.shape(out);
        Facts {
            flops: shape.numel() as f64 * (self.size * self.size) as f64,
            traffic: Traffic::EachOnce,
            rows: Rows::Result(shape.leading(2)),
            blocks: vec![],
            scratch: Scratch::None,
            in_place: InPlace::Never,
            kind: Kind::Other,
        }
    }

    fn reads(&self, operand: &Operand<'_>) -> Part {
        input_rows(operand, |y| (y * self.size, (y + 1) * self.size - 1))
    }
}
