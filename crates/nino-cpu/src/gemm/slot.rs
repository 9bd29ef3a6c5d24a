//! What a packed factor of a product is made of.

use nino_dtype::DType;

use super::pairs;
use crate::simd::Level;

/// 32 bits of a packed factor. The register-tile kernel broadcasts a slot of A and multiplies it
/// with a vector of slots of B; packs, segments and row distances are counted in slots, so that
/// one kernel and one set of layouts serve both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// One value of k.
    F32,
    /// Two neighboring values of k in bf16, the first in the low half. Where k is odd, the last
    /// pair ends with a zero on both sides.
    Pair,
}

impl Slot {
    /// Gives the slots in which products with activations of a type are computed: pairs where they
    /// are stored in bf16 and the CPU multiplies bf16. What is stored in f32 or f16 would lose
    /// bits.
    pub(crate) fn of(level: Level, activations: DType) -> Slot {
        if activations == DType::BF16 && pairs::supported(level) {
            Slot::Pair
        } else {
            Slot::F32
        }
    }

    /// Gives the values of k in a slot.
    pub(crate) fn values(self) -> usize {
        match self {
            Slot::F32 => 1,
            Slot::Pair => 2,
        }
    }

    /// Gives the slots that `k` values take.
    pub(crate) fn slots(self, k: usize) -> usize {
        k.div_ceil(self.values())
    }
}
