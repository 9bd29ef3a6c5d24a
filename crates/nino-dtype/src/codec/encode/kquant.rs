//! Encoders of the 256-value super-blocks.
//!
//! First every group gets the scale (and min) it would like best. Then the super-block's f16 scale
//! is set so that the largest fits, the groups choose integer scales by the error they really give,
//! and least squares moves the f16 scales to suit, for as long as that lowers the error.

use super::pack::{
    pack_high_bit, pack_nibbles, pack_pairs, pack_q3_scales, pack_scale_min, pack_six,
};
use super::search::{
    AffineSearch, Lanes, Sums, code, errors, fit_affine, fit_scale, inverse, lanes, round, sums,
    transpose,
};
use super::{F16_MAX, clean, max_abs_bits};
use crate::float::{f16_to_f32, f32_to_f16};

/// Values this large still have finite scales in every type here, and finite squares.
const LIMIT: f32 = F16_MAX * 15.0;
const ROUNDS: usize = 2;

#[inline(always)]
fn cleaned(x: &[f32; 256]) -> [f32; 256] {
    if max_abs_bits(x) <= LIMIT.to_bits() {
        *x
    } else {
        x.map(|v| clean(v, LIMIT))
    }
}

/// The f16 nearest to `largest / top`, or the next above where subnormals are so coarse that
/// `largest` would be out of reach.
#[inline(always)]
fn super_scale(largest: f32, top: f32) -> f32 {
    let bits = f32_to_f16((largest / top).clamp(-F16_MAX, F16_MAX));
    let scale = f16_to_f32(bits);
    let subnormal = bits & 0x7c00 == 0;
    let short = scale.abs() * (top + 0.5) < largest.abs();
    f16_to_f32(bits + u16::from(subnormal && short))
}

#[inline(always)]
fn nearest_half(x: f32) -> f32 {
    f16_to_f32(f32_to_f16(x.clamp(-F16_MAX, F16_MAX)))
}

/// A super-block of groups `d * scale * q`.
struct Symmetric<const L: usize> {
    d: f32,
    scales: Lanes<L>,
    error: f32,
}

impl<const L: usize> Symmetric<L> {
    /// Groups pick integer scales for this `d`: the nearest to what they want, or a neighbor.
    #[inline(always)]
    fn choose<const N: usize>(
        x: &[Lanes<L>; N],
        wanted: &Lanes<L>,
        d: f32,
        low: f32,
        range: (f32, f32),
    ) -> Symmetric<L> {
        let inv = inverse(d);
        let center: Lanes<L> = lanes::<L>(|l| round((wanted[l] * inv).clamp(low, -low - 1.0)));
        let mut best = center;
        let mut best_error = [f32::INFINITY; L];
        for step in [0.0, -1.0, 1.0] {
            let scales = lanes::<L>(|l| (center[l] + step).clamp(low, -low - 1.0));
            let error = errors(x, &lanes(|l| scales[l] * d), &[0.0; L], range);
            for l in 0..L {
                let better = error[l] < best_error[l];
                best_error[l] = if better { error[l] } else { best_error[l] };
                best[l] = if better { scales[l] } else { best[l] };
            }
        }
        Symmetric {
            d,
            scales: best,
            error: best_error.iter().sum(),
        }
    }

    /// The `d` that suits the codes best.
    #[inline(always)]
    fn refit<const N: usize>(&self, x: &[Lanes<L>; N], range: (f32, f32)) -> f32 {
        let s: Sums<L> = sums(x, &lanes(|l| self.scales[l] * self.d), &[0.0; L], range);
        let (mut num, mut den) = (0.0, 0.0);
        for l in 0..L {
            num += self.scales[l] * s.rq[l];
            den += self.scales[l] * self.scales[l] * s.qq[l];
        }
        nearest_half(if den > 0.0 {
            self.d + num / den
        } else {
            self.d
        })
    }
}

/// Sixteen groups of 16 with codes in `-half..half` and scales in `low..=-low - 1`.
#[inline(always)]
fn encode_symmetric(
    values: &[f32; 256],
    half: f32,
    low: f32,
    peaks: &[f32],
) -> (u16, [i8; 16], [u8; 256]) {
    let values = cleaned(values);
    let x = transpose::<16, 16>(&values);
    let range = (-half, half - 1.0);
    let wanted = fit_scale(&x, range, peaks);
    let largest = wanted
        .iter()
        .fold(0.0, |m: f32, s| if s.abs() > m.abs() { *s } else { m });
    let mut best = Symmetric::choose(&x, &wanted, -super_scale(largest, -low), low, range);
    for _ in 0..ROUNDS {
        let next = Symmetric::choose(&x, &wanted, best.refit(&x, range), low, range);
        if next.error < best.error {
            best = next;
        }
    }
    let mut codes = [0; 256];
    for group in 0..16 {
        let inv = inverse(best.d * best.scales[group]);
        for i in group * 16..group * 16 + 16 {
            codes[i] = code((values[i] * inv).clamp(-half, half - 1.0)).wrapping_add(half as u8);
        }
    }
    (f32_to_f16(best.d), best.scales.map(|s| s as i8), codes)
}

/// A super-block of groups `d * scale * q - dmin * min`.
struct Affine<const L: usize> {
    d: f32,
    dmin: f32,
    scales: Lanes<L>,
    mins: Lanes<L>,
    error: f32,
}

struct AffineShape {
    /// The largest code.
    top: f32,
    /// The largest integer scale and min.
    scale_top: f32,
}

impl<const L: usize> Affine<L> {
    #[inline(always)]
    fn choose<const N: usize>(
        x: &[Lanes<L>; N],
        (scale, offset): &(Lanes<L>, Lanes<L>),
        (d, dmin): (f32, f32),
        shape: &AffineShape,
    ) -> Affine<L> {
        let (inv, inv_min) = (inverse(d), inverse(dmin));
        let nearest = |v: f32| round(v.clamp(0.0, shape.scale_top));
        let scale_center = lanes::<L>(|l| nearest(scale[l] * inv));
        let min_center = lanes::<L>(|l| nearest(-offset[l] * inv_min));
        let (mut scales, mut mins) = (scale_center, min_center);
        let mut best_error = [f32::INFINITY; L];
        for scale_step in [0.0, -1.0, 1.0] {
            let try_scales =
                lanes::<L>(|l| (scale_center[l] + scale_step).clamp(0.0, shape.scale_top));
            for min_step in [0.0, -1.0, 1.0] {
                let try_mins =
                    lanes::<L>(|l| (min_center[l] + min_step).clamp(0.0, shape.scale_top));
                let scale = lanes::<L>(|l| try_scales[l] * d);
                let offset = lanes::<L>(|l| -(try_mins[l] * dmin));
                let error = errors(x, &scale, &offset, (0.0, shape.top));
                for l in 0..L {
                    let better = error[l] < best_error[l];
                    best_error[l] = if better { error[l] } else { best_error[l] };
                    scales[l] = if better { try_scales[l] } else { scales[l] };
                    mins[l] = if better { try_mins[l] } else { mins[l] };
                }
            }
        }
        Affine {
            d,
            dmin,
            scales,
            mins,
            error: best_error.iter().sum(),
        }
    }

    /// The `d` and `dmin` that suit the codes best.
    #[inline(always)]
    fn refit<const N: usize>(&self, x: &[Lanes<L>; N], shape: &AffineShape) -> (f32, f32) {
        let scale = lanes::<L>(|l| self.scales[l] * self.d);
        let offset = lanes::<L>(|l| -(self.mins[l] * self.dmin));
        let s: Sums<L> = sums(x, &scale, &offset, (0.0, shape.top));
        // Normal equations of x = d * u + dmin * v with u = scale * q, v = -min.
        let (mut uu, mut uv, mut vv, mut ru, mut rv) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for l in 0..L {
            let (u, v) = (self.scales[l], -self.mins[l]);
            uu += u * u * s.qq[l];
            uv += u * v * s.q[l];
            vv += v * v * N as f32;
            ru += u * s.rq[l];
            rv += v * s.r[l];
        }
        let det = uu * vv - uv * uv;
        if det > 1e-6 * uu * vv {
            let d = self.d + (ru * vv - rv * uv) / det;
            let dmin = self.dmin + (rv * uu - ru * uv) / det;
            (nearest_half(d), nearest_half(dmin))
        } else {
            (self.d, self.dmin)
        }
    }
}

struct AffineBlock<const L: usize> {
    d: u16,
    dmin: u16,
    scales: [u8; L],
    mins: [u8; L],
    codes: [u8; 256],
}

/// `L` groups of `N`.
#[inline(always)]
fn encode_affine<const N: usize, const L: usize>(
    values: &[f32; 256],
    shape: &AffineShape,
    cuts: &[(f32, f32)],
) -> AffineBlock<L> {
    let mut values = cleaned(values);
    // Mins are subtracted and never negative, which leaves values that are all positive only
    // scales that reach down to 0. Mirrored, with both f16 scales negative, they have mins too.
    let mirror = values.iter().all(|v| *v > 0.0);
    if mirror {
        for v in &mut values {
            *v = -*v;
        }
    }
    let x = transpose::<N, L>(&values);
    let wanted = fit_affine(
        &x,
        &AffineSearch {
            top: shape.top,
            cuts,
            below_zero: true,
        },
    );
    let d = super_scale(
        wanted.0.iter().copied().fold(0.0, f32::max),
        shape.scale_top,
    );
    let dmin = super_scale(
        wanted.1.iter().fold(0.0, |m, b| f32::max(m, -b)),
        shape.scale_top,
    );
    let mut best = Affine::choose(&x, &wanted, (d, dmin), shape);
    for _ in 0..ROUNDS {
        let next = Affine::choose(&x, &wanted, best.refit(&x, shape), shape);
        if next.error < best.error {
            best = next;
        }
    }
    let mut codes = [0; 256];
    for group in 0..L {
        let inv = inverse(best.d * best.scales[group]);
        let min = best.dmin * best.mins[group];
        for i in group * N..group * N + N {
            codes[i] = code(((values[i] + min) * inv).clamp(0.0, shape.top));
        }
    }
    let sign = if mirror { -1.0 } else { 1.0 };
    AffineBlock {
        d: f32_to_f16(sign * best.d),
        dmin: f32_to_f16(sign * best.dmin),
        scales: best.scales.map(|s| s as u8),
        mins: best.mins.map(|m| m as u8),
        codes,
    }
}

const PEAKS_3: [f32; 12] = [
    -5.0, -4.7, -4.4, -4.1, -3.8, -3.5, -3.2, 2.6, 2.9, 3.2, 3.5, 3.8,
];
const PEAKS_6: [f32; 8] = [-32.6, -32.3, -32.0, -31.6, -31.2, 30.6, 31.0, 31.4];
const CUTS_2: [(f32, f32); 13] = [
    (0.0, 0.0),
    (0.0, 0.1),
    (0.1, 0.0),
    (0.1, 0.1),
    (0.0, 0.2),
    (0.2, 0.0),
    (0.1, 0.2),
    (0.2, 0.1),
    (0.2, 0.2),
    (-0.05, -0.05),
    (0.05, 0.05),
    (-0.1, 0.1),
    (0.1, -0.1),
];
const CUTS_4: [(f32, f32); 9] = [
    (0.0, 0.0),
    (0.0, 0.03),
    (0.03, 0.0),
    (0.03, 0.03),
    (-0.02, 0.0),
    (0.0, -0.02),
    (0.06, 0.0),
    (0.0, 0.06),
    (0.06, 0.06),
];

#[inline(always)]
pub(super) fn encode_q2_k(values: &[f32; 256], out: &mut [u8; 84]) {
    let shape = AffineShape {
        top: 3.0,
        scale_top: 15.0,
    };
    let b = encode_affine::<16, 16>(values, &shape, &CUTS_2);
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
    let (d, scales, codes) = encode_symmetric(values, 4.0, -32.0, &PEAKS_3);
    let (mut high, mut low) = ([0; 32], [0; 64]);
    pack_high_bit(&codes, 2, &mut high);
    pack_pairs(&codes, &mut low);
    out[..32].copy_from_slice(&high);
    out[32..96].copy_from_slice(&low);
    out[96..108].copy_from_slice(&pack_q3_scales(&scales));
    out[108..].copy_from_slice(&d.to_le_bytes());
}

#[inline(always)]
pub(super) fn encode_q4_k(values: &[f32; 256], out: &mut [u8; 144]) {
    let shape = AffineShape {
        top: 15.0,
        scale_top: 63.0,
    };
    let b = encode_affine::<32, 8>(values, &shape, &CUTS_4);
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
    let b = encode_affine::<32, 8>(values, &shape, &CUTS_4);
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
    let (d, scales, codes) = encode_symmetric(values, 32.0, -128.0, &PEAKS_6);
    let (mut low, mut high) = ([0; 128], [0; 64]);
    pack_six(&codes, &mut low, &mut high);
    out[..128].copy_from_slice(&low);
    out[128..192].copy_from_slice(&high);
    out[192..208].copy_from_slice(&scales.map(|s| s as u8));
    out[208..].copy_from_slice(&d.to_le_bytes());
}
