//! DPM-Solver++(2S) with ancestral noise (Lu et al. 2022b, algorithm 1, in k-diffusion's ancestral form), its
//! rectified-flow form, and its CFG++ form (Chung et al. 2024).

use super::ancestral::{split, split_flow};
use crate::error::Stop;
use crate::exact::Exact;
use crate::linear::{mix, sum_into};
use crate::sampler::Run;

pub fn dpmpp_2s_ancestral(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    if run.model.prediction.is_flow() {
        return flow(run, x);
    }
    let (mut denoised, mut x_2) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    let mut noise = run.fresh_noise(x.len());
    let (eta, s_noise) = (run.eta(), run.s_noise());
    for i in 0..run.steps() {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, sigma, x, &denoised)?;
        let (down, up) = split(sigma, next, eta);
        if down == 0.0 {
            to_zero(x, sigma, &denoised);
        } else {
            let step = HalfStep::new(sigma, down);
            sum_into(
                &mut x_2,
                &[(step.keep_half, x), (step.gain_half, &denoised)],
            );
            run.denoise(&x_2, step.middle, &mut denoised)?;
            mix(x, step.keep, &[(step.gain, &denoised)]);
        }
        if next > 0.0 {
            mix(x, 1.0, &[(s_noise * up, noise.draw(sigma, next))]);
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
        let (down, up) = split(sigma, next, eta);
        if down == 0.0 {
            x.copy_from_slice(&denoised);
        } else {
            // The middle stage starts from noise as the negative prompt sees it; the second half then mixes in
            // the negative's prediction at the middle, which the reference's variable holds by then.
            let step = HalfStep::new(sigma, down);
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

fn flow(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let (mut denoised, mut x_2) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    let mut noise = run.fresh_noise(x.len());
    let (eta, s_noise) = (run.eta(), run.s_noise());
    let lambda = |sigma: f32| ((1.0 - sigma) / sigma).exact_ln();
    for i in 0..run.steps() {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, sigma, x, &denoised)?;
        if next == 0.0 {
            to_zero(x, sigma, &denoised);
            continue;
        }
        let step = split_flow(sigma, next, eta);
        let middle = if sigma >= 1.0 {
            0.9999
        } else {
            let (from, to) = (lambda(sigma), lambda(step.down));
            1.0 / ((from + 0.5 * (to - from)).exact_exp() + 1.0)
        };
        let ratio = middle / sigma;
        sum_into(&mut x_2, &[(ratio, x), (1.0 - ratio, &denoised)]);
        run.denoise(&x_2, middle, &mut denoised)?;
        let ratio = step.down / sigma;
        mix(x, ratio, &[(1.0 - ratio, &denoised)]);
        if eta > 0.0 {
            mix(
                x,
                step.rescale,
                &[(s_noise * step.up, noise.draw(sigma, next))],
            );
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

/// Factors of a step from `sigma` to `down`, half-way (in log sigma) and whole: keep * x + gain * denoised.
struct HalfStep {
    middle: f32,
    keep_half: f32,
    gain_half: f32,
    keep: f32,
    gain: f32,
}

impl HalfStep {
    fn new(sigma: f32, down: f32) -> Self {
        let (t, t_next) = (-sigma.exact_ln(), -down.exact_ln());
        let h = t_next - t;
        let middle = (-(t + 0.5 * h)).exact_exp();
        let start = (-t).exact_exp();
        Self {
            middle,
            keep_half: middle / start,
            gain_half: -(-h * 0.5).exact_exp_m1(),
            keep: (-t_next).exact_exp() / start,
            gain: -(-h).exact_exp_m1(),
        }
    }
}
