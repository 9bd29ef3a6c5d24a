//! The non-uniform 4-bit types: IQ4_NL (32 values) and IQ4_XS (256 values).

use super::half_at;

/// What each 4-bit code stands for, before scaling.
pub const IQ4_VALUES: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// `f16 d | 16 x nibbles`: `d * IQ4_VALUES[q]`.
#[inline(always)]
pub fn decode_iq4_nl(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    for i in 0..16 {
        let q = block[2 + i];
        out[i] = d * IQ4_VALUES[(q & 15) as usize] as f32;
        out[i + 16] = d * IQ4_VALUES[(q >> 4) as usize] as f32;
    }
}

/// `f16 d | u16 high scale bits | 4 x low scale nibbles | 8 x (16 x nibbles)`.
#[inline(always)]
pub fn decode_iq4_xs(block: &[u8; 136], out: &mut [f32; 256]) {
    let d = half_at(block, 0);
    let high = u16::from_le_bytes([block[2], block[3]]);
    for group in 0..8 {
        let low = (block[4 + group / 2] >> (4 * (group % 2))) & 15;
        let scale = d * ((low as i32 | (((high >> (2 * group)) & 3) << 4) as i32) - 32) as f32;
        for i in 0..16 {
            let q = block[8 + group * 16 + i];
            out[group * 32 + i] = scale * IQ4_VALUES[(q & 15) as usize] as f32;
            out[group * 32 + i + 16] = scale * IQ4_VALUES[(q >> 4) as usize] as f32;
        }
    }
}
