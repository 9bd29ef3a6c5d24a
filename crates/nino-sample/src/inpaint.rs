//! Inpainting by mask: outside the mask every step sees the original latent, noised to its level,
//! and every prediction is the original.

use crate::Error;
use crate::error::Stop;
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
    input: Vec<f32>,
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
        for (i, input) in self.input.iter_mut().enumerate() {
            let original = noise_scale * self.noise[i] + latent_scale * self.latent[i];
            *input = x[i] * self.mask[i] + original * (1.0 - self.mask[i]);
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
            *d = *d * self.mask[i] + self.latent[i] * (1.0 - self.mask[i]);
        }
        Ok(())
    }
}
