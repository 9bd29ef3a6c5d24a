//! CFG++ (Chung et al. 2024): the guided prediction, renoised along the negative prompt's noise.
//! Euler steps, ancestral Euler steps, and `cfgpp_ud10_ab`, which adds a touch of second-order
//! history to both.

use super::{lms, snr};
use crate::ancestral::AncestralStep;
use crate::error::Stop;
use crate::exact::Exact;
use crate::linear::mix;
use crate::sampler::{Output, Run};

pub fn euler_cfg_pp(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    euler(run, x, 0.0)
}

pub fn euler_ancestral_cfg_pp(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    euler(run, x, run.eta())
}

fn euler(run: &mut Run<'_>, x: &mut [f32], eta: f32) -> Result<(), Stop> {
    let n = x.len();
    let (mut denoised, mut uncond) = (vec![0.0; n], vec![0.0; n]);
    let mut noise = run.fresh_noise(n);
    let s_noise = run.s_noise();
    for i in 0..run.steps() {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        run.denoise_both(x, sigma, &mut denoised, &mut uncond)?;
        run.report(i, sigma, x, &denoised)?;
        if next == 0.0 {
            x.copy_from_slice(&denoised);
            continue;
        }
        let alpha = sigma * snr::lambda(run.model, sigma).exact_exp();
        let alpha_next = next * snr::lambda(run.model, next).exact_exp();
        let step = AncestralStep::in_sigma(sigma / alpha, next / alpha_next, eta);
        let (down, up) = (alpha_next * step.down, step.up);
        for j in 0..n {
            let d = (x[j] - alpha * uncond[j]) / sigma;
            x[j] = alpha_next * denoised[j] + down * d;
        }
        if eta > 0.0 && s_noise > 0.0 {
            mix(
                x,
                1.0,
                &[(alpha_next * s_noise * up, noise.draw(sigma, next))],
            );
        }
    }
    Ok(())
}

/// Each CFG++ Euler step is extrapolated: the negative's noise by 10% of its last change, the step
/// by a quarter towards what Adams-Bashforth of order 2 would do, and the last prediction along the
/// line through the last two.
pub fn cfgpp_ud10_ab(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    const HISTORY: f32 = 0.25;
    const NOISE_HISTORY: f32 = 0.1;
    let n = x.len();
    let zeros = || vec![0.0f32; n];
    let (mut denoised, mut uncond, mut old_denoised) = (zeros(), zeros(), zeros());
    let (mut noise, mut old_noise, mut slope, mut old_slope) = (zeros(), zeros(), zeros(), zeros());
    for i in 0..run.steps() {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        let out = Output {
            denoised: &mut denoised,
            uncond: Some(&mut uncond),
            force_uncond: false,
        };
        run.denoiser.denoise(x, sigma, out)?;
        run.report(i, sigma, x, &denoised)?;
        let alpha = sigma * snr::lambda(run.model, sigma).exact_exp();
        let alpha_next = if next == 0.0 {
            1.0
        } else {
            next * snr::lambda(run.model, next).exact_exp()
        };
        let dt = next - sigma;
        let ratio = if i == 0 {
            0.0
        } else {
            NOISE_HISTORY * (dt / (sigma - run.sigmas[i - 1]))
        };
        let ab2 = (i > 0).then(|| [0, 1].map(|j| lms::weight(run.sigmas, i, 2, j)));
        for j in 0..n {
            noise[j] = (x[j] - alpha * uncond[j]) / sigma;
            let ahead = noise[j] + ratio * (noise[j] - old_noise[j]);
            let euler = alpha_next * denoised[j] + next * ahead - x[j];
            slope[j] = euler / dt;
            x[j] += match ab2 {
                None => euler,
                Some([a, b]) => euler + HISTORY * (a * slope[j] + b * old_slope[j] - euler),
            };
        }
        if next == 0.0 && i > 0 {
            let before = run.sigmas[i - 1];
            for j in 0..n {
                let change = (denoised[j] - old_denoised[j]) / (sigma - before);
                x[j] = denoised[j] - sigma * change;
            }
        }
        std::mem::swap(&mut denoised, &mut old_denoised);
        std::mem::swap(&mut noise, &mut old_noise);
        std::mem::swap(&mut slope, &mut old_slope);
    }
    Ok(())
}
