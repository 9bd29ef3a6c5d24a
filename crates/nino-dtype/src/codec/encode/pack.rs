//! Bit layouts of the 256-value super-blocks, the inverse of `block::kquant`.

/// 2-bit codes: byte `i` of a half holds values `i`, `i + 32`, `i + 64`, `i + 96`.
#[inline(always)]
pub(super) fn pack_pairs(codes: &[u8; 256], out: &mut [u8; 64]) {
    for half in 0..2 {
        for i in 0..32 {
            let at = half * 128 + i;
            out[half * 32 + i] = (codes[at] & 3)
                | ((codes[at + 32] & 3) << 2)
                | ((codes[at + 64] & 3) << 4)
                | ((codes[at + 96] & 3) << 6);
        }
    }
}

/// 4-bit codes: byte `i` of a quarter holds values `i` and `i + 32`.
#[inline(always)]
pub(super) fn pack_nibbles(codes: &[u8; 256], out: &mut [u8; 128]) {
    for quarter in 0..4 {
        for i in 0..32 {
            let at = quarter * 64 + i;
            out[quarter * 32 + i] = (codes[at] & 15) | (codes[at + 32] << 4);
        }
    }
}

/// Bit `shift` of the codes: bit `g` of byte `i` belongs to value `32 g + i`.
#[inline(always)]
pub(super) fn pack_high_bit(codes: &[u8; 256], shift: u32, out: &mut [u8; 32]) {
    for i in 0..32 {
        let mut byte = 0;
        for group in 0..8 {
            byte |= ((codes[group * 32 + i] >> shift) & 1) << group;
        }
        out[i] = byte;
    }
}

/// The 6-bit codes of Q6_K: low nibbles, then the high pairs.
#[inline(always)]
pub(super) fn pack_six(codes: &[u8; 256], low: &mut [u8; 128], high: &mut [u8; 64]) {
    for half in 0..2 {
        for i in 0..32 {
            let c: [u8; 4] = std::array::from_fn(|quarter| codes[half * 128 + quarter * 32 + i]);
            low[half * 64 + i] = (c[0] & 15) | (c[2] << 4);
            low[half * 64 + 32 + i] = (c[1] & 15) | (c[3] << 4);
            high[half * 32 + i] =
                (c[0] >> 4) | ((c[1] >> 4) << 2) | ((c[2] >> 4) << 4) | ((c[3] >> 4) << 6);
        }
    }
}

/// Eight 6-bit scales and mins, as `block::k4_scale_min` reads them.
#[inline(always)]
pub(super) fn pack_scale_min(scales: &[u8; 8], mins: &[u8; 8]) -> [u8; 12] {
    std::array::from_fn(|i| match i {
        0..4 => scales[i] | ((scales[i + 4] >> 4) << 6),
        4..8 => mins[i - 4] | ((mins[i] >> 4) << 6),
        _ => (scales[i - 4] & 15) | (mins[i - 4] << 4),
    })
}

/// Sixteen 6-bit scales, stored plus 32, as `block::q3_k_scales` reads them.
#[inline(always)]
pub(super) fn pack_q3_scales(scales: &[i8; 16]) -> [u8; 12] {
    let s = scales.map(|v| (v + 32) as u8);
    std::array::from_fn(|i| {
        if i < 8 {
            (s[i] & 15) | (s[i + 8] << 4)
        } else {
            let j = i - 8;
            (s[j] >> 4) | ((s[j + 4] >> 4) << 2) | ((s[j + 8] >> 4) << 4) | ((s[j + 12] >> 4) << 6)
        }
    })
}
