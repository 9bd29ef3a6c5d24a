//! ComfyUI's `KSampler` and `KSamplerAdvanced`: from steps, denoise and the start and end of a run
//! to its noise levels, and from a latent and noise to the sampled latent.

use crate::error::{Error, Stop};
use crate::inpaint::{Gradual, Inpaint};
use crate::model::ModelSampling;
use crate::noise::{Seed, initial};
use crate::registry::{Sampler, StepNoiseKind};
use crate::rng::Rng;
use crate::sampler::{Denoise, Options, Run, Step};
use crate::schedule::{MAX_STEPS, Scheduler};

/// The noise levels of `steps` steps with a sampler that may drop the penultimate one.
fn levels(
    model: &ModelSampling,
    sampler: &Sampler,
    scheduler: Scheduler,
    steps: usize,
) -> Result<Vec<f32>, Error> {
    if !sampler.drops_penultimate {
        return scheduler.sigmas(model, steps);
    }
    let mut sigmas = scheduler.sigmas(model, steps + 1)?;
    if sigmas.len() >= 2 {
        sigmas.remove(sigmas.len() - 2);
    }
    Ok(sigmas)
}

/// `KSampler`'s noise levels. `denoise` below 1 takes the last `steps` of a schedule of
/// `steps / denoise`; at 0 there is nothing to do and the list is empty.
pub fn sigmas(
    model: &ModelSampling,
    sampler: &Sampler,
    scheduler: Scheduler,
    steps: usize,
    denoise: f64,
) -> Result<Vec<f32>, Error> {
    if steps == 0 || steps > MAX_STEPS {
        return Err(Error::Steps {
            steps,
            max: MAX_STEPS,
        });
    }
    if !(0.0..=1.0).contains(&denoise) {
        return Err(Error::Setting {
            what: "denoise",
            expected: "0 to 1",
            found: denoise,
        });
    }
    if denoise > 0.9999 {
        return levels(model, sampler, scheduler, steps);
    }
    if denoise == 0.0 {
        return Ok(Vec::new());
    }
    let all = levels(model, sampler, scheduler, (steps as f64 / denoise) as usize)?;
    Ok(all[all.len().saturating_sub(steps + 1)..].to_vec())
}

/// The part of a run that `KSamplerAdvanced` does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub start_at_step: usize,
    pub end_at_step: usize,
    /// Keep the noise of the level the run ends at, for another sampler to go on from.
    pub return_with_leftover_noise: bool,
}

impl Window {
    /// Cuts the levels; empty when the run would start at or after its end, which leaves the latent
    /// as it is.
    pub fn cut(self, sigmas: &[f32]) -> Vec<f32> {
        let mut cut = sigmas.to_vec();
        if self.end_at_step + 1 < sigmas.len() {
            cut.truncate(self.end_at_step + 1);
            if let (Some(last), false) = (cut.last_mut(), self.return_with_leftover_noise) {
                *last = 0.0;
            }
        }
        if self.start_at_step + 1 >= cut.len() {
            return Vec::new();
        }
        cut.split_off(self.start_at_step)
    }
}

/// One sampling job over a latent in the model's own units.
pub struct Job<'a> {
    pub model: &'a ModelSampling,
    pub sampler: &'a Sampler,
    pub sigmas: &'a [f32],
    pub seed: Seed,
    pub options: &'a Options,
    /// What sampling starts from: zeros for text to image.
    pub latent: &'a [f32],
    /// Unit noise, or zeros when a run goes on with the noise its latent has.
    pub noise: &'a [f32],
    /// 1 where to paint; `None` paints everywhere.
    pub mask: Option<&'a [f32]>,
    /// Outside the mask, the denoiser sees the latent as it is instead of noised to the level.
    pub clean: bool,
}

/// Runs a job. An empty list of levels returns the latent.
pub fn sample(
    job: &Job<'_>,
    denoiser: &mut dyn Denoise,
    on_step: &mut dyn FnMut(&Step<'_>) -> Result<(), Stop>,
) -> Result<Vec<f32>, Error> {
    let Job {
        model,
        sampler,
        sigmas,
        seed,
        options,
        latent,
        noise,
        mask,
        clean,
    } = *job;
    if noise.len() != latent.len() {
        let (expected, found) = (latent.len(), noise.len());
        return Err(Error::Length {
            what: "the noise",
            expected,
            found,
        });
    }
    let (Some(&first), Some(&last)) = (sigmas.first(), sigmas.last()) else {
        return Ok(latent.to_vec());
    };
    let fresh = (sampler.fresh_inpaint_noise && mask.is_some()).then(|| {
        initial(
            Seed {
                value: seed.value.wrapping_add(1),
                ..seed
            },
            noise.len(),
        )
    });
    let mut inpaint;
    let denoiser: &mut dyn Denoise = match mask {
        Some(mask) => {
            let noise = fresh.as_deref().unwrap_or(noise);
            inpaint = Inpaint::new(denoiser, model.prediction, mask, latent, noise)?;
            inpaint.clean = clean;
            inpaint.gradual = options.gradual.map(|strength| Gradual {
                model,
                sigmas,
                strength,
            });
            &mut inpaint
        }
        None => denoiser,
    };

    let full = starts_full(model, first);
    let (noise_scale, latent_scale) = model.prediction.noise_scales(first, full);
    let mut x: Vec<f32> = noise
        .iter()
        .zip(latent)
        .map(|(n, l)| noise_scale * n + latent_scale * l)
        .collect();
    let mut churn = seed.rng.generator(seed.value);
    if options.s_churn > 0.0 {
        churn.randn(&mut vec![0.0; noise.len()]);
    }
    let on_device = sampler.step_noise == StepNoiseKind::DeviceBrownian;
    let brownian_rng = if on_device { seed.rng } else { Rng::Torch };
    let mut run = Run {
        model,
        sigmas,
        seed,
        options,
        brownian_rng,
        churn,
        denoiser,
        on_step,
    };
    (sampler.run)(&mut run, &mut x)?;
    let last = if last == 0.0 { sampler.floor } else { last };
    let scale = model.prediction.finish_scale(last);
    x.iter_mut().for_each(|x| *x /= scale);
    Ok(x)
}

/// Whether a run from `sigma` starts at the model's highest level.
fn starts_full(model: &ModelSampling, sigma: f32) -> bool {
    let (max, sigma) = (f64::from(model.sigma_max()), f64::from(sigma));
    (max - sigma).abs() <= 1e-5 * max.abs().max(sigma.abs()) || sigma > max
}
