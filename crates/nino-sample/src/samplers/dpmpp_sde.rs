//! DPM-Solver++ as an SDE solver with a middle stage (k-diffusion's `dpmpp_sde`), in half log-SNR
//! so that it also serves rectified flow. Noise comes from one Brownian path, so results change
//! little with the number of steps.

use super::snr;
use crate::ancestral::AncestralStep;
use crate::error::Stop;
use crate::exact::Exact;
use crate::linear::{mix, sum_into};
use crate::sampler::Run;

pub fn dpmpp_sde(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let n = x.len();
    let (mut denoised, mut denoised_2, mut x_2) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let mut noise = run.brownian_noise(n);
    let sigmas = snr::finite(run.model, run.sigmas);
    let (eta, s_noise, r) = (run.eta(), run.s_noise(), run.options.r);
    let noisy = eta > 0.0 && s_noise > 0.0;
    let weight_2 = 1.0 / (2.0 * r);
    for i in 0..run.steps() {
        let (sigma, next) = (sigmas[i], sigmas[i + 1]);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, sigma, x, &denoised)?;
        if next == 0.0 {
            x.copy_from_slice(&denoised);
            continue;
        }
        let (from, to) = (snr::lambda(run.model, sigma), snr::lambda(run.model, next));
        let between = from + r * (to - from);
        let middle = snr::sigma(run.model, between);
        let alpha = sigma * from.exact_exp();

        let half = Stage::new(from, between, eta, middle * between.exact_exp());
        sum_into(
            &mut x_2,
            &[(half.alpha / alpha * half.decay, x), (half.gain, &denoised)],
        );
        if noisy {
            let weight = half.alpha * s_noise * half.up;
            mix(&mut x_2, 1.0, &[(weight, noise.draw(sigma, middle))]);
        }
        run.denoise(&x_2, middle, &mut denoised_2)?;

        let whole = Stage::new(from, to, eta, next * to.exact_exp());
        mix(&mut denoised, 1.0 - weight_2, &[(weight_2, &denoised_2)]);
        mix(
            x,
            whole.alpha / alpha * whole.decay,
            &[(whole.gain, &denoised)],
        );
        if noisy {
            let weight = whole.alpha * s_noise * whole.up;
            mix(x, 1.0, &[(weight, noise.draw(sigma, next))]);
        }
    }
    Ok(())
}

/// Factors of a stage that ends at a half log-SNR where the signal's scale is `alpha`.
struct Stage {
    alpha: f32,
    decay: f32,
    gain: f32,
    up: f32,
}

impl Stage {
    fn new(from: f32, to: f32, eta: f32, alpha: f32) -> Self {
        let step = AncestralStep::in_sigma((-from).exact_exp(), (-to).exact_exp(), eta);
        let h = -step.down.exact_ln() - from;
        Self {
            alpha,
            decay: (-h).exact_exp(),
            gain: -alpha * (-h).exact_exp_m1(),
            up: step.up,
        }
    }
}
