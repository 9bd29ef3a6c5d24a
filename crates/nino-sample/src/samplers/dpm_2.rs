//! DPM-Solver-2 with its midpoint at the geometric mean of the two levels (Lu et al. 2022, in the
//! form of k-diffusion), and its ancestral form. Both run on a schedule without its penultimate
//! level.

use crate::error::Stop;
use crate::exact::Exact;
use crate::linear::{lerp, mix, slope, sum_into};
use crate::sampler::Run;

pub fn dpm_2(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let mut buffers = Buffers::new(x.len());
    for i in 0..run.steps() {
        let sigma = run.churn(i, x, &mut buffers.d);
        run.denoise(x, sigma, &mut buffers.denoised)?;
        run.report(i, run.sigmas[i], x, &buffers.denoised)?;
        buffers.step(run, x, sigma, run.sigmas[i + 1])?;
    }
    Ok(())
}

pub fn dpm_2_ancestral(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let mut buffers = Buffers::new(x.len());
    let mut noise = run.fresh_noise(x.len());
    let (eta, s_noise, prediction) = (run.eta(), run.s_noise(), run.model.prediction);
    for i in 0..run.steps() {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        run.denoise(x, sigma, &mut buffers.denoised)?;
        run.report(i, sigma, x, &buffers.denoised)?;
        let step = prediction.ancestral_step(sigma, next, eta);
        buffers.step(run, x, sigma, step.down)?;
        if step.down != 0.0 {
            let noise = noise.draw(sigma, next);
            mix(x, step.rescale, &[(s_noise * step.up, noise)]);
        }
    }
    Ok(())
}

struct Buffers {
    denoised: Vec<f32>,
    d: Vec<f32>,
    x_2: Vec<f32>,
}

impl Buffers {
    fn new(n: usize) -> Self {
        Self {
            denoised: vec![0.0; n],
            d: vec![0.0; n],
            x_2: vec![0.0; n],
        }
    }

    /// From `sigma` to `to` with the slope at the middle; `denoised` holds the prediction at
    /// `sigma`.
    fn step(&mut self, run: &mut Run<'_>, x: &mut [f32], sigma: f32, to: f32) -> Result<(), Stop> {
        slope(&mut self.d, x, sigma, &self.denoised);
        if to != 0.0 {
            let middle = lerp(sigma.exact_ln(), to.exact_ln(), 0.5).exact_exp();
            sum_into(&mut self.x_2, &[(1.0, x), (middle - sigma, &self.d)]);
            run.denoise(&self.x_2, middle, &mut self.denoised)?;
            slope(&mut self.d, &self.x_2, middle, &self.denoised);
        }
        mix(x, 1.0, &[(to - sigma, &self.d)]);
        Ok(())
    }
}
