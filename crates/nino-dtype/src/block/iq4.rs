//! The non-uniform 4-bit types: IQ4_NL (32 values) and IQ4_XS (256 values).

#[cfg(test)]
mod tests;

use super::{half_at, one_at_a_time};

/// What each 4-bit code stands for, before scaling.
pub const IQ4_VALUES: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// `IQ4_VALUES[q]` for `q` in 0..16, as a quartic that is within 0.44 of the table and so rounds to
/// it: the compiler has no vector form of a table, and a polynomial it vectorizes everywhere.
#[inline(always)]
fn value(q: u8) -> i8 {
    /// The last bits of 1.5 * 2^23 plus a small number are that number, rounded.
    const ROUND: f32 = 12_582_912.0;
    let u = q as f32 - 7.5;
    let v = 0.001_586_042_8 * u + 0.078_667_72;
    let v = ((v * u - 0.137_192_7) * u + 11.517_209) * u - 4.301_249;
    (v + ROUND).to_bits() as i8
}

/// `f16 d | 16 x nibbles`: `d * IQ4_VALUES[q]`.
#[inline(always)]
pub(crate) fn iq4_nl(block: &[u8; 18], q: &mut [i8; 32], scales: &mut [f32; 1], _: &mut [f32; 1]) {
    let block = one_at_a_time(block);
    scales[0] = half_at(block, 0);
    for i in 0..16 {
        q[i] = value(block[2 + i] & 15);
        q[i + 16] = value(block[2 + i] >> 4);
    }
}

/// `f16 d | u16 high scale bits | 4 x low scale nibbles | 8 x (16 x nibbles)`.
#[inline(always)]
pub(crate) fn iq4_xs(
    block: &[u8; 136],
    q: &mut [i8; 256],
    scales: &mut [f32; 8],
    _: &mut [f32; 8],
) {
    let d = half_at(block, 0);
    let high = u16::from_le_bytes([block[2], block[3]]);
    let (packed, _) = block[8..].as_chunks::<16>();
    for group in 0..8 {
        let low = (block[4 + group / 2] >> (4 * (group % 2))) & 15;
        scales[group] = d * ((low as i32 | (((high >> (2 * group)) & 3) << 4) as i32) - 32) as f32;
        let codes = packed[group];
        for i in 0..16 {
            q[group * 32 + i] = value(codes[i] & 15);
            q[group * 32 + i + 16] = value(codes[i] >> 4);
        }
    }
}
