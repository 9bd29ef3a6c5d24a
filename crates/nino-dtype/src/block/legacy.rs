//! The 32-value blocks: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0.
//!
//! A 4-bit block keeps value `i` in the low nibble of byte `i` and value `i + 16` in its high
//! nibble; 5-bit blocks add bit 4 of value `i` as bit `i` of a u32.

use super::{half_at, one_at_a_time};

/// `f16 d | 16 x nibbles`: `d * (q - 8)`.
#[inline(always)]
pub(crate) fn q4_0(block: &[u8; 18], q: &mut [i8; 32], scales: &mut [f32; 1], _: &mut [f32; 1]) {
    let block = one_at_a_time(block);
    scales[0] = half_at(block, 0);
    for i in 0..16 {
        q[i] = (block[2 + i] & 15) as i8 - 8;
        q[i + 16] = (block[2 + i] >> 4) as i8 - 8;
    }
}

/// `f16 d | f16 m | 16 x nibbles`: `d * q + m`.
#[inline(always)]
pub(crate) fn q4_1(
    block: &[u8; 20],
    q: &mut [i8; 32],
    scales: &mut [f32; 1],
    offsets: &mut [f32; 1],
) {
    let block = one_at_a_time(block);
    (scales[0], offsets[0]) = (half_at(block, 0), half_at(block, 2));
    for i in 0..16 {
        q[i] = (block[4 + i] & 15) as i8;
        q[i + 16] = (block[4 + i] >> 4) as i8;
    }
}

/// Values of five bits, of nibbles and high bits.
#[inline(always)]
fn five_bits(nibbles: &[u8; 16], high: &[u8; 4], q: &mut [i8; 32]) {
    // A comparison of bytes with constants is quicker than shifts, which vectors have for words.
    let high = |i: usize| {
        if high[i / 8] & 1 << (i % 8) == 0 {
            0
        } else {
            16
        }
    };
    for i in 0..16 {
        q[i] = (nibbles[i] & 15 | high(i)) as i8;
        q[i + 16] = (nibbles[i] >> 4 | high(i + 16)) as i8;
    }
}

/// `f16 d | u32 high bits | 16 x nibbles`: `d * (q - 16)`.
#[inline(always)]
pub(crate) fn q5_0(block: &[u8; 22], q: &mut [i8; 32], scales: &mut [f32; 1], _: &mut [f32; 1]) {
    scales[0] = half_at(block, 0);
    let high = &[block[2], block[3], block[4], block[5]];
    five_bits(block.last_chunk().expect("22 bytes end with 16"), high, q);
    q.iter_mut().for_each(|q| *q -= 16);
}

/// `f16 d | f16 m | u32 high bits | 16 x nibbles`: `d * q + m`.
#[inline(always)]
pub(crate) fn q5_1(
    block: &[u8; 24],
    q: &mut [i8; 32],
    scales: &mut [f32; 1],
    offsets: &mut [f32; 1],
) {
    (scales[0], offsets[0]) = (half_at(block, 0), half_at(block, 2));
    let high = &[block[4], block[5], block[6], block[7]];
    five_bits(block.last_chunk().expect("24 bytes end with 16"), high, q);
}

/// `f16 d | 32 x i8`: `d * q`.
#[inline(always)]
pub(crate) fn q8_0(block: &[u8; 34], q: &mut [i8; 32], scales: &mut [f32; 1], _: &mut [f32; 1]) {
    scales[0] = half_at(block, 0);
    for i in 0..32 {
        q[i] = block[2 + i] as i8;
    }
}
