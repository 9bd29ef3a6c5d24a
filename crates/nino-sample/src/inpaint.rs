//! Inpainting by mask: outside the mask every step sees the original latent, noised to its level,
//! and every prediction is the original.

use crate::Error;
use crate::error::Stop;
use crate::model::ModelSampling;
use crate::prediction::Prediction;
use crate::sampler::{Denoise, Output};

/// A denoiser that repaints only where `mask` is 1.
pub struct Inpaint<'a> {
    inner: &'a mut dyn Denoise,
    prediction: Prediction,
    mask: &'a [f32],
    latent: &'a [f32],
    noise: &'a [f32],
    /// What is outside the mask is seen as it is.
    pub(crate) clean: bool,
    pub(crate) gradual: Option<Gradual<'a>>,
    input: Vec<f32>,
}

/// A mask whose grey parts are painted later than its white ones.
pub(crate) struct Gradual<'a> {
    pub(crate) model: &'a ModelSampling,
    /// The levels that the run goes through.
    pub(crate) sigmas: &'a [f32],
    /// The share of the mask that is taken so; the rest blends as ever.
    pub(crate) strength: f32,
}

impl Gradual<'_> {
    /// How bright a mask has to be to be painted at this level.
    fn threshold(&self, sigma: f32) -> f32 {
        let last = self.sigmas.last().copied().unwrap_or(0.0);
        let least = self.model.sigma_min().max(last);
        let first = self.sigmas.first().copied().unwrap_or(sigma);
        let [from, to, now] = [first, least, sigma].map(|s| self.model.timestep(s));
        (now - to) / (from - to)
    }

    fn at(&self, threshold: f32, mask: f32) -> f32 {
        let painted = f32::from(u8::from(mask >= threshold));
        if self.strength > 0.0 && self.strength < 1.0 {
            return self.strength * painted + (1.0 - self.strength) * mask;
        }
        painted
    }
}

impl<'a> Inpaint<'a> {
    /// `mask` has a value for every value of the latent; between 0 and 1 it blends.
    pub fn new(
        inner: &'a mut dyn Denoise,
        prediction: Prediction,
        mask: &'a [f32],
        latent: &'a [f32],
        noise: &'a [f32],
    ) -> Result<Self, Error> {
        for (what, found) in [("the mask", mask.len()), ("the noise", noise.len())] {
            if found != latent.len() {
                return Err(Error::Length {
                    what,
                    expected: latent.len(),
                    found,
                });
            }
        }
        let input = vec![0.0; latent.len()];
        Ok(Self {
            inner,
            prediction,
            mask,
            latent,
            noise,
            clean: false,
            gradual: None,
            input,
        })
    }
}

impl Denoise for Inpaint<'_> {
    fn denoise(&mut self, x: &[f32], sigma: f32, out: Output<'_>) -> Result<(), Stop> {
        let (noise_scale, latent_scale) = if self.clean {
            (0.0, 1.0)
        } else {
            self.prediction.noise_scales(sigma, false)
        };
        let gradual = self.gradual.as_ref();
        let gradual = gradual.map(|gradual| (gradual, gradual.threshold(sigma)));
        let mask = |mask: f32| gradual.map_or(mask, |(gradual, from)| gradual.at(from, mask));
        for (i, input) in self.input.iter_mut().enumerate() {
            let original = noise_scale * self.noise[i] + latent_scale * self.latent[i];
            let paint = mask(self.mask[i]);
            *input = x[i] * paint + original * (1.0 - paint);
        }
        let Output {
            denoised,
            uncond,
            force_uncond,
        } = out;
        let inner = Output {
            denoised: &mut *denoised,
            uncond,
            force_uncond,
        };
        self.inner.denoise(&self.input, sigma, inner)?;
        for (i, d) in denoised.iter_mut().enumerate() {
            let paint = mask(self.mask[i]);
            *d = *d * paint + self.latent[i] * (1.0 - paint);
        }
        Ok(())
    }
}
