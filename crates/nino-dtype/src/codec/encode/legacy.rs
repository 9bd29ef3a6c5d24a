//! Encoders of the 32-value blocks.

use crate::float::{f16_to_f32, f32_to_f16};

const F16_MAX: f32 = 65504.0;
/// 1.5 * 2^23: adding it leaves the nearest integer in a float's low bits.
const ROUND: f32 = 12_582_912.0;

/// NaN as 0, everything else inside the limit.
#[inline(always)]
pub(super) fn sanitize<const N: usize>(x: &[f32; N], limit: f32) -> [f32; N] {
    x.map(|v| {
        if v.is_nan() {
            0.0
        } else {
            v.clamp(-limit, limit)
        }
    })
}

/// The largest magnitude as bits; above infinity's when there is a NaN.
#[inline(always)]
pub(super) fn max_abs_bits<const N: usize>(x: &[f32; N]) -> u32 {
    x.iter().fold(0, |m, v| m.max(v.to_bits() & 0x7fff_ffff))
}

/// One scale, the codes rounded for the scale as stored: never worse than rounding for the exact
/// one.
#[inline(always)]
pub(super) fn encode_q8_0(x: &[f32; 32], out: &mut [u8; 34]) {
    const LIMIT: f32 = F16_MAX * 127.0;
    let mut bits = max_abs_bits(x);
    let clean;
    let x = if bits <= LIMIT.to_bits() {
        x
    } else {
        clean = sanitize(x, LIMIT);
        bits = max_abs_bits(&clean);
        &clean
    };
    let d = f32_to_f16(f32::from_bits(bits) / 127.0);
    let scale = f16_to_f32(d);
    let inverse = if scale > 0.0 { 1.0 / scale } else { 0.0 };
    out[..2].copy_from_slice(&d.to_le_bytes());
    for i in 0..32 {
        out[2 + i] = (x[i] * inverse + ROUND).to_bits() as u8;
    }
}
