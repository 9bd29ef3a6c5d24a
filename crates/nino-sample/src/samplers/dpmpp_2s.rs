//! DPM-Solver++(2S) with ancestral noise (Lu et al. 2022b, algorithm 1, in k-diffusion's ancestral
//! form), and its CFG++ form (Chung et al. 2024).

use crate::ancestral::{AncestralStep, HalfStep};
use crate::error::Stop;
use crate::linear::{mix, sum_into};
use crate::sampler::Run;

pub fn dpmpp_2s_ancestral(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let (mut denoised, mut x_2) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    let mut noise = run.fresh_noise(x.len());
    let (eta, s_noise, prediction) = (run.eta(), run.s_noise(), run.model.prediction);
    for i in 0..run.steps() {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, sigma, x, &denoised)?;
        let step = prediction.ancestral_step(sigma, next, eta);
        if step.to_clean {
            to_zero(x, sigma, &denoised);
        } else {
            let half = prediction.half_step(sigma, step.down);
            sum_into(
                &mut x_2,
                &[(half.keep_half, x), (half.gain_half, &denoised)],
            );
            run.denoise(&x_2, half.middle, &mut denoised)?;
            mix(x, half.keep, &[(half.gain, &denoised)]);
        }
        if next > 0.0 {
            let noise = noise.draw(sigma, next);
            mix(x, step.rescale, &[(s_noise * step.up, noise)]);
        }
    }
    Ok(())
}

pub fn dpmpp_2s_ancestral_cfg_pp(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let n = x.len();
    let (mut denoised, mut uncond, mut x_2) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let mut denoised_2 = vec![0.0; n];
    let mut noise = run.fresh_noise(n);
    let (eta, s_noise) = (run.eta(), run.s_noise());
    for i in 0..run.steps() {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        run.denoise_both(x, sigma, &mut denoised, &mut uncond)?;
        run.report(i, sigma, x, &denoised)?;
        let AncestralStep { down, up, .. } = AncestralStep::in_sigma(sigma, next, eta);
        if down == 0.0 {
            x.copy_from_slice(&denoised);
        } else {
            // The middle stage starts from noise as the negative prompt sees it. The second half
            // mixes in the negative's prediction at the middle, because the reference reuses its
            // variable.
            let step = HalfStep::in_sigma(sigma, down);
            let first = x.iter().zip(denoised.iter().zip(&uncond));
            for (o, (x, (d, u))) in x_2.iter_mut().zip(first) {
                *o = step.keep_half * (x + (d - u)) + step.gain_half * d;
            }
            run.denoise_both(&x_2, step.middle, &mut denoised_2, &mut uncond)?;
            let guided = denoised.iter().zip(&uncond).zip(&denoised_2);
            for (x, ((d, u), d_2)) in x.iter_mut().zip(guided) {
                *x = step.keep * (*x + (d - u)) + step.gain * d_2;
            }
        }
        if next > 0.0 {
            mix(x, 1.0, &[(s_noise * up, noise.draw(sigma, next))]);
        }
    }
    Ok(())
}

/// An Euler step to level 0.
fn to_zero(x: &mut [f32], sigma: f32, denoised: &[f32]) {
    x.iter_mut()
        .zip(denoised)
        .for_each(|(x, d)| *x += (*x - d) / sigma * -sigma);
}
