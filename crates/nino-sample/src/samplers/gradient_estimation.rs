//! Gradient estimation (Permenter and Yuan 2024, "Interpreting and improving diffusion models from
//! an optimization perspective", algorithm 2): Euler steps with the slope extrapolated by
//! `ge_gamma`, and the CFG++ form.

use crate::error::Stop;
use crate::linear::slope;
use crate::sampler::Run;

pub fn gradient_estimation(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    solve(run, x, false)
}

pub fn gradient_estimation_cfg_pp(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    solve(run, x, true)
}

fn solve(run: &mut Run<'_>, x: &mut [f32], cfg_pp: bool) -> Result<(), Stop> {
    let n = x.len();
    let (mut denoised, mut uncond, mut d, mut old_d) =
        (vec![0.0; n], vec![0.0; n], vec![0.0; n], vec![0.0; n]);
    let extra = run.options.ge_gamma - 1.0;
    for i in 0..run.steps() {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        if cfg_pp {
            run.denoise_both(x, sigma, &mut denoised, &mut uncond)?;
        } else {
            run.denoise(x, sigma, &mut denoised)?;
        }
        run.report(i, sigma, x, &denoised)?;
        slope(&mut d, x, sigma, if cfg_pp { &uncond } else { &denoised });
        let dt = next - sigma;
        if next == 0.0 {
            x.copy_from_slice(&denoised);
        } else {
            for j in 0..n {
                let euler = if cfg_pp {
                    denoised[j] + d[j] * next
                } else {
                    x[j] + d[j] * dt
                };
                let estimate = if i > 0 {
                    extra * (d[j] - old_d[j]) * dt
                } else {
                    0.0
                };
                x[j] = euler + estimate;
            }
        }
        std::mem::swap(&mut d, &mut old_d);
    }
    Ok(())
}
