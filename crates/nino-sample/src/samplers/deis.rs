//! DEIS, time-based Adams-Bashforth (Zhang and Chen 2022, "tAB-DEIS"): integrates the Lagrange polynomials of past
//! slopes against the VP process's weight. The weights are sums over 10,000 points, as in zju-pi/diff-sampler.

use std::collections::VecDeque;

use crate::error::Stop;
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

/// The VP process of the EDM paper, fitted to sigma 0.002 at t = 0.001 and 80 at t = 1.
struct Vp {
    beta_min: f64,
    beta_d: f64,
}

impl Vp {
    fn new() -> Self {
        let log = |sigma: f64| (sigma * sigma + 1.0).ln();
        let start = 1e-3;
        let (low, high) = (log(f64::from(0.002_f32)), log(80.0));
        let beta_d = 2.0 * (low / start - high) / (start - 1.0);
        Self {
            beta_min: high - 0.5 * beta_d,
            beta_d,
        }
    }

    fn time(&self, sigma: f32) -> f32 {
        let log = (f64::from(sigma * sigma) + 1.0).ln();
        (((self.beta_min * self.beta_min + 2.0 * self.beta_d * log).sqrt() - self.beta_min)
            / self.beta_d) as f32
    }

    /// Weights of the slopes at step `i`, newest first.
    fn weights(&self, times: &[f32], i: usize, order: usize) -> Vec<f32> {
        let at = |k: usize| f64::from(times[i - k]);
        let (start, end) = (at(0), f64::from(times[i + 1]));
        let mut sums = vec![0.0; order];
        for p in 0..POINTS {
            let t = start + (end - start) * p as f64 / (POINTS - 1) as f64;
            let log_alpha = -0.5 * t * t * self.beta_d - t * self.beta_min;
            let rate = -(t * self.beta_d + self.beta_min);
            let alpha = log_alpha.exp();
            let density = -0.5 * rate / (alpha * (1.0 - alpha)).sqrt();
            for (j, sum) in sums.iter_mut().enumerate() {
                let others = (0..order).filter(|&k| k != j);
                *sum += density
                    * others
                        .map(|k| (t - at(k)) / (at(j) - at(k)))
                        .product::<f64>();
            }
        }
        sums.iter()
            .map(|s| (s * (end - start) / POINTS as f64) as f32)
            .collect()
    }
}
