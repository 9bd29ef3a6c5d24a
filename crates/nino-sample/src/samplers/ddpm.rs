//! Ancestral sampling of the discrete process (Ho et al. 2020, algorithm 2), between arbitrary
//! levels.

use crate::error::Stop;
use crate::linear::mix;
use crate::sampler::Run;

pub fn ddpm(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let mut denoised = vec![0.0; x.len()];
    let mut noise = run.fresh_noise(x.len());
    for i in 0..run.steps() {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, sigma, x, &denoised)?;
        let alpha_bar = 1.0 / (sigma * sigma + 1.0);
        let alpha_bar_next = 1.0 / (next * next + 1.0);
        let alpha = alpha_bar / alpha_bar_next;
        let shrink = (1.0 + sigma * sigma).sqrt();
        let (outer, inner) = ((1.0 / alpha).sqrt(), (1.0 - alpha_bar).sqrt());
        for (x, d) in x.iter_mut().zip(&denoised) {
            let eps = (*x - d) / sigma;
            *x = outer * (*x / shrink - (1.0 - alpha) * eps / inner);
        }
        if next > 0.0 {
            let variance = (1.0 - alpha) * (1.0 - alpha_bar_next) / (1.0 - alpha_bar);
            mix(x, 1.0, &[(variance.sqrt(), noise.draw(sigma, next))]);
            mix(x, (1.0 + next * next).sqrt(), &[]);
        }
    }
    Ok(())
}
