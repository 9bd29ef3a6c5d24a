//! The non-uniform 4-bit types: IQ4_NL (32 values) and IQ4_XS (256 values).

use super::half_at;

/// What each 4-bit code stands for, before scaling.
pub const IQ4_VALUES: [i8; 16] = [
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113,
];

/// Looks 32 codes up. A sum over compares, because the compiler has no vector form of a table.
#[inline(always)]
fn lookup(packed: &[u8; 16]) -> [i8; 32] {
    let mut values = [IQ4_VALUES[0]; 32];
    for i in 0..32 {
        let q = if i < 16 {
            packed[i] & 15
        } else {
            packed[i - 16] >> 4
        };
        for code in 1..16 {
            let step = IQ4_VALUES[code].wrapping_sub(IQ4_VALUES[code - 1]);
            values[i] = values[i].wrapping_add(if q >= code as u8 { step } else { 0 });
        }
    }
    values
}

/// `f16 d | 16 x nibbles`: `d * IQ4_VALUES[q]`.
#[inline(always)]
pub fn decode_iq4_nl(block: &[u8; 18], out: &mut [f32; 32]) {
    let d = half_at(block, 0);
    let packed = block[2..].first_chunk().expect("18 bytes hold 16 at 2");
    let values = lookup(packed);
    for i in 0..32 {
        out[i] = d * values[i] as f32;
    }
}

/// `f16 d | u16 high scale bits | 4 x low scale nibbles | 8 x (16 x nibbles)`.
#[inline(always)]
pub fn decode_iq4_xs(block: &[u8; 136], out: &mut [f32; 256]) {
    let d = half_at(block, 0);
    let high = u16::from_le_bytes([block[2], block[3]]);
    let (packed, _) = block[8..].as_chunks::<16>();
    for group in 0..8 {
        let low = (block[4 + group / 2] >> (4 * (group % 2))) & 15;
        let scale = d * ((low as i32 | (((high >> (2 * group)) & 3) << 4) as i32) - 32) as f32;
        let values = lookup(&packed[group]);
        for i in 0..32 {
            out[group * 32 + i] = scale * values[i] as f32;
        }
    }
}
