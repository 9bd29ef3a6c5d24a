//! Multistep consistency sampling (Song et al. 2023, algorithm 1; Luo et al. 2023): predict, then
//! add noise of the next level.

use crate::error::Stop;
use crate::linear::mix;
use crate::sampler::Run;

pub fn lcm(run: &mut Run<'_>, x: &mut [f32]) -> Result<(), Stop> {
    let mut denoised = vec![0.0; x.len()];
    let mut noise = run.fresh_noise(x.len());
    let steps = run.steps();
    let start = run.options.s_noise;
    let end = run.options.s_noise_end.unwrap_or(start);
    for i in 0..steps {
        let (sigma, next) = (run.sigmas[i], run.sigmas[i + 1]);
        run.denoise(x, sigma, &mut denoised)?;
        run.report(i, sigma, x, &denoised)?;
        x.copy_from_slice(&denoised);
        if next <= 0.0 {
            continue;
        }
        let fresh = noise.draw(sigma, next);
        let limit = match run.options.noise_clip_std {
            clip if clip > 0.0 => clip * deviation(fresh),
            _ => f32::INFINITY,
        };
        let progress = if steps > 1 {
            i as f32 / (steps - 1) as f32
        } else {
            0.0
        };
        let factor = start + (end - start) * progress;
        let (noise_scale, keep) = run.model.prediction.noise_scales(next, false);
        if limit.is_finite() {
            let clamped = |v: &f32| v.clamp(-limit, limit) * factor;
            x.iter_mut()
                .zip(fresh)
                .for_each(|(x, v)| *x = noise_scale * clamped(v) + keep * *x);
        } else {
            mix(x, keep, &[(noise_scale * factor, fresh)]);
        }
    }
    Ok(())
}

fn deviation(v: &[f32]) -> f32 {
    let n = v.len() as f64;
    let mean = v.iter().map(|&v| f64::from(v)).sum::<f64>() / n;
    let sum: f64 = v.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum();
    (sum / (n - 1.0).max(1.0)).sqrt() as f32
}
