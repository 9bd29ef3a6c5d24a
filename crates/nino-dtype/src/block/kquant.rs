//! The 256-value super-blocks: Q2_K, Q3_K, Q4_K, Q5_K, Q6_K.
//!
//! A super-block holds groups of 16 or 32 values, each with a small integer scale (and min) that
//! the super-block's f16 `d` (and `dmin`) multiplies.

use super::half_at;

/// `16 x (scale | min << 4) | 64 x 2-bit | f16 d | f16 dmin`: `d * scale * q - dmin * min`.
#[inline(always)]
pub(crate) fn q2_k(
    block: &[u8; 84],
    q: &mut [i8; 256],
    scales: &mut [f32; 16],
    offsets: &mut [f32; 16],
) {
    let (d, dmin) = (half_at(block, 80), half_at(block, 82));
    let small: &[u8; 16] = block.first_chunk().expect("84 bytes begin with 16");
    for group in 0..16 {
        scales[group] = d * (small[group] & 15) as f32;
    }
    for group in 0..16 {
        offsets[group] = -dmin * (small[group] >> 4) as f32;
    }
    let (codes, _) = block[16..80].as_chunks::<32>();
    let (q, _) = q.as_chunks_mut::<32>();
    for half in 0..2 {
        for shift in 0..4 {
            let mut values = [0; 32];
            for i in 0..32 {
                values[i] = ((codes[half][i] >> (2 * shift)) & 3) as i8;
            }
            q[half * 4 + shift] = values;
        }
    }
}

/// The sixteen 6-bit scales of a Q3_K block, already less their offset of 32.
#[inline(always)]
pub fn q3_k_scales(packed: &[u8; 12]) -> [i8; 16] {
    std::array::from_fn(|i| {
        let low = (packed[i % 8] >> (4 * (i / 8))) & 15;
        let high = (packed[8 + i % 4] >> (2 * (i / 4))) & 3;
        (low | (high << 4)) as i8 - 32
    })
}

/// `32 x high bits | 64 x 2-bit | 12 x packed scales | f16 d`: `d * scale * q`, `q` in -4..=3.
#[inline(always)]
pub(crate) fn q3_k(
    block: &[u8; 110],
    q: &mut [i8; 256],
    scales: &mut [f32; 16],
    _: &mut [f32; 16],
) {
    let d = half_at(block, 108);
    let packed: &[u8; 12] = block[96..].first_chunk().expect("110 bytes hold 12 at 96");
    let small = q3_k_scales(packed);
    let (bytes, _) = block.as_chunks::<16>();
    let (q, _) = q.as_chunks_mut::<16>();
    for half in 0..2 {
        for shift in 0..4 {
            for sub in 0..2 {
                let group = half * 8 + shift * 2 + sub;
                scales[group] = d * small[group] as f32;
                let (codes, high) = (bytes[2 + half * 2 + sub], bytes[sub]);
                let mut values = [0; 16];
                for i in 0..16 {
                    let low = (codes[i] >> (2 * shift)) & 3;
                    let high = (high[i] >> (half * 4 + shift)) & 1;
                    // A set high bit means no offset.
                    values[i] = (low | (high << 2)) as i8 - 4;
                }
                q[group] = values;
            }
        }
    }
}

/// The eight 6-bit (scale, min) pairs of a Q4_K or Q5_K block.
#[inline(always)]
pub fn k4_scale_min(packed: &[u8; 12]) -> [(u8, u8); 8] {
    std::array::from_fn(|i| {
        if i < 4 {
            (packed[i] & 63, packed[i + 4] & 63)
        } else {
            let low = packed[i + 4];
            (
                (low & 15) | ((packed[i - 4] >> 6) << 4),
                (low >> 4) | ((packed[i] >> 6) << 4),
            )
        }
    })
}

/// Scales and offsets of the eight groups of a Q4_K or Q5_K block.
#[inline(always)]
fn k4_groups<const B: usize>(block: &[u8; B], scales: &mut [f32; 8], offsets: &mut [f32; 8]) {
    let (d, dmin) = (half_at(block, 0), half_at(block, 2));
    let packed: &[u8; 12] = block[4..].first_chunk().expect("a block holds 12 at 4");
    let small = k4_scale_min(packed);
    for group in 0..8 {
        scales[group] = d * small[group].0 as f32;
        offsets[group] = -(dmin * small[group].1 as f32);
    }
}

/// `f16 d | f16 dmin | 12 x packed scales | 128 x nibbles`: `d * scale * q - dmin * min`.
#[inline(always)]
pub(crate) fn q4_k(
    block: &[u8; 144],
    q: &mut [i8; 256],
    scales: &mut [f32; 8],
    offsets: &mut [f32; 8],
) {
    k4_groups(block, scales, offsets);
    let (codes, _) = block[16..].as_chunks::<32>();
    let (q, _) = q.as_chunks_mut::<32>();
    for pair in 0..4 {
        for nibble in 0..2 {
            let mut values = [0; 32];
            for i in 0..32 {
                values[i] = ((codes[pair][i] >> (4 * nibble)) & 15) as i8;
            }
            q[pair * 2 + nibble] = values;
        }
    }
}

/// `f16 d | f16 dmin | 12 x packed scales | 32 x high bits | 128 x nibbles`, as Q4_K with `q` of
/// five bits.
#[inline(always)]
pub(crate) fn q5_k(
    block: &[u8; 176],
    q: &mut [i8; 256],
    scales: &mut [f32; 8],
    offsets: &mut [f32; 8],
) {
    k4_groups(block, scales, offsets);
    let (bytes, _) = block[16..].as_chunks::<32>();
    let (high, codes) = (bytes[0], &bytes[1..]);
    let (q, _) = q.as_chunks_mut::<32>();
    for pair in 0..4 {
        for nibble in 0..2 {
            let group = pair * 2 + nibble;
            let mut values = [0; 32];
            for i in 0..32 {
                let low = (codes[pair][i] >> (4 * nibble)) & 15;
                values[i] = (low | (((high[i] >> group) & 1) << 4)) as i8;
            }
            q[group] = values;
        }
    }
}

/// `128 x nibbles | 64 x 2 high bits | 16 x i8 scales | f16 d`: `d * scale * (q - 32)`.
#[inline(always)]
pub(crate) fn q6_k(
    block: &[u8; 210],
    q: &mut [i8; 256],
    scales: &mut [f32; 16],
    _: &mut [f32; 16],
) {
    let d = half_at(block, 208);
    for half in 0..2 {
        for quarter in 0..4 {
            for sub in 0..2 {
                let group = half * 8 + quarter * 2 + sub;
                scales[group] = d * (block[192 + group] as i8) as f32;
                for i in 0..16 {
                    let at = sub * 16 + i;
                    let low = block[half * 64 + (quarter % 2) * 32 + at] >> (4 * (quarter / 2));
                    let high = block[128 + half * 32 + at] >> (2 * quarter);
                    q[group * 16 + i] = ((low & 15) | ((high & 3) << 4)) as i8 - 32;
                }
            }
        }
    }
}
