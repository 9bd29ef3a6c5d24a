//! What every sampler is given: the noise levels to visit, a denoiser, a seed, options and someone
//! to tell. A sampler is a plain function over these; it knows no model and no device. Latents are
//! flat f32.

use crate::error::Stop;
use crate::linear::mix;
use crate::model::ModelSampling;
use crate::noise::{Seed, StepNoise};
use crate::rng::{Generator, Rng};

/// A model with its guidance: predicts the clean latent behind a noisy one.
pub trait Denoise {
    fn denoise(&mut self, x: &[f32], sigma: f32, out: Output<'_>) -> Result<(), Stop>;
}

/// Where a denoiser writes.
pub struct Output<'a> {
    /// The guided prediction of x0.
    pub denoised: &'a mut [f32],
    /// The negative prompt's prediction, when the sampler wants it.
    pub uncond: Option<&'a mut [f32]>,
    /// Whether `uncond` must be the negative's even at cfg 1, where guidance would skip it;
    /// otherwise the positive's prediction may stand in.
    pub force_uncond: bool,
}

impl<F> Denoise for F
where
    F: FnMut(&[f32], f32, Output<'_>) -> Result<(), Stop>,
{
    fn denoise(&mut self, x: &[f32], sigma: f32, out: Output<'_>) -> Result<(), Stop> {
        self(x, sigma, out)
    }
}

/// Progress, told once a step.
pub struct Step<'a> {
    pub index: usize,
    pub total: usize,
    pub sigma: f32,
    pub x: &'a [f32],
    /// The step's prediction of the finished latent: what a preview shows.
    pub denoised: &'a [f32],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Solver {
    Midpoint,
    Heun,
    /// First-order exponential integrator weights for the second stage.
    Phi1,
    Phi2,
}

/// Knobs of ComfyUI's sampler nodes; `None` is the sampler's own default.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Share of noise put back at each step: 1 for ancestral and SDE samplers, 0 for `dpm_fast`,
    /// `dpm_adaptive`.
    pub eta: Option<f32>,
    pub s_noise: f32,
    pub s_churn: f32,
    pub s_tmin: f32,
    pub s_tmax: f32,
    /// Order of `lms` (4), `ipndm` (4), `ipndm_v` (4), `deis` (3), `dpm_adaptive` (3), stages of
    /// `er_sde` (3).
    pub order: Option<usize>,
    pub solver: Option<Solver>,
    /// Place of the middle stage in `dpmpp_sde` and `seeds_2`.
    pub r: f32,
    /// Places of the stages of `seeds_3`.
    pub r_3: [f32; 2],
    pub ge_gamma: f32,
    /// `lcm`: factor of the last step's noise, reached linearly from `s_noise`.
    pub s_noise_end: Option<f32>,
    /// `lcm`: noise is clamped to this many deviations; 0 leaves it.
    pub noise_clip_std: f32,
    pub adaptive: Adaptive,
    pub adams: Adams,
    /// With a mask: what is grey in it is painted from the step on that its brightness says, and so
    /// much of the mask is taken in this way. ComfyUI's `DifferentialDiffusion`.
    pub gradual: Option<f32>,
}

/// Error control of `dpm_adaptive`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adaptive {
    pub rtol: f32,
    pub atol: f32,
    pub h_init: f64,
    pub pcoeff: f64,
    pub icoeff: f64,
    pub dcoeff: f64,
    pub accept_safety: f64,
}

/// Settings of `sa_solver` and `sa_solver_pece`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Adams {
    pub predictor_order: usize,
    pub corrector_order: usize,
    /// The part of the run, in percent of denoising, where noise is added.
    pub start_percent: f64,
    pub end_percent: f64,
    pub simple_order_2: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            eta: None,
            s_noise: 1.0,
            s_churn: 0.0,
            s_tmin: 0.0,
            s_tmax: f32::INFINITY,
            order: None,
            solver: None,
            r: 0.5,
            r_3: [1.0 / 3.0, 2.0 / 3.0],
            ge_gamma: 2.0,
            s_noise_end: None,
            noise_clip_std: 0.0,
            adaptive: Adaptive::default(),
            adams: Adams::default(),
            gradual: None,
        }
    }
}

impl Default for Adaptive {
    fn default() -> Self {
        Self {
            rtol: 0.05,
            atol: 0.0078,
            h_init: 0.05,
            pcoeff: 0.0,
            icoeff: 1.0,
            dcoeff: 0.0,
            accept_safety: 0.81,
        }
    }
}

impl Default for Adams {
    fn default() -> Self {
        Self {
            predictor_order: 3,
            corrector_order: 4,
            start_percent: 0.2,
            end_percent: 0.8,
            simple_order_2: false,
        }
    }
}

/// One run of a sampler.
pub struct Run<'a> {
    pub model: &'a ModelSampling,
    /// Falling noise levels; the last is usually 0.
    pub sigmas: &'a [f32],
    pub seed: Seed,
    pub options: &'a Options,
    /// The stream of Brownian paths.
    pub brownian_rng: Rng,
    /// The stream initial noise was drawn from, where it stands after that: churn continues it.
    pub churn: Generator,
    pub denoiser: &'a mut dyn Denoise,
    pub on_step: &'a mut dyn FnMut(&Step<'_>) -> Result<(), Stop>,
}

impl Run<'_> {
    pub fn steps(&self) -> usize {
        self.sigmas.len().saturating_sub(1)
    }

    pub(crate) fn denoise(&mut self, x: &[f32], sigma: f32, out: &mut [f32]) -> Result<(), Stop> {
        let out = Output {
            denoised: out,
            uncond: None,
            force_uncond: false,
        };
        self.denoiser.denoise(x, sigma, out)
    }

    pub(crate) fn denoise_both(
        &mut self,
        x: &[f32],
        sigma: f32,
        out: &mut [f32],
        uncond: &mut [f32],
    ) -> Result<(), Stop> {
        let out = Output {
            denoised: out,
            uncond: Some(uncond),
            force_uncond: true,
        };
        self.denoiser.denoise(x, sigma, out)
    }

    pub(crate) fn report(
        &mut self,
        index: usize,
        sigma: f32,
        x: &[f32],
        denoised: &[f32],
    ) -> Result<(), Stop> {
        let total = self.steps();
        (self.on_step)(&Step {
            index,
            total,
            sigma,
            x,
            denoised,
        })
    }

    /// Independent noise for each step.
    pub(crate) fn fresh_noise(&self, len: usize) -> StepNoise {
        StepNoise::stream(self.seed.step_generator(), len)
    }

    /// Noise of one Brownian path over all levels.
    pub(crate) fn brownian_noise(&self, len: usize) -> StepNoise {
        let seed = Seed {
            rng: self.brownian_rng,
            ..self.seed
        };
        StepNoise::brownian(seed, self.sigmas, len)
    }

    pub(crate) fn eta(&self) -> f32 {
        self.options.eta.unwrap_or(1.0)
    }

    /// `s_noise` times what the model's own noise is scaled by.
    pub(crate) fn s_noise(&self) -> f32 {
        self.options.s_noise * self.model.prediction.noise_scale()
    }

    /// Raises the noise level of step `i` as Karras et al. (2022), algorithm 2, lines 4 to 6;
    /// returns the level the step then starts from.
    pub(crate) fn churn(&mut self, i: usize, x: &mut [f32], scratch: &mut [f32]) -> f32 {
        let (sigma, o) = (self.sigmas[i], self.options);
        if o.s_churn <= 0.0 || sigma < o.s_tmin || sigma > o.s_tmax {
            return sigma;
        }
        let gamma = (o.s_churn / self.steps() as f32).min(std::f32::consts::SQRT_2 - 1.0);
        let raised = sigma * (gamma + 1.0);
        self.churn.randn(scratch);
        let deviation = (raised * raised - sigma * sigma).sqrt();
        mix(x, 1.0, &[(o.s_noise * deviation, scratch)]);
        raised
    }
}
