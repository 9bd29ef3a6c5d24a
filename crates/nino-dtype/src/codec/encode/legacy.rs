//! Encoders of the 32-value blocks.

use super::search::{
    Lanes, OVERSHOOTS, code, fit_affine, fit_scale, inverse, lanes, round, transpose,
};
use super::{F16_MAX, clean, max_abs_bits};
use crate::float::{f16_to_f32, f32_to_f16};

/// Blocks searched side by side.
pub(super) const LANES: usize = 16;

/// Blocks of one scale. Codes are rounded for the scale as stored, which is never worse than
/// rounding for the exact one.
#[inline(always)]
pub(super) fn encode_q8_0(x: &[f32; 32], out: &mut [u8; 34]) {
    const LIMIT: f32 = F16_MAX * 127.0;
    const F16_NORMAL: f32 = 6.2e-5;
    let mut bits = max_abs_bits(x);
    let cleaned;
    let x = if bits <= LIMIT.to_bits() {
        x
    } else {
        cleaned = x.map(|v| clean(v, LIMIT));
        bits = max_abs_bits(&cleaned);
        &cleaned
    };
    let exact = f32::from_bits(bits) / 127.0;
    let mut d = f32_to_f16(exact);
    if exact < F16_NORMAL {
        // A scale this coarse may have been rounded far down, and the next one up may be better.
        d = if q8_error(x, d + 1) < q8_error(x, d) {
            d + 1
        } else {
            d
        };
    }
    let inv = inverse(f16_to_f32(d));
    out[..2].copy_from_slice(&d.to_le_bytes());
    for i in 0..32 {
        out[2 + i] = code((x[i] * inv).clamp(-127.0, 127.0));
    }
}

#[inline(always)]
fn q8_error(x: &[f32; 32], d: u16) -> f32 {
    let scale = f16_to_f32(d);
    let inv = inverse(scale);
    x.iter()
        .map(|v| v - scale * round(v * inv).clamp(-127.0, 127.0))
        .map(|r| r * r)
        .sum()
}

/// Blocks of a signed scale: `write` gets each block's number, scale and codes from 0.
#[inline(always)]
fn symmetric<const HALF: u8>(values: &[f32], mut write: impl FnMut(usize, u16, &[u8; 32])) {
    let half = HALF as f32;
    let x = cleaned_lanes(values, F16_MAX * (half - 1.0));
    let scales = fit_scale(&x, half, &OVERSHOOTS);
    let mut d = [0; LANES];
    for l in 0..LANES {
        d[l] = f32_to_f16(scales[l].clamp(-F16_MAX, F16_MAX));
    }
    let inv: Lanes<LANES> = lanes(|l| inverse(f16_to_f32(d[l])));
    let mut codes = [[0; 32]; LANES];
    for i in 0..32 {
        for l in 0..LANES {
            codes[l][i] = code((x[i][l] * inv[l]).clamp(-half, half - 1.0)).wrapping_add(HALF);
        }
    }
    for block in 0..values.len() / 32 {
        write(block, d[block], &codes[block]);
    }
}

/// Blocks of a scale and an offset.
#[inline(always)]
fn affine<const TOP: u8>(values: &[f32], mut write: impl FnMut(usize, [u16; 2], &[u8; 32])) {
    let top = TOP as f32;
    let x = cleaned_lanes(values, F16_MAX);
    let (scales, offsets) = fit_affine(&x, top, false);
    let (mut d, mut m) = ([0; LANES], [0; LANES]);
    for l in 0..LANES {
        d[l] = f32_to_f16(scales[l].clamp(-F16_MAX, F16_MAX));
        m[l] = f32_to_f16(offsets[l].clamp(-F16_MAX, F16_MAX));
    }
    let inv: Lanes<LANES> = lanes(|l| inverse(f16_to_f32(d[l])));
    let offset: Lanes<LANES> = lanes(|l| f16_to_f32(m[l]));
    let mut codes = [[0; 32]; LANES];
    for i in 0..32 {
        for l in 0..LANES {
            codes[l][i] = code(((x[i][l] - offset[l]) * inv[l]).clamp(0.0, top));
        }
    }
    for block in 0..values.len() / 32 {
        write(block, [d[block], m[block]], &codes[block]);
    }
}

#[inline(always)]
fn cleaned_lanes(values: &[f32], limit: f32) -> [Lanes<LANES>; 32] {
    let mut x = transpose::<32, LANES>(values);
    for row in &mut x {
        *row = lanes(|l| clean(row[l], limit));
    }
    x
}

#[inline(always)]
pub(super) fn encode_q4_0(values: &[f32], out: &mut [u8]) {
    let out = out.as_chunks_mut::<18>().0;
    symmetric::<8>(values, |block, d, codes| {
        out[block][..2].copy_from_slice(&d.to_le_bytes());
        pack_nibbles(codes, &mut out[block][2..]);
    });
}

#[inline(always)]
pub(super) fn encode_q5_0(values: &[f32], out: &mut [u8]) {
    let out = out.as_chunks_mut::<22>().0;
    symmetric::<16>(values, |block, d, codes| {
        out[block][..2].copy_from_slice(&d.to_le_bytes());
        out[block][2..6].copy_from_slice(&high_bits(codes));
        pack_nibbles(codes, &mut out[block][6..]);
    });
}

#[inline(always)]
pub(super) fn encode_q4_1(values: &[f32], out: &mut [u8]) {
    let out = out.as_chunks_mut::<20>().0;
    affine::<15>(values, |block, [d, m], codes| {
        out[block][..2].copy_from_slice(&d.to_le_bytes());
        out[block][2..4].copy_from_slice(&m.to_le_bytes());
        pack_nibbles(codes, &mut out[block][4..]);
    });
}

#[inline(always)]
pub(super) fn encode_q5_1(values: &[f32], out: &mut [u8]) {
    let out = out.as_chunks_mut::<24>().0;
    affine::<31>(values, |block, [d, m], codes| {
        out[block][..2].copy_from_slice(&d.to_le_bytes());
        out[block][2..4].copy_from_slice(&m.to_le_bytes());
        out[block][4..8].copy_from_slice(&high_bits(codes));
        pack_nibbles(codes, &mut out[block][8..]);
    });
}

#[inline(always)]
fn pack_nibbles(codes: &[u8; 32], out: &mut [u8]) {
    for i in 0..16 {
        out[i] = (codes[i] & 15) | (codes[i + 16] << 4);
    }
}

#[inline(always)]
fn high_bits(codes: &[u8; 32]) -> [u8; 4] {
    let mut bits = 0u32;
    for i in 0..32 {
        bits |= ((codes[i] >> 4) as u32) << i;
    }
    bits.to_le_bytes()
}
