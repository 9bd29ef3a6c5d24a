//! Encoders of the 256-value super-blocks: the layout of what `superblock` finds.

use super::pack::{
    pack_high_bit, pack_nibbles, pack_pairs, pack_q3_scales, pack_scale_min, pack_six,
};
use super::search::{OVERSHOOTS, OVERSHOOTS_FINE};
use super::superblock::{AffineShape, SymmetricShape, encode_affine, encode_symmetric};

#[inline(always)]
pub(super) fn encode_q2_k(values: &[f32; 256], out: &mut [u8; 84]) {
    let shape = AffineShape {
        top: 3.0,
        scale_top: 15.0,
    };
    let b = encode_affine::<16, 16>(values, &shape);
    for group in 0..16 {
        out[group] = b.scales[group] | (b.mins[group] << 4);
    }
    let mut packed = [0; 64];
    pack_pairs(&b.codes, &mut packed);
    out[16..80].copy_from_slice(&packed);
    out[80..82].copy_from_slice(&b.d.to_le_bytes());
    out[82..].copy_from_slice(&b.dmin.to_le_bytes());
}

#[inline(always)]
pub(super) fn encode_q3_k(values: &[f32; 256], out: &mut [u8; 110]) {
    let shape = SymmetricShape {
        half: 4.0,
        scale_half: 32.0,
        overshoots: &OVERSHOOTS,
    };
    let b = encode_symmetric(values, &shape);
    let (mut high, mut low) = ([0; 32], [0; 64]);
    pack_high_bit(&b.codes, 2, &mut high);
    pack_pairs(&b.codes, &mut low);
    out[..32].copy_from_slice(&high);
    out[32..96].copy_from_slice(&low);
    out[96..108].copy_from_slice(&pack_q3_scales(&b.scales));
    out[108..].copy_from_slice(&b.d.to_le_bytes());
}

#[inline(always)]
pub(super) fn encode_q4_k(values: &[f32; 256], out: &mut [u8; 144]) {
    let shape = AffineShape {
        top: 15.0,
        scale_top: 63.0,
    };
    let b = encode_affine::<32, 8>(values, &shape);
    let mut low = [0; 128];
    pack_nibbles(&b.codes, &mut low);
    out[..2].copy_from_slice(&b.d.to_le_bytes());
    out[2..4].copy_from_slice(&b.dmin.to_le_bytes());
    out[4..16].copy_from_slice(&pack_scale_min(&b.scales, &b.mins));
    out[16..].copy_from_slice(&low);
}

#[inline(always)]
pub(super) fn encode_q5_k(values: &[f32; 256], out: &mut [u8; 176]) {
    let shape = AffineShape {
        top: 31.0,
        scale_top: 63.0,
    };
    let b = encode_affine::<32, 8>(values, &shape);
    let (mut high, mut low) = ([0; 32], [0; 128]);
    pack_high_bit(&b.codes, 4, &mut high);
    pack_nibbles(&b.codes, &mut low);
    out[..2].copy_from_slice(&b.d.to_le_bytes());
    out[2..4].copy_from_slice(&b.dmin.to_le_bytes());
    out[4..16].copy_from_slice(&pack_scale_min(&b.scales, &b.mins));
    out[16..48].copy_from_slice(&high);
    out[48..].copy_from_slice(&low);
}

#[inline(always)]
pub(super) fn encode_q6_k(values: &[f32; 256], out: &mut [u8; 210]) {
    let shape = SymmetricShape {
        half: 32.0,
        scale_half: 128.0,
        overshoots: &OVERSHOOTS_FINE,
    };
    let b = encode_symmetric(values, &shape);
    let (mut low, mut high) = ([0; 128], [0; 64]);
    pack_six(&b.codes, &mut low, &mut high);
    out[..128].copy_from_slice(&low);
    out[128..192].copy_from_slice(&high);
    out[192..208].copy_from_slice(&b.scales.map(|s| s as u8));
    out[208..].copy_from_slice(&b.d.to_le_bytes());
}
