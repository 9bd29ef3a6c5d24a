//! Types whose files hold codes and factors in tensors of their own. In memory a block has its
//! factors before its codes, which stay in the order of the file: the first of two codes in the
//! upper half of a byte.

use super::one_at_a_time;
use crate::fp8::e4m3_to_f32;

/// What each code of NF4 stands for, as bitsandbytes defines it: means of equal shares of a normal
/// distribution, over the largest.
pub const NF4_VALUES: [f32; 16] = [
    -1.0,
    -0.696_192_8,
    -0.525_073_05,
    -0.394_917_5,
    -0.284_441_38,
    -0.184_773_43,
    -0.091_050_036,
    0.0,
    0.079_580_3,
    0.160_930_2,
    0.246_112_3,
    0.337_915_24,
    0.440_709_83,
    0.562_617,
    0.722_956_84,
    1.0,
];

/// A 4-bit float of two exponent bits and one of fraction: 0, 0.5, 1, 1.5, 2, 3, 4, 6 and a sign.
#[inline(always)]
fn e2m1(code: u32) -> f32 {
    let magnitude = code & 7;
    // The exponent of 1 is 127; below it the fraction's bit counts halves.
    let normal = (magnitude << 22) + (126 << 23);
    let subnormal = if magnitude == 1 { 126 << 23 } else { 0 };
    let bits = if magnitude < 2 { subnormal } else { normal };
    f32::from_bits(((code & 8) << 28) | bits)
}

/// `4 x e4m3 | 32 x two e2m1`: each factor is that of 16 values. A factor for the whole tensor is
/// apart.
#[inline(always)]
pub(crate) fn decode_nvfp4(block: &[u8; 36], out: &mut [f32; 64]) {
    let block = one_at_a_time(block);
    for group in 0..4 {
        let scale = e4m3_to_f32(block[group]);
        for i in 0..8 {
            let pair = block[4 + group * 8 + i] as u32;
            out[group * 16 + i * 2] = scale * e2m1(pair >> 4);
            out[group * 16 + i * 2 + 1] = scale * e2m1(pair & 15);
        }
    }
}

/// `exponent | 32 x e4m3`: the factor is the f32 of that exponent, 0 for the first, as ComfyUI has
/// it.
#[inline(always)]
pub(crate) fn decode_mxfp8(block: &[u8; 33], out: &mut [f32; 32]) {
    let block = one_at_a_time(block);
    let scale = f32::from_bits((block[0] as u32) << 23);
    for i in 0..32 {
        out[i] = scale * e4m3_to_f32(block[1 + i]);
    }
}

/// `f32 factor | 32 x two codes` of [`NF4_VALUES`].
#[inline(always)]
pub(crate) fn decode_nf4(block: &[u8; 36], out: &mut [f32; 64]) {
    let block = one_at_a_time(block);
    let scale = f32::from_le_bytes([block[0], block[1], block[2], block[3]]);
    let values = NF4_VALUES.map(|v| v * scale);
    for i in 0..32 {
        let pair = block[4 + i];
        out[i * 2] = values[(pair >> 4) as usize];
        out[i * 2 + 1] = values[(pair & 15) as usize];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_bit_floats_are_those_of_the_format() {
        let positive = [0.0f32, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        for (code, value) in (0u32..).zip(positive) {
            assert_eq!(e2m1(code).to_bits(), value.to_bits(), "code {code}");
            assert_eq!(
                e2m1(code + 8).to_bits(),
                (-value).to_bits(),
                "code {}",
                code + 8
            );
        }
    }
}
