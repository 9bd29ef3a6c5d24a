//! Second-order refined exponential solver, multistep (Zhang et al. 2023, "Improved order analysis
//! and design of exponential integrator for diffusion models sampling"), with ancestral and CFG++
//! forms.

use crate::ancestral::AncestralStep;
use crate::error::Stop;
use crate::exact::Exact;
use crate::linear::{mix, slope};
use crate::sampler::Run;

pub fn res_multistep(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    solve(run, x, 0.0, false)
}

pub fn res_multistep_cfg_pp(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    solve(run, x, 0.0, true)
}

pub fn res_multistep_ancestral(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    solve(run, x, run.eta(), false)
}

pub fn res_multistep_ancestral_cfg_pp(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    solve(run, x, run.eta(), true)
}

fn solve(run: &mut Run<'_>, x: &mut [f32], eta: f32, cfg_pp: bool) -> Result<(), Stop> {
    let n = x.len();
    let (mut denoised, mut uncond, mut old, mut d) =
        (vec![0.0; n], vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let mut noise = run.fresh_noise(n);
    let s_noise = run.s_noise();
    let mut old_down = 0.0f32;
    for i in 0..run.steps() {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        if cfg_pp {
            run.denoise_both(x, sigma, &mut denoised, &mut uncond)?;
        } else {
            run.denoise(x, sigma, &mut denoised)?;
            uncond.copy_from_slice(&denoised);
        }
        run.report(i, sigma, x, &denoised)?;
        let AncestralStep { down, up, .. } = AncestralStep::in_sigma(sigma, next, eta);
        if down == 0.0 || i == 0 {
            slope(&mut d, x, sigma, &uncond);
            if cfg_pp {
                x.copy_from_slice(&denoised);
                mix(x, 1.0, &[(down, &d)]);
            } else {
                mix(x, 1.0, &[(down - sigma, &d)]);
            }
        } else {
            let h = sigma.exact_ln() - down.exact_ln();
            let c2 = (old_down.exact_ln() - run.sigmas[i - 1].exact_ln()) / h;
            let phi_1 = (-h).exact_exp_m1() / -h;
            let phi_2 = (phi_1 - 1.0) / -h;
            let or_zero = |v: f32| if v.is_nan() { 0.0 } else { v };
            let (b1, b2) = (or_zero(phi_1 - phi_2 / c2), or_zero(phi_2 / c2));
            let keep = (-h).exact_exp();
            for j in 0..n {
                let start = x[j] + (denoised[j] - uncond[j]);
                x[j] = keep * start + h * (b1 * uncond[j] + b2 * old[j]);
            }
        }
        if next > 0.0 && up != 0.0 {
            mix(x, 1.0, &[(s_noise * up, noise.draw(sigma, next))]);
        }
        std::mem::swap(&mut old, &mut uncond);
        old_down = down;
    }
    Ok(())
}
