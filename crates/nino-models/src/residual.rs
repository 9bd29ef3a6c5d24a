//! Mixed precision of text encoders: activations inside a layer in 16 bits, the residual stream
//! between layers in f32.
//!
//! Trained T5 and Qwen models have values beyond f16's 65504 in the residual stream and in their
//! gated MLPs. With f16 both are therefore divided by [`UNIT`]: a power of two, so no value is
//! rounded differently, and RMS norms do not depend on it but for their epsilon.

use nino_dtype::DType;
use nino_graph::{Graph, Node};

/// What the residual stream is divided by. Values up to 4 million fit f16 then, and those below
/// 0.004, which lose bits, are small beside what they are added to.
const UNIT: f32 = 64.0;

/// How a text encoder stores its activations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Residual {
    inner: DType,
    unit: f32,
}

impl Residual {
    /// Layers with activations of `inner`, which is f32 for one type throughout.
    pub(crate) fn new(inner: DType) -> Residual {
        let unit = if inner == DType::F16 { UNIT } else { 1.0 };
        Residual { inner, unit }
    }

    /// A value that is added to the residual stream from outside of a layer.
    pub(crate) fn enter(self, g: &mut Graph, x: Node) -> Node {
        self.times(g, x, 1.0 / self.unit)
    }

    /// The residual stream as it would be in one type throughout.
    pub(crate) fn leave(self, g: &mut Graph, x: Node) -> Node {
        self.times(g, x, self.unit)
    }

    /// The input of a layer, after its norm.
    pub(crate) fn layer(self, g: &mut Graph, x: Node) -> Node {
        if g.dtype(x) == self.inner {
            return x;
        }
        g.cast(x, self.inner)
    }

    /// The output of a layer, in the units of the residual stream.
    pub(crate) fn out(self, g: &mut Graph, y: Node) -> Node {
        self.times(g, y, 1.0 / self.unit)
    }

    /// The epsilon of a norm of the residual stream.
    pub(crate) fn eps(self, eps: f32) -> f32 {
        eps / (self.unit * self.unit)
    }

    fn times(self, g: &mut Graph, x: Node, factor: f32) -> Node {
        if self.unit.to_bits() == 1.0f32.to_bits() {
            return x;
        }
        g.affine(x, factor, 0.0)
    }
}
