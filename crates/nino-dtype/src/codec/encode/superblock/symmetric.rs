//! Super-blocks of sixteen groups `d * scale * q`: Q3_K and Q6_K.

use super::super::search::{
    Lanes, code, errors, fit_scale, inverse, lanes, round, sums, transpose,
};
use super::{ROUNDS, cleaned, nearest_half, super_scale};
use crate::float::f32_to_f16;

pub(in super::super) struct SymmetricShape {
    /// Codes are in `-half..half`.
    pub half: f32,
    /// Integer scales are in `-scale_half..scale_half`.
    pub scale_half: f32,
    /// The overshoots that `fit_scale` tries.
    pub overshoots: &'static [f32],
}

pub(in super::super) struct SymmetricBlock {
    pub d: u16,
    pub scales: [i8; 16],
    /// The codes, counted from 0.
    pub codes: [u8; 256],
}

#[inline(always)]
pub(in super::super) fn encode_symmetric(
    values: &[f32; 256],
    shape: &SymmetricShape,
) -> SymmetricBlock {
    let values = cleaned(values);
    let x = transpose::<16, 16>(&values);
    let wanted = fit_scale(&x, shape.half, shape.overshoots);
    let mut largest = 0f32;
    for scale in wanted {
        largest = if scale.abs() > largest.abs() {
            scale
        } else {
            largest
        };
    }
    let mut best = Choice::new(&x, &wanted, -super_scale(largest, shape.scale_half), shape);
    for _ in 0..ROUNDS {
        let next = Choice::new(&x, &wanted, best.refit(&x, shape), shape);
        if next.error < best.error {
            best = next;
        }
    }
    let mut block = SymmetricBlock {
        d: f32_to_f16(best.d),
        scales: [0; 16],
        codes: [0; 256],
    };
    let (low, high) = (-shape.half, shape.half - 1.0);
    for group in 0..16 {
        block.scales[group] = best.scales[group] as i8;
        let inv = inverse(best.d * best.scales[group]);
        for i in group * 16..group * 16 + 16 {
            let q = code((values[i] * inv).clamp(low, high));
            block.codes[i] = q.wrapping_add(shape.half as u8);
        }
    }
    block
}

struct Choice {
    d: f32,
    scales: Lanes<16>,
    error: f32,
}

impl Choice {
    /// Groups pick integer scales for this `d`: the nearest to what they want, or a neighbor.
    #[inline(always)]
    fn new(x: &[Lanes<16>; 16], wanted: &Lanes<16>, d: f32, shape: &SymmetricShape) -> Choice {
        let inv = inverse(d);
        let (low, high) = (-shape.scale_half, shape.scale_half - 1.0);
        let center: Lanes<16> = lanes(|l| round((wanted[l] * inv).clamp(low, high)));
        let mut best = center;
        let mut best_error = [f32::INFINITY; 16];
        for step in [0.0, -1.0, 1.0] {
            let scales: Lanes<16> = lanes(|l| (center[l] + step).clamp(low, high));
            let range = (-shape.half, shape.half - 1.0);
            let error = errors(x, &lanes(|l| scales[l] * d), &[0.0; 16], range);
            for l in 0..16 {
                let better = error[l] < best_error[l];
                best_error[l] = if better { error[l] } else { best_error[l] };
                best[l] = if better { scales[l] } else { best[l] };
            }
        }
        Choice {
            d,
            scales: best,
            error: best_error.iter().sum(),
        }
    }

    /// The `d` that suits the codes best.
    #[inline(always)]
    fn refit(&self, x: &[Lanes<16>; 16], shape: &SymmetricShape) -> f32 {
        let range = (-shape.half, shape.half - 1.0);
        let s = sums(x, &lanes(|l| self.scales[l] * self.d), &[0.0; 16], range);
        let (mut num, mut den) = (0.0, 0.0);
        for l in 0..16 {
            num += self.scales[l] * s.rq[l];
            den += self.scales[l] * self.scales[l] * s.qq[l];
        }
        let step = if den > 0.0 { num / den } else { 0.0 };
        nearest_half(self.d + step)
    }
}
