//! Activation functions as shader constants: a number (`activate` in act.wgsl) and two values.

use nino_graph::Act;

use crate::shader::KernelKey;
use nino_ptx::gemm::Act as PtxAct;

/// The constants that stand for an activation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ActCode {
    code: i64,
    a: f32,
    b: f32,
}

impl From<Option<Act>> for ActCode {
    fn from(act: Option<Act>) -> ActCode {
        let (code, a, b) = match act {
            None => (0, 0.0, 0.0),
            Some(Act::Silu) => (1, 0.0, 0.0),
            Some(Act::Gelu) => (2, 0.0, 0.0),
            Some(Act::GeluTanh) => (3, 0.0, 0.0),
            Some(Act::QuickGelu) => (4, 0.0, 0.0),
            Some(Act::Relu) => (5, 0.0, 0.0),
            Some(Act::Sigmoid) => (6, 0.0, 0.0),
            Some(Act::Tanh) => (7, 0.0, 0.0),
            Some(Act::Clamp { lo, hi }) => (8, lo, hi),
            Some(Act::Affine { mul, add }) => (9, mul, add),
            Some(Act::LeakyRelu { slope }) => (10, slope, 0.0),
        };
        ActCode { code, a, b }
    }
}

impl ActCode {
    /// The same in a PTX kernel, where those know it.
    pub(crate) fn ptx(self) -> Option<PtxAct> {
        match self.code {
            0 => Some(PtxAct::None),
            1 => Some(PtxAct::Silu),
            2 => Some(PtxAct::Gelu),
            3 => Some(PtxAct::GeluTanh),
            5 => Some(PtxAct::Relu),
            8 => Some(PtxAct::Clamp {
                lo: self.a.to_bits(),
                hi: self.b.to_bits(),
            }),
            9 => Some(PtxAct::Affine {
                mul: self.a.to_bits(),
                add: self.b.to_bits(),
            }),
            _ => None,
        }
    }

    /// Defines `name`, `name_A` and `name_B`, given as one array.
    pub(crate) fn constants(self, key: KernelKey, names: [&'static str; 3]) -> KernelKey {
        key.with(names[0], self.code)
            .with(names[1], self.a.to_bits())
            .with(names[2], self.b.to_bits())
    }
}

pub(crate) const ACT: [&str; 3] = ["ACT", "ACT_A", "ACT_B"];
pub(crate) const POST: [&str; 3] = ["POST", "POST_A", "POST_B"];
pub(crate) const PRO_ACT: [&str; 3] = ["PRO_ACT", "PRO_ACT_A", "PRO_ACT_B"];
