//! The scales of a 256-value super-block.
//!
//! First every group gets the scale (and min) it would like best. Then the super-block's f16 scale
//! is set so that the largest fits, the groups choose integer scales by the error they really give,
//! and least squares moves the f16 scales to suit.

mod affine;
mod symmetric;

pub(super) use affine::{AffineShape, encode_affine};
pub(super) use symmetric::{SymmetricShape, encode_symmetric};

use super::{F16_MAX, clean, max_abs_bits};
use crate::float::{f16_to_f32, f32_to_f16};

/// Values this large still have finite scales in every type here, and finite squares.
const LIMIT: f32 = F16_MAX * 15.0;
/// Rounds of "f16 scales for the codes, integer scales for those".
const ROUNDS: usize = 1;

#[inline(always)]
fn cleaned(x: &[f32; 256]) -> [f32; 256] {
    if max_abs_bits(x) <= LIMIT.to_bits() {
        *x
    } else {
        x.map(|v| clean(v, LIMIT))
    }
}

/// The f16 nearest to `largest / top`, or the next above where subnormals are so coarse that
/// `largest` would be out of reach.
#[inline(always)]
fn super_scale(largest: f32, top: f32) -> f32 {
    let bits = f32_to_f16((largest / top).clamp(-F16_MAX, F16_MAX));
    let scale = f16_to_f32(bits);
    let subnormal = bits & 0x7c00 == 0;
    let short = scale.abs() * (top + 0.5) < largest.abs();
    f16_to_f32(bits + u16::from(subnormal && short))
}

#[inline(always)]
fn nearest_half(x: f32) -> f32 {
    f16_to_f32(f32_to_f16(x.clamp(-F16_MAX, F16_MAX)))
}
