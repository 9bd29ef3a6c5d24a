//! Products of matrices: with weights, and of two activations.

use super::check::{Inferred, Mistake, activation, expect_shape, weight, wrong};
use super::{Act, Facts, InPlace, OpDef, Operand, Part, Prologue, Rows, Scratch, Traffic};
use super::{map_all, map_some};
use crate::{Graph, Kind, Node, Shape};

/// `x [.., k] · wᵀ`, w `[n, k]` → `[.., n]`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Linear {
    pub x: Node,
    pub w: Node,
    /// The rows of `w` that are used, with their entries of the epilogue's scale and bias; all of
    /// them where nothing is said. Only for devices whose [`Rewrites`](crate::Rewrites) ask for it.
    pub rows: Option<WeightRows>,
    pub pre: Option<Prologue>,
    pub epi: Epilogue,
    /// The result is halved, as by a [`Gate`](crate::Gate) with this activation behind it:
    /// `[.., n]` → `[.., n/2]`. Only for devices whose [`Rewrites`](crate::Rewrites) ask for it.
    pub gate: Option<Act>,
}

/// Some rows of a weight, one behind the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WeightRows {
    pub first: usize,
    pub count: usize,
}

/// What follows the accumulation: `post(act(acc * scale + bias) * factor + residual)`, or the same
/// with `* multiplier` in the place of `+ residual`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Epilogue {
    /// `[cout]`, for weights that are stored divided by it.
    pub scale: Option<Node>,
    /// `[cout]`
    pub bias: Option<Node>,
    pub act: Option<Act>,
    /// An activation of one row, `[.., cout]`. Only of linear layers, for devices whose
    /// [`Rewrites`](crate::Rewrites) ask for it.
    pub factor: Option<Node>,
    /// Same shape as the output.
    pub residual: Option<Node>,
    /// Same shape as the output; never with a residual. Only of linear layers, for devices whose
    /// [`Rewrites`](crate::Rewrites) ask for it.
    pub multiplier: Option<Node>,
    pub post: Option<Act>,
}

/// Batched product of activations: a `[.., m, k]`, b `[.., k, n]` (or `[.., n, k]` when
/// `b_transposed`) with equal leading dimensions → `[.., m, n]`, times `scale`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MatMul {
    pub a: Node,
    pub b: Node,
    pub b_transposed: bool,
    pub scale: f32,
}

impl Graph {
    /// x `[.., k]`, w `[n, k]` → `[.., n]`
    #[track_caller]
    pub fn linear(&mut self, x: Node, w: Node, bias: Option<Node>) -> Node {
        self.push(Linear {
            x,
            w,
            rows: None,
            pre: None,
            epi: Epilogue::bias(bias),
            gate: None,
        })
    }

    /// a `[.., m, k]` · b `[.., k, n]`
    #[track_caller]
    pub fn matmul(&mut self, a: Node, b: Node) -> Node {
        self.push(MatMul {
            a,
            b,
            b_transposed: false,
            scale: 1.0,
        })
    }
}

impl Graph {
    /// x `[.., k]`, w `[n, k]` → `[.., n]`, with what follows the accumulation.
    #[track_caller]
    pub fn scaled_linear(&mut self, x: Node, w: Node, epi: Epilogue) -> Node {
        self.push(Linear {
            x,
            w,
            rows: None,
            pre: None,
            epi,
            gate: None,
        })
    }
}

impl Epilogue {
    /// A bias and nothing else.
    pub fn bias(bias: Option<Node>) -> Epilogue {
        Epilogue {
            bias,
            ..Epilogue::default()
        }
    }

    /// The value of the result's shape that is added or multiplied.
    pub fn beside(&self) -> Option<Node> {
        self.residual.or(self.multiplier)
    }

    pub(super) fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        map_some(
            &mut [
                &mut self.scale,
                &mut self.bias,
                &mut self.factor,
                &mut self.residual,
                &mut self.multiplier,
            ],
            f,
        );
    }

    /// Checks the operands against the shape of the result and the rows of the weight.
    pub(super) fn check(&self, g: &Graph, out: Shape, rows: usize) -> Result<(), Mistake> {
        for (name, vector) in [("scale", self.scale), ("bias", self.bias)] {
            if let Some(vector) = vector {
                expect_shape(g, name, vector, [rows].into())?;
            }
        }
        if let Some(factor) = self.factor {
            activation(g, factor)?;
            let shape = g.shape(factor);
            if shape.rows() != 1 || shape.last_dim() != out.last_dim() {
                wrong!(
                    "factor is {shape}, the result has rows of {}",
                    out.last_dim()
                );
            }
        }
        if self.residual.is_some() && self.multiplier.is_some() {
            wrong!("a residual and a multiplier");
        }
        for (name, value) in [("residual", self.residual), ("multiplier", self.multiplier)] {
            if let Some(value) = value {
                activation(g, value)?;
                expect_shape(g, name, value, out)?;
            }
        }
        Ok(())
    }
}

impl Linear {
    /// Columns of the product: the rows of the weight that are used.
    pub fn columns(&self, g: &Graph) -> usize {
        self.rows.map_or(g.shape(self.w)[0], |rows| rows.count)
    }
}

impl OpDef for Linear {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        map_all(&mut [&mut self.x, &mut self.w], f);
        self.pre.iter_mut().for_each(|p| p.map_operands(f));
        self.epi.map_operands(f);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        activation(g, self.x)?;
        let (x, w) = (g.shape(self.x), g.shape(self.w));
        if w.rank() != 2 || x.rank() == 0 || w[1] != x.last_dim() {
            wrong!("x is {x}, w must be [n, {}] but is {w}", x.last_dim());
        }
        weight(g, self.w)?;
        if let Some(pre) = &self.pre {
            pre.check(g, self.x)?;
        }
        if let Some(WeightRows { first, count }) = self.rows
            && first.checked_add(count).is_none_or(|end| end > w[0])
        {
            wrong!("w has {} rows, not {count} from {first} on", w[0]);
        }
        let n = self.columns(g);
        let shape = x.with_last(n);
        self.epi.check(g, shape, w[0])?;
        let shape = match self.gate {
            Some(_) if !n.is_multiple_of(2) => wrong!("{n} columns cannot be halved"),
            Some(_) => x.with_last(n / 2),
            None => shape,
        };
        Ok((shape, g.dtype(self.x)))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        let rows = g.shape(out).rows();
        let used = self.columns(g) * g.shape(self.w).last_dim();
        Facts {
            flops: 2.0 * (rows * used) as f64,
            traffic: Traffic::EachOnce,
            rows: Rows::Result(rows),
            blocks: vec![],
            scratch: Scratch::Decoded {
                x: self.x,
                w: self.w,
                values: used,
                rounds: self.pre.is_none()
                    && self.gate.is_none()
                    && self.columns(g).is_multiple_of(4),
            },
            in_place: InPlace::OverResidual(self.epi.beside()),
            kind: Kind::Linear {
                x: g.dtype(self.x),
                w: g.dtype(self.w),
            },
        }
    }

    fn reads(&self, operand: &Operand<'_>) -> Part {
        if operand.index == 0 || self.epi.beside() == Some(operand.node) {
            Part::SameRows
        } else {
            Part::All
        }
    }
}

impl OpDef for MatMul {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        map_all(&mut [&mut self.a, &mut self.b], f);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        activation(g, self.a)?;
        activation(g, self.b)?;
        let (a, b) = (g.shape(self.a), g.shape(self.b));
        let r = a.rank();
        if r < 2 || b.rank() != r || a[..r - 2] != b[..r - 2] {
            wrong!("a is {a}, b is {b}");
        }
        let (k, n) = if self.b_transposed {
            (b[r - 1], b[r - 2])
        } else {
            (b[r - 2], b[r - 1])
        };
        if a[r - 1] != k {
            wrong!(
                "a is {a}, b{} is {b}",
                if self.b_transposed {
                    " (transposed)"
                } else {
                    ""
                }
            );
        }
        Ok((a.with_last(n), g.dtype(self.a)))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        let shape = g.shape(out);
        Facts {
            flops: 2.0 * shape.numel() as f64 * g.shape(self.a).last_dim() as f64,
            traffic: Traffic::EachOnce,
            rows: Rows::Result(shape.rows()),
            blocks: vec![],
            scratch: Scratch::None,
            in_place: InPlace::Never,
            kind: Kind::Attention { x: g.dtype(self.a) },
        }
    }

    fn reads(&self, operand: &Operand<'_>) -> Part {
        if operand.index == 0 {
            return Part::SameRows;
        }
        // Each matrix of the batch is `m` rows of the result and needs its own `b`.
        let m = operand.out[operand.out.rank() - 2];
        Part::Pieces {
            count: operand.out.leading(2),
            pieces: operand.rows.start / m..operand.rows.end.div_ceil(m),
        }
    }
}
