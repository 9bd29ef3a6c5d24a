//! The 32-value blocks: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.
//!
//! A 4-bit block keeps value `i` in the low nibble of byte `i` and value `i + 16` in its high
//! nibble; 5-bit blocks add bit 4 of value `i` as bit `i` of a u32.

use super::{half_at, one_at_a_time};

/// `f16 d | 16 x nibbles`: `d * (q - 8)`.
#[inline(always)]
pub fn decode_q4_0(block: &[u8; 18], out: &mut [f32; 32]) {
    let block = one_at_a_time(block);
    let d = half_at(block, 0);
    for i in 0..16 {
        let q = block[2 + i] as u32;
        out[i] = d * ((q & 15) as i32 - 8) as f32;
        out[i + 16] = d * ((q >> 4) as i32 - 8) as f32;
    }
}

/// `f16 d | f16 m | 16 x nibbles`: `d * q + m`.
#[inline(always)]
pub fn decode_q4_1(block: &[u8; 20], out: &mut [f32; 32]) {
    let block = one_at_a_time(block);
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    for i in 0..16 {
        let q = block[4 + i] as i32;
        out[i] = d * (q & 15) as f32 + m;
        out[i + 16] = d * (q >> 4) as f32 + m;
    }
}

/// `f16 d | u32 high bits | 16 x nibbles`: `d * (q - 16)`.
#[inline(always)]
pub fn decode_q5_0(block: &[u8; 22], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    let high = u32::from_le_bytes([block[2], block[3], block[4], block[5]]);
    for i in 0..16 {
        let q = block[6 + i] as u32;
        let lo = (q & 15) | (((high >> i) & 1) << 4);
        let hi = (q >> 4) | (((high >> (i + 16)) & 1) << 4);
        out[i] = d * (lo as i32 - 16) as f32;
        out[i + 16] = d * (hi as i32 - 16) as f32;
    }
}

/// `f16 d | f16 m | u32 high bits | 16 x nibbles`: `d * q + m`.
#[inline(always)]
pub fn decode_q5_1(block: &[u8; 24], out: &mut [f32; 32]) {
    let (d, m) = (half_at(block, 0), half_at(block, 2));
    let high = u32::from_le_bytes([block[4], block[5], block[6], block[7]]);
    for i in 0..16 {
        let q = block[8 + i] as u32;
        let lo = (q & 15) | (((high >> i) & 1) << 4);
        let hi = (q >> 4) | (((high >> (i + 16)) & 1) << 4);
        out[i] = d * (lo as i32) as f32 + m;
        out[i + 16] = d * (hi as i32) as f32 + m;
    }
}

/// `f16 d | 32 x i8`: `d * q`.
#[inline(always)]
pub fn decode_q8_0(block: &[u8; 34], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    for i in 0..32 {
        out[i] = d * (block[2 + i] as i8) as f32;
    }
}
