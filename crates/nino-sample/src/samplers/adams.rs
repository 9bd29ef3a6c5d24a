//! SA-Solver (Xue et al. 2023): stochastic Adams predictor and corrector in half log-SNR. Noise is
//! added only in the middle of the run. `sa_solver_pece` evaluates the corrected state once more
//! before it predicts.

use std::collections::VecDeque;

use super::snr;
use super::solve::solve;
use crate::error::Stop;
use crate::exact::Exact;
use crate::linear::{mix, sum_into};
use crate::sampler::Run;

pub fn sa_solver(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    run_adams(run, x, false)
}

pub fn sa_solver_pece(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    run_adams(run, x, true)
}

fn run_adams(run: &mut Run<'_>, x: &mut [f32], pece: bool) -> Result<(), Stop> {
    let n = x.len();
    let (steps, settings, s_noise) = (run.steps(), run.options.adams, run.s_noise());
    let sigmas = snr::finite(run.model, run.sigmas);
    let lambdas: Vec<f32> = sigmas.iter().map(|&s| snr::lambda(run.model, s)).collect();
    let eta = run.options.eta.unwrap_or(1.0);
    let noisiest = run.model.percent_to_sigma(settings.start_percent);
    let cleanest = run.model.percent_to_sigma(settings.end_percent);
    let tau_at = |s: f32| {
        if (cleanest..=noisiest).contains(&f64::from(s)) {
            eta.max(0.0)
        } else {
            0.0
        }
    };
    let mut source = run.fresh_noise(n);

    let history = settings
        .predictor_order
        .max(settings.corrector_order)
        .max(1);
    let mut seen: VecDeque<Vec<f32>> = VecDeque::with_capacity(history + 1);
    let mut predicted = x.to_vec();
    let (mut noise, mut sum) = (vec![0.0; n], vec![0.0; n]);
    let mut tau = 0.0f32;
    let ends_at_zero = sigmas.last() == Some(&0.0);
    for i in 0..steps {
        let mut denoised = if seen.len() == history {
            seen.pop_back()
        } else {
            None
        }
        .unwrap_or_else(|| vec![0.0; n]);
        run.denoise(&predicted, sigmas[i], &mut denoised)?;
        run.report(i, sigmas[i], &predicted, &denoised)?;
        seen.push_front(denoised);

        // Low orders near the end keep the last steps stable.
        let mut predictor = settings.predictor_order.min(seen.len());
        let corrects = i > 0 && (sigmas[i + 1] != 0.0 || pece);
        let mut corrector = if corrects {
            settings.corrector_order.min(seen.len())
        } else {
            0
        };
        if ends_at_zero {
            predictor = predictor.min(steps - 1 - i);
            corrector = corrector.min(steps - i);
        }
        if corrector == 0 {
            x.copy_from_slice(&predicted);
        } else {
            let step = AdamsStep::new(&sigmas, &lambdas, i - 1, tau, settings.simple_order_2);
            step.apply(x, &lambdas[i + 1 - corrector..=i], &seen, true, &mut sum);
            if tau > 0.0 && s_noise > 0.0 {
                mix(x, 1.0, &[(1.0, &noise)]);
            }
            if pece {
                run.denoise(x, sigmas[i], &mut seen[0])?;
            }
        }
        if sigmas[i + 1] == 0.0 {
            predicted.copy_from_slice(&seen[0]);
            continue;
        }
        tau = tau_at(sigmas[i + 1]);
        let step = AdamsStep::new(&sigmas, &lambdas, i, tau, settings.simple_order_2);
        predicted.copy_from_slice(x);
        step.apply(
            &mut predicted,
            &lambdas[i + 1 - predictor..=i],
            &seen,
            false,
            &mut sum,
        );
        if tau > 0.0 && s_noise > 0.0 {
            let deviation = sigmas[i + 1] * (-(-2.0 * tau * tau * step.h).exact_exp_m1()).sqrt();
            let fresh = source.draw(sigmas[i], sigmas[i + 1]);
            noise
                .iter_mut()
                .zip(fresh)
                .for_each(|(o, v)| *o = v * deviation * s_noise);
            mix(&mut predicted, 1.0, &[(1.0, &noise)]);
        }
    }
    x.copy_from_slice(&predicted);
    Ok(())
}

/// The step from level `i` to level `i + 1`.
struct AdamsStep {
    from: f32,
    to: f32,
    h: f32,
    keep: f32,
    alpha: f32,
    tau: f32,
    simple_order_2: bool,
}

impl AdamsStep {
    fn new(sigmas: &[f32], lambdas: &[f32], i: usize, tau: f32, simple_order_2: bool) -> Self {
        let (from, to) = (lambdas[i], lambdas[i + 1]);
        let h = to - from;
        Self {
            from,
            to,
            h,
            keep: sigmas[i + 1] / sigmas[i] * (-(tau * tau) * h).exact_exp(),
            alpha: sigmas[i + 1] * to.exact_exp(),
            tau,
            simple_order_2,
        }
    }

    /// x = keep * x + sum of b_k * prediction_k, for predictions at half log-SNRs `knots` (oldest
    /// first), of which `seen` has the values (newest first).
    fn apply(
        &self,
        x: &mut [f32],
        knots: &[f32],
        seen: &VecDeque<Vec<f32>>,
        corrects: bool,
        sum: &mut [f32],
    ) {
        let weights = self.weights(knots, corrects);
        let terms: Vec<(f32, &[f32])> = weights
            .iter()
            .zip((0..knots.len()).rev())
            .map(|(&w, k)| (w, seen[k].as_slice()))
            .collect();
        sum_into(sum, &terms);
        mix(x, self.keep, &[(1.0, sum)]);
    }

    fn weights(&self, knots: &[f32], corrects: bool) -> Vec<f32> {
        let rate = 1.0 + self.tau * self.tau;
        if self.simple_order_2 && knots.len() == 2 {
            let whole = self.alpha * -(-self.h * rate).exact_exp_m1();
            return if corrects {
                let newest = self.alpha * (0.5 * rate * self.h);
                vec![whole - newest, newest]
            } else {
                let older = self.alpha * (0.5 * rate * self.h * self.h) / (knots[0] - self.from);
                vec![older, whole - older]
            };
        }
        let n = knots.len();
        let rows = (0..n)
            .map(|p| knots.iter().map(|k| k.powi(p as i32)).collect())
            .collect();
        let lagrange = solve(rows, self.moments(n));
        lagrange.into_iter().map(|w| w * self.alpha).collect()
    }

    /// rate * integral over the step of exp(rate * (t - to)) * t^p, for p below `n`, by parts: each
    /// is its boundary term less p / rate times the one before.
    fn moments(&self, n: usize) -> Vec<f32> {
        let rate = 1.0 + self.tau * self.tau;
        let decay = (-rate * self.h).exact_exp();
        let mut moments: Vec<f32> = Vec::with_capacity(n);
        for p in 0..n {
            let boundary = self.to.powi(p as i32) - self.from.powi(p as i32) * decay;
            let before = moments.last().map_or(0.0, |m| p as f32 / rate * m);
            moments.push(boundary - before);
        }
        moments
    }
}
