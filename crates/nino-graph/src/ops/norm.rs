//! Norms of rows or by a table of statistics, and softmax.

use super::check::{Inferred, Mistake, activation, expect_dtype, expect_shape, like, wrong};
use super::{Act, Facts, InPlace, OpDef, Operand, Part, Rows, Scratch, Traffic, map_some};
use crate::{Graph, Kind, Node};
use nino_dtype::DType;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NormKind {
    /// (x − mean) / √(var + eps)
    Layer,
    /// x / √(mean(x²) + eps): the mean in the table is 0
    Rms,
}

/// Normalizes an operand as it is read: `act((x − mean) · rstd · weight + bias)`. Padding is added
/// after it, so padded positions stay zero.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prologue {
    /// Output of a [`Stats`](crate::Stats) op over the same operand.
    pub stats: Node,
    /// `[c]`
    pub weight: Option<Node>,
    /// `[c]`
    pub bias: Option<Node>,
    pub act: Option<Act>,
}

/// Applies a table of [`Stats`](crate::Stats): see [`Prologue`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normalize {
    pub x: Node,
    pub norm: Prologue,
}

/// Layer or RMS norm over the last dimension in one op:
/// `residual + gate · act((norm(x) · weight + bias) · (1 + scale) + shift)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowNorm {
    pub x: Node,
    pub kind: NormKind,
    pub eps: f32,
    pub weight: Option<Node>,
    pub bias: Option<Node>,
    /// `[b, d]`, one row per batch element.
    pub scale: Option<Node>,
    /// `[b, d]`
    pub shift: Option<Node>,
    pub act: Option<Act>,
    /// One row per batch element. Only for devices whose [`Rewrites`](crate::Rewrites) ask for it,
    /// as the residual.
    pub gate: Option<Node>,
    /// Same shape as x.
    pub residual: Option<Node>,
}

/// Softmax over the last dimension.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Softmax {
    pub x: Node,
}

impl Graph {
    #[track_caller]
    pub fn layer_norm(
        &mut self,
        x: Node,
        weight: Option<Node>,
        bias: Option<Node>,
        eps: f32,
    ) -> Node {
        self.push(RowNorm::plain(x, NormKind::Layer, weight, bias, eps))
    }

    #[track_caller]
    pub fn rms_norm(&mut self, x: Node, weight: Option<Node>, eps: f32) -> Node {
        self.push(RowNorm::plain(x, NormKind::Rms, weight, None, eps))
    }

    #[track_caller]
    pub fn softmax(&mut self, x: Node) -> Node {
        self.push(Softmax { x })
    }
}

impl NormKind {
    /// Whether the mean is subtracted.
    pub fn centers(self) -> bool {
        self == NormKind::Layer
    }
}

impl RowNorm {
    /// Whether neither a gate nor a residual follows.
    pub fn is_alone(&self) -> bool {
        self.gate.is_none() && self.residual.is_none()
    }

    /// A norm without modulation, activation, gate and residual.
    pub fn plain(
        x: Node,
        kind: NormKind,
        weight: Option<Node>,
        bias: Option<Node>,
        eps: f32,
    ) -> RowNorm {
        RowNorm {
            x,
            kind,
            eps,
            weight,
            bias,
            scale: None,
            shift: None,
            act: None,
            gate: None,
            residual: None,
        }
    }
}

impl Prologue {
    pub(super) fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.stats = f(self.stats);
        map_some(&mut [&mut self.weight, &mut self.bias], f);
    }

    /// Checks the table and the vectors against the operand they normalize.
    pub(super) fn check(&self, g: &Graph, x: Node) -> Result<(), Mistake> {
        let (x, stats) = (g.shape(x), g.shape(self.stats));
        expect_dtype(g, self.stats, DType::F32)?;
        let fits = match *stats {
            [b, groups, 2] => b == x[0] && groups > 0 && x.last_dim().is_multiple_of(groups),
            [rows, 2] => rows == x.rows(),
            _ => false,
        };
        if !fits {
            wrong!("x is {x}, stats are {stats}");
        }
        for n in [self.weight, self.bias].into_iter().flatten() {
            expect_shape(g, "norm weight or bias", n, [x.last_dim()].into())?;
        }
        Ok(())
    }
}

/// Operations on one value by a norm, and one more where an activation follows.
fn norm_flops(g: &Graph, out: Node, act: Option<Act>) -> f64 {
    (8.0 + f64::from(u8::from(act.is_some()))) * g.shape(out).numel() as f64
}

impl OpDef for Normalize {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.x = f(self.x);
        self.norm.map_operands(f);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        activation(g, self.x)?;
        self.norm.check(g, self.x)?;
        Ok(like(g, self.x))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        Facts {
            flops: norm_flops(g, out, self.norm.act),
            traffic: Traffic::EachOnce,
            rows: Rows::Result(g.shape(out).rows()),
            blocks: vec![],
            scratch: Scratch::None,
            in_place: InPlace::Over(self.x),
            kind: Kind::Other,
        }
    }

    fn reads(&self, operand: &Operand<'_>) -> Part {
        match operand.index {
            0 => Part::SameRows,
            _ => Part::All,
        }
    }
}

impl OpDef for RowNorm {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.x = f(self.x);
        let RowNorm {
            weight,
            bias,
            scale,
            shift,
            gate,
            residual,
            ..
        } = self;
        map_some(&mut [weight, bias, scale, shift, gate, residual], f);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        activation(g, self.x)?;
        let x = g.shape(self.x);
        if x.rank() < 2 {
            wrong!("x is {x}: rows need at least two dimensions");
        }
        for n in [self.weight, self.bias].into_iter().flatten() {
            expect_shape(g, "weight or bias", n, [x.last_dim()].into())?;
        }
        for n in [self.scale, self.shift].into_iter().flatten() {
            expect_shape(g, "scale or shift", n, [x[0], x.last_dim()].into())?;
        }
        if let Some(gate) = self.gate {
            activation(g, gate)?;
            let shape = g.shape(gate);
            if (shape.rows(), shape.last_dim()) != (x[0], x.last_dim()) {
                wrong!("gate is {shape}, x is {x}");
            }
        }
        if let Some(residual) = self.residual {
            activation(g, residual)?;
            expect_shape(g, "residual", residual, x)?;
        }
        Ok(like(g, self.x))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        Facts {
            flops: norm_flops(g, out, self.act),
            traffic: Traffic::EachOnce,
            rows: Rows::Result(g.shape(out).rows()),
            blocks: vec![],
            scratch: Scratch::None,
            in_place: InPlace::Over(self.x),
            kind: Kind::Other,
        }
    }

    fn reads(&self, operand: &Operand<'_>) -> Part {
        if operand.index == 0 || self.residual == Some(operand.node) {
            Part::SameRows
        } else {
            Part::All
        }
    }
}

impl OpDef for Softmax {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.x = f(self.x);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        activation(g, self.x)?;
        Ok(like(g, self.x))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        Facts {
            flops: 8.0 * g.shape(out).numel() as f64,
            traffic: Traffic::EachOnce,
            rows: Rows::Result(g.shape(out).rows()),
            blocks: vec![],
            scratch: Scratch::None,
            in_place: InPlace::Over(self.x),
            kind: Kind::Other,
        }
    }

    fn reads(&self, _: &Operand<'_>) -> Part {
        Part::SameRows
    }
}
