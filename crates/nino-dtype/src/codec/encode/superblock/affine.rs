//! Super-blocks of `L` groups `d * scale * q - dmin * min` of `N` values: Q2_K, Q4_K and Q5_K.

use super::super::search::{
    Lanes, code, errors, fit_affine, inverse, lanes, round, sums, transpose,
};
use super::{ROUNDS, cleaned, nearest_half, super_scale};
use crate::float::f32_to_f16;

pub(in super::super) struct AffineShape {
    /// The largest code; the smallest is 0.
    pub top: f32,
    /// The largest integer scale and min.
    pub scale_top: f32,
}

pub(in super::super) struct AffineBlock<const L: usize> {
    pub d: u16,
    pub dmin: u16,
    pub scales: [u8; L],
    pub mins: [u8; L],
    pub codes: [u8; 256],
}

#[inline(always)]
pub(in super::super) fn encode_affine<const N: usize, const L: usize>(
    values: &[f32; 256],
    shape: &AffineShape,
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
    let wanted = fit_affine(&x, shape.top, true);
    let (mut scale, mut min) = (0f32, 0f32);
    for l in 0..L {
        scale = scale.max(wanted.0[l]);
        min = min.max(-wanted.1[l]);
    }
    let first = (
        super_scale(scale, shape.scale_top),
        super_scale(min, shape.scale_top),
    );
    let mut best = Choice::new(&x, &wanted, first, shape);
    for _ in 0..ROUNDS {
        let next = Choice::new(&x, &wanted, best.refit(&x, shape), shape);
        if next.error < best.error {
            best = next;
        }
    }
    let sign = if mirror { -1.0 } else { 1.0 };
    let mut block = AffineBlock {
        d: f32_to_f16(sign * best.d),
        dmin: f32_to_f16(sign * best.dmin),
        scales: [0; L],
        mins: [0; L],
        codes: [0; 256],
    };
    for group in 0..L {
        block.scales[group] = best.scales[group] as u8;
        block.mins[group] = best.mins[group] as u8;
        let inv = inverse(best.d * best.scales[group]);
        let min = best.dmin * best.mins[group];
        for i in group * N..group * N + N {
            block.codes[i] = code(((values[i] + min) * inv).clamp(0.0, shape.top));
        }
    }
    block
}

struct Choice<const L: usize> {
    d: f32,
    dmin: f32,
    scales: Lanes<L>,
    mins: Lanes<L>,
    error: f32,
}

impl<const L: usize> Choice<L> {
    /// Groups pick integer scales and mins for this `d` and `dmin`: the nearest to what they want,
    /// or neighbors.
    #[inline(always)]
    fn new<const N: usize>(
        x: &[Lanes<L>; N],
        (scale, offset): &(Lanes<L>, Lanes<L>),
        (d, dmin): (f32, f32),
        shape: &AffineShape,
    ) -> Choice<L> {
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
        Choice {
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
        let s = sums(x, &scale, &offset, (0.0, shape.top));
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
