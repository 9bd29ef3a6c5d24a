//! The two 8-bit floats against f32: e4m3fn (no infinities, largest 448) and e5m2 (largest 57344).
//!
//! Encoding rounds to nearest even. A finite value beyond the largest saturates to it; here torch
//! gives NaN (e4m3fn) or an infinity (e5m2), which no weight survives. What was not finite stays
//! so, as in torch: NaN is 0x7f with the sign, an infinity is NaN in e4m3fn and 0x7c in e5m2.

use crate::float::f16_to_f32;

const F32_INF: u32 = 0x7f80_0000;

/// Widens an e4m3fn. Exact.
#[inline(always)]
pub fn e4m3_to_f32(b: u8) -> f32 {
    let sign = ((b & 0x80) as u32) << 24;
    let rest = ((b & 0x7f) as u32) << 20;
    let normal = rest + (120 << 23);
    let subnormal = (f32::from_bits(rest + (121 << 23)) - f32::from_bits(121 << 23)).to_bits();
    let magnitude = if rest == 0x07f0_0000 {
        0x7fc0_0000
    } else if rest < 0x0080_0000 {
        subnormal
    } else {
        normal
    };
    f32::from_bits(sign | magnitude)
}

/// Widens an e5m2: the upper half of an f16. Exact.
#[inline(always)]
pub fn e5m2_to_f32(b: u8) -> f32 {
    f16_to_f32((b as u16) << 8)
}

/// Narrows to e4m3fn.
#[inline(always)]
pub fn f32_to_e4m3(x: f32) -> u8 {
    let bits = x.to_bits();
    let rest = bits & 0x7fff_ffff;
    // The spacing of subnormals is 2^-9, which is the last bit of 2^14.
    let subnormal = (f32::from_bits(rest) + 16384.0)
        .to_bits()
        .wrapping_sub(16384f32.to_bits());
    let odd = (rest >> 20) & 1;
    let normal = rest.wrapping_sub(120 << 23).wrapping_add(0x7_ffff + odd) >> 20;
    let magnitude = if rest >= F32_INF {
        0x7f
    } else if rest >= 448f32.to_bits() {
        0x7e
    } else if rest < (121 << 23) {
        subnormal
    } else {
        normal
    };
    (bits >> 24) as u8 & 0x80 | magnitude as u8
}

/// Narrows to e5m2.
#[inline(always)]
pub fn f32_to_e5m2(x: f32) -> u8 {
    let bits = x.to_bits();
    let rest = bits & 0x7fff_ffff;
    // The spacing of subnormals is 2^-16, which is the last bit of 2^7.
    let subnormal = (f32::from_bits(rest) + 128.0)
        .to_bits()
        .wrapping_sub(128f32.to_bits());
    let odd = (rest >> 21) & 1;
    let normal = rest.wrapping_sub(112 << 23).wrapping_add(0xf_ffff + odd) >> 21;
    let magnitude = if rest > F32_INF {
        0x7f
    } else if rest == F32_INF {
        0x7c
    } else if rest >= 57344f32.to_bits() {
        0x7b
    } else if rest < (113 << 23) {
        subnormal
    } else {
        normal
    };
    (bits >> 24) as u8 & 0x80 | magnitude as u8
}
