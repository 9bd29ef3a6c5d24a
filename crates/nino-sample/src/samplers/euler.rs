//! Euler steps of the probability-flow ODE (Karras et al. 2022, algorithm 2 without its
//! second-order part), and their ancestral form (k-diffusion). `ddim` is `euler` whose inpainting
//! uses noise of its own.

use crate::error::Stop;
use crate::linear::{mix, slope};
use crate::sampler::Run;

pub fn euler(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let (mut denoised, mut d) = (vec![0.0; x.len()], vec![0.0; x.len()]);
    for i in 0..run.steps() {
        let sigma = run.churn(i, x, &mut d);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, run.sigmas[i], x, &denoised)?;
        slope(&mut d, x, sigma, &denoised);
        mix(x, 1.0, &[(run.sigmas[i + 1] - sigma, &d)]);
    }
    Ok(())
}

pub fn euler_ancestral(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let mut denoised = vec![0.0; x.len()];
    let mut noise = run.fresh_noise(x.len());
    let (eta, s_noise, prediction) = (run.eta(), run.s_noise(), run.model.prediction);
    for i in 0..run.steps() {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, sigma, x, &denoised)?;
        let step = prediction.ancestral_step(sigma, next, eta);
        if step.to_clean {
            x.copy_from_slice(&denoised);
            continue;
        }
        prediction.euler_step(x, &denoised, sigma, step.down);
        let noise = noise.draw(sigma, next);
        mix(x, step.rescale, &[(s_noise * step.up, noise)]);
    }
    Ok(())
}
