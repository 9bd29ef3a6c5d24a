//! f16 and bf16 against f32, one value at a time, without branches so that loops vectorize.
//!
//! Narrowing rounds to nearest even; overflow gives an infinity, as IEEE 754 and torch do. A NaN
//! stays a NaN and becomes quiet, as the hardware's conversions make it.

const F32_INF: u32 = 0x7f80_0000;
const F32_QUIET: u32 = 0x0040_0000;

/// Widens an IEEE half. Exact.
#[inline(always)]
pub fn f16_to_f32(h: u16) -> f32 {
    let sign = ((h & 0x8000) as u32) << 16;
    let rest = ((h & 0x7fff) as u32) << 13;
    let normal = rest + (112 << 23);
    // 2^-14 + mantissa - 2^-14: the float unit normalizes the subnormal.
    let subnormal = (f32::from_bits(rest + (113 << 23)) - f32::from_bits(113 << 23)).to_bits();
    let quiet = if rest > 0x0f80_0000 { F32_QUIET } else { 0 };
    let special = (rest + (224 << 23)) | quiet;
    let magnitude = if rest >= 0x0f80_0000 {
        special
    } else if rest < 0x0080_0000 {
        subnormal
    } else {
        normal
    };
    f32::from_bits(sign | magnitude)
}

/// Narrows to an IEEE half.
#[inline(always)]
pub fn f32_to_f16(x: f32) -> u16 {
    let bits = x.to_bits();
    let sign = ((bits >> 16) & 0x8000) as u16;
    let rest = bits & 0x7fff_ffff;
    // Adding 0.5 puts the last kept bit of a subnormal half at the float's last bit, so that the
    // float unit does the rounding.
    let subnormal = (f32::from_bits(rest) + 0.5)
        .to_bits()
        .wrapping_sub(0.5f32.to_bits());
    let odd = (rest >> 13) & 1;
    let normal = (rest.wrapping_sub(112 << 23).wrapping_add(0xfff + odd)) >> 13;
    let nan = 0x7e00 | ((rest >> 13) & 0x3ff);
    let magnitude = if rest > F32_INF {
        nan
    } else if rest >= 0x4780_0000 {
        0x7c00
    } else if rest < 0x3880_0000 {
        subnormal
    } else {
        normal
    };
    sign | magnitude as u16
}

/// Widens a bfloat16. Exact.
#[inline(always)]
pub fn bf16_to_f32(h: u16) -> f32 {
    f32::from_bits((h as u32) << 16)
}

/// Narrows to a bfloat16.
#[inline(always)]
pub fn f32_to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    let nan = (bits >> 16) | 0x40;
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let is_nan = bits & 0x7fff_ffff > F32_INF;
    (if is_nan { nan } else { rounded }) as u16
}
