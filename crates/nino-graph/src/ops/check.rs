//! Checks of operands that several ops share, and how they say what is wrong.

use crate::{Graph, Node, Op, Shape};
use nino_dtype::DType;

/// What is wrong with an op's operands, in words with both shapes.
#[derive(Debug)]
pub(crate) struct Mistake(pub(crate) String);

/// Shape and dtype of an op's result, or the mistake in its operands.
pub(crate) type Inferred = Result<(Shape, DType), Mistake>;

/// Returns a [`Mistake`] with this text.
macro_rules! wrong {
    ($($arg:tt)*) => { return Err($crate::ops::Mistake(format!($($arg)*))) };
}
pub(super) use wrong;

/// Shape and dtype of `n`.
pub(super) fn like(g: &Graph, n: Node) -> (Shape, DType) {
    (g.shape(n), g.dtype(n))
}

pub(super) fn image(g: &Graph, x: Node) -> Result<Shape, Mistake> {
    activation(g, x)?;
    let s = g.shape(x);
    match s.rank() {
        4 | 5 => Ok(s),
        _ => wrong!("x is {s}: an image is [b, h, w, c], a video [b, t, h, w, c]"),
    }
}

pub(super) fn is_activation(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F16 | DType::BF16)
}

/// Arithmetic reads f32, f16 or bf16; a parameter of those types may stand for an activation.
pub(super) fn activation(g: &Graph, n: Node) -> Result<(), Mistake> {
    if !is_activation(g.dtype(n)) {
        wrong!(
            "operand is {}; activations are f32, f16 or bf16",
            g.dtype(n)
        );
    }
    Ok(())
}

pub(super) fn weight(g: &Graph, w: Node) -> Result<(), Mistake> {
    if !g.dtype(w).is_real() {
        wrong!("weights are {}, which is not a real type", g.dtype(w));
    }
    // A slice of a parameter is allowed, for parameters that are too large at once; a device may
    // still refuse to multiply with it.
    let part = matches!(g.op(w), Some(Op::Slice(o)) if g.is_param(o.x));
    if !g.is_param(w) && !part {
        wrong!("weights must be a parameter; use matmul for two activations");
    }
    Ok(())
}

pub(super) fn expect_dtype(g: &Graph, n: Node, want: DType) -> Result<(), Mistake> {
    if g.dtype(n) != want {
        wrong!(
            "operand of shape {} is {}, must be {want}",
            g.shape(n),
            g.dtype(n)
        );
    }
    Ok(())
}

pub(super) fn expect_shape(g: &Graph, what: &str, n: Node, want: Shape) -> Result<(), Mistake> {
    if g.shape(n) != want {
        wrong!("{what} is {}, must be {want}", g.shape(n));
    }
    Ok(())
}
