//! Linear multistep (Adams-Bashforth in sigma, on uneven levels) of order up to 4, as k-diffusion.

use std::collections::VecDeque;

use crate::error::Stop;
use crate::linear::{mix, slope, sum_into};
use crate::sampler::Run;

pub fn lms(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let max_order = run.options.order.unwrap_or(4).clamp(1, 4);
    let (mut denoised, mut sum) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    let mut slopes: VecDeque<Vec<f32>> = VecDeque::with_capacity(max_order + 1);
    for i in 0..run.steps() {
        run.denoise(x, run.sigmas[i], &mut denoised)?;
        run.report(i, run.sigmas[i], x, &denoised)?;
        let mut d = if slopes.len() == max_order {
            slopes.pop_back()
        } else {
            None
        }
        .unwrap_or_else(|| vec![0.0; x.len()]);
        slope(&mut d, x, run.sigmas[i], &denoised);
        slopes.push_front(d);
        if run.sigmas[i + 1] == 0.0 {
            x.copy_from_slice(&denoised);
            continue;
        }
        let order = slopes.len();
        let terms: Vec<(f32, &[f32])> = slopes
            .iter()
            .enumerate()
            .map(|(j, d)| (weight(run.sigmas, i, order, j), d.as_slice()))
            .collect();
        sum_into(&mut sum, &terms);
        mix(x, 1.0, &[(1.0, &sum)]);
    }
    Ok(())
}

/// The integral, over step `i`, of the Lagrange polynomial that is 1 at level `i - j` and 0 at the
/// other levels among the last `order`. Gauss-Legendre with three points is exact up to degree 5.
pub(super) fn weight(sigmas: &[f32], i: usize, order: usize, j: usize) -> f32 {
    let at = |k: usize| f64::from(sigmas[i - k]);
    let (start, end) = (at(0), f64::from(sigmas[i + 1]));
    let (center, half) = (0.5 * (start + end), 0.5 * (end - start));
    let basis = |t: f64| {
        (0..order)
            .filter(|&k| k != j)
            .map(|k| (t - at(k)) / (at(j) - at(k)))
            .product::<f64>()
    };
    let reach = half * 0.6f64.sqrt();
    let sum = 5.0 * basis(center - reach) + 8.0 * basis(center) + 5.0 * basis(center + reach);
    (half * sum / 9.0) as f32
}
