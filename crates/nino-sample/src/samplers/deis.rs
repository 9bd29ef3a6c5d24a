//! DEIS, time-based Adams-Bashforth (Zhang and Chen 2022, "tAB-DEIS"): integrates the Lagrange
//! polynomials of past slopes against the VP process's weight. The weights are sums over 10,000
//! points, as in zju-pi/diff-sampler.

use std::collections::VecDeque;

use crate::error::Stop;
use crate::exact::{Exact, linspace};
use crate::linear::{mix, slope};
use crate::sampler::Run;

const POINTS: usize = 10_000;

pub fn deis(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let max_order = run.options.order.unwrap_or(3).clamp(1, 4);
    let process = Vp::new();
    let times: Vec<f32> = run.sigmas.iter().map(|&s| process.time(s)).collect();
    let mut denoised = vec![0.0; x.len()];
    let mut slopes: VecDeque<Vec<f32>> = (0..max_order).map(|_| vec![0.0; x.len()]).collect();
    for i in 0..run.steps() {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, sigma, x, &denoised)?;
        slopes.rotate_right(1);
        slope(&mut slopes[0], x, sigma, &denoised);
        let order = if next <= 0.0 { 1 } else { max_order.min(i + 1) };
        if order == 1 {
            mix(x, 1.0, &[(next - sigma, &slopes[0])]);
            continue;
        }
        let weights = process.weights(&times, i, order);
        let terms: Vec<(f32, &[f32])> = weights
            .iter()
            .zip(&slopes)
            .map(|(&w, d)| (w, d.as_slice()))
            .collect();
        mix(x, 1.0, &terms);
    }
    Ok(())
}

/// The VP process of the EDM paper, fitted to sigma 0.002 at t = 0.001 and 80 at t = 1. In f32
/// throughout, since the reference's rounding of small times is larger than the error of the
/// method.
struct Vp {
    beta_min: f32,
    beta_d: f32,
}

impl Vp {
    fn new() -> Self {
        let log = |sigma: f32| (sigma * sigma + 1.0).exact_ln();
        let (low, high) = (log(0.002), log(80.0));
        let beta_d = 2.0 * (low / 1e-3 - high) / (1e-3 - 1.0);
        Self {
            beta_min: high - 0.5 * beta_d,
            beta_d,
        }
    }

    fn time(&self, sigma: f32) -> f32 {
        let log = (sigma * sigma + 1.0).exact_ln();
        let root = (self.beta_min * self.beta_min + 2.0 * self.beta_d * log).sqrt();
        (root - self.beta_min) / self.beta_d
    }

    /// Weights of the slopes at step `i`, newest first.
    fn weights(&self, times: &[f32], i: usize, order: usize) -> Vec<f32> {
        let (start, end) = (times[i], times[i + 1]);
        // The steepness is the reference's difference of its two betas, not `beta_d` itself.
        let steepness = (self.beta_d + self.beta_min) - self.beta_min;
        let mut sums = vec![0.0f64; order];
        for t in linspace(start, end, POINTS) {
            let log_alpha = -0.5 * (t * t) * steepness - t * self.beta_min;
            let alpha = log_alpha.exact_exp();
            // Where alpha rounds to 1 the reference divides by zero.
            let rest = if alpha < 1.0 {
                1.0 - alpha
            } else {
                -log_alpha.exact_exp_m1()
            };
            let density = 0.5 * (t * steepness + self.beta_min) / (alpha * rest).sqrt();
            for (j, sum) in sums.iter_mut().enumerate() {
                let others = (0..order).filter(|&k| k != j);
                let poly = others.fold(1.0f32, |p, k| {
                    p * ((t - times[i - k]) / (times[i - j] - times[i - k]))
                });
                *sum += f64::from(density * poly);
            }
        }
        let step = (end - start) / POINTS as f32;
        sums.iter().map(|&s| s as f32 * step).collect()
    }
}
