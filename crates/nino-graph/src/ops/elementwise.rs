//! Functions of single values: activations, gates, arithmetic of two operands, casts.

use super::check::{Inferred, activation, is_activation, like, wrong};
use super::{Facts, InPlace, OpDef, Operand, Part, Rows, Scratch, Traffic, map_all};
use crate::{Graph, Kind, Node, Shape};
use nino_dtype::DType;

/// A function of one value, alone or at the end of another op.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Act {
    Silu,
    /// x/2 · (1 + erf(x/√2))
    Gelu,
    /// x/2 · (1 + tanh(√(2/π)·(x + 0.044715 x³)))
    GeluTanh,
    /// x · sigmoid(1.702 x)
    QuickGelu,
    Relu,
    /// x where it is not negative, else x · slope
    LeakyRelu {
        slope: f32,
    },
    Sigmoid,
    Tanh,
    Clamp {
        lo: f32,
        hi: f32,
    },
    /// x · mul + add
    Affine {
        mul: f32,
        add: f32,
    },
}

/// A function of each value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Unary {
    pub x: Node,
    pub act: Act,
}

/// x `[.., 2d]` → `[.., d]`: its first half times the activated second half (GEGLU, `SwiGLU`).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gate {
    pub x: Node,
    pub act: Act,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BinaryFn {
    Add,
    Sub,
    Mul,
    Div,
}

/// Elementwise with `NumPy`'s broadcasting; the result has a's dtype.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Binary {
    pub a: Node,
    pub b: Node,
    pub f: BinaryFn,
}

/// The same values in another storage type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cast {
    pub x: Node,
    pub dtype: DType,
}

impl Graph {
    #[track_caller]
    pub fn act(&mut self, x: Node, act: Act) -> Node {
        self.push(Unary { x, act })
    }

    #[track_caller]
    pub fn silu(&mut self, x: Node) -> Node {
        self.act(x, Act::Silu)
    }

    #[track_caller]
    pub fn affine(&mut self, x: Node, mul: f32, add: f32) -> Node {
        self.act(x, Act::Affine { mul, add })
    }

    /// The first half of the last axis times the activated second half.
    #[track_caller]
    pub fn gate(&mut self, x: Node, act: Act) -> Node {
        self.push(Gate { x, act })
    }

    #[track_caller]
    pub fn add(&mut self, a: Node, b: Node) -> Node {
        let f = BinaryFn::Add;
        self.push(Binary { a, b, f })
    }

    #[track_caller]
    pub fn sub(&mut self, a: Node, b: Node) -> Node {
        let f = BinaryFn::Sub;
        self.push(Binary { a, b, f })
    }

    #[track_caller]
    pub fn mul(&mut self, a: Node, b: Node) -> Node {
        let f = BinaryFn::Mul;
        self.push(Binary { a, b, f })
    }

    #[track_caller]
    pub fn cast(&mut self, x: Node, dtype: DType) -> Node {
        self.push(Cast { x, dtype })
    }
}

fn broadcast(a: Shape, b: Shape) -> Option<Shape> {
    let rank = a.rank().max(b.rank());
    let dim = |s: &Shape, i: usize| (i + s.rank()).checked_sub(rank).map_or(1, |j| s[j]);
    let dims: Option<Vec<usize>> = (0..rank)
        .map(|i| match (dim(&a, i), dim(&b, i)) {
            (x, y) if x == y => Some(x),
            (1, y) => Some(y),
            (x, 1) => Some(x),
            _ => None,
        })
        .collect();
    Some(Shape::new(&dims?))
}

impl OpDef for Unary {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.x = f(self.x);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        activation(g, self.x)?;
        Ok(like(g, self.x))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        let shape = g.shape(out);
        Facts {
            flops: shape.numel() as f64,
            traffic: Traffic::EachOnce,
            rows: Rows::Result(shape.rows()),
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

impl OpDef for Gate {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.x = f(self.x);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        activation(g, self.x)?;
        let s = g.shape(self.x);
        if s.rank() == 0 || !s.last_dim().is_multiple_of(2) {
            wrong!("a gate wants two halves, the shape is {s}");
        }
        Ok((s.with_last(s.last_dim() / 2), g.dtype(self.x)))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        let shape = g.shape(out);
        Facts {
            flops: 2.0 * shape.numel() as f64,
            traffic: Traffic::EachOnce,
            rows: Rows::Result(shape.rows()),
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

impl OpDef for Binary {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        map_all(&mut [&mut self.a, &mut self.b], f);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        activation(g, self.a)?;
        let (a, b) = (g.shape(self.a), g.shape(self.b));
        let Some(shape) = broadcast(a, b) else {
            wrong!("{a} and {b} do not broadcast")
        };
        Ok((shape, g.dtype(self.a)))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        let shape = g.shape(out);
        Facts {
            flops: shape.numel() as f64,
            traffic: Traffic::EachOnce,
            rows: Rows::Result(shape.rows()),
            blocks: vec![],
            scratch: Scratch::None,
            in_place: InPlace::OverEither(self.a, self.b),
            kind: Kind::Other,
        }
    }

    fn reads(&self, operand: &Operand<'_>) -> Part {
        if operand.shape == operand.out {
            Part::SameRows
        } else {
            Part::All
        }
    }
}

impl OpDef for Cast {
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node) {
        self.x = f(self.x);
    }

    fn infer(&self, g: &Graph) -> Inferred {
        activation(g, self.x)?;
        if !is_activation(self.dtype) {
            wrong!("activations are f32, f16 or bf16, not {}", self.dtype);
        }
        Ok((g.shape(self.x), self.dtype))
    }

    fn facts(&self, g: &Graph, out: Node) -> Facts {
        Facts {
            flops: 0.0,
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
