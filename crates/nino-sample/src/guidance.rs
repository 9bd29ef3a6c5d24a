//! Classifier-free guidance (Ho and Salimans 2022) around a network: scales its input, runs the
//! positive and, where it counts, the negative prompt, and combines the two predictions of x0.

mod blurred;
mod corrections;
mod three;

use crate::error::Stop;
use crate::model::ModelSampling;
use crate::sampler::{Denoise, Output};
use crate::step_cache::{CacheWay, Easy, Lazy, Reuses, StepCache};
pub use blurred::SelfAttention;
pub use corrections::{Correction, Items, SkippedLayers, combine_normed};
use corrections::{deviation, shortened, zero_star};
use std::cell::Cell;
pub use three::{Perpendicular, ThreeWay};

/// A network with its prompts. Whether the two prompts share a batch is its own affair.
pub trait Network {
    /// Runs the network on `input` at `timestep`, writing its raw outputs; `negative` is asked for
    /// only when needed.
    fn forward(
        &mut self,
        input: &[f32],
        timestep: f32,
        positive: &mut [f32],
        negative: Option<&mut [f32]>,
    ) -> Result<(), Stop>;

    /// Runs the network for a prediction beside those two.
    fn beside(
        &mut self,
        what: Beside,
        input: &[f32],
        timestep: f32,
        out: &mut [f32],
    ) -> Result<(), Stop>;

    /// How much each place was looked at in the last prediction of the negative prompt, `[b, n]`.
    /// Asked for only by [`Correction::SelfAttention`].
    fn attended(&self) -> &[f32] {
        &[]
    }
}

/// A prediction beside those of the positive and the negative prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beside {
    /// The positive prompt's by a network that does without some of its layers. Asked for only by
    /// [`Correction::SkippedLayers`].
    Weaker,
    /// The negative prompt's once more, of another input. Asked for only by
    /// [`Correction::SelfAttention`].
    Again,
    /// The third prompt's. Asked for only by a [`ThreeWay`].
    Third,
}

/// A network made into a denoiser.
pub struct Guided<'a, N> {
    network: N,
    model: &'a ModelSampling,
    cfg: f32,
    blend: Blend,
    corrections: Vec<Correction>,
    three: Option<ThreeWay>,
    easy: Option<Easy<'a>>,
    lazy: Option<Lazy<'a>>,
    items: Items,
    input: Vec<f32>,
    negative: Vec<f32>,
    positive: Vec<f32>,
    beside: Vec<f32>,
}

/// How the two prompts' predictions become one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub enum Blend {
    #[default]
    Plain,
    /// CFG rescale; see [`Rescale`].
    Rescaled(f32),
    /// See [`combine_normed`].
    Normed(f32),
}

impl Blend {
    /// CFG rescale, of which 0 is none.
    pub fn rescaled(multiplier: f32) -> Blend {
        if multiplier > 0.0 {
            Blend::Rescaled(multiplier)
        } else {
            Blend::Plain
        }
    }
}

/// CFG rescale (Lin et al. 2023, section 3.4): brings the guided v-prediction's deviation back to
/// the positive's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rescale {
    /// 0 leaves guidance as it is, 1 corrects it fully; ComfyUI's default is 0.7.
    pub multiplier: f32,
    /// Values per image: the deviation is each image's own.
    pub image_len: usize,
}

impl<'a, N: Network> Guided<'a, N> {
    pub fn new(network: N, model: &'a ModelSampling, cfg: f32) -> Self {
        Self {
            network,
            model,
            cfg,
            blend: Blend::Plain,
            corrections: Vec::new(),
            three: None,
            easy: None,
            lazy: None,
            items: Items {
                len: 0,
                channels: 1,
                width: 1,
            },
            input: Vec::new(),
            negative: Vec::new(),
            positive: Vec::new(),
            beside: Vec::new(),
        }
    }

    /// With a third prompt that takes part in this way.
    #[must_use]
    pub fn with_third(mut self, three: Option<ThreeWay>) -> Self {
        self.three = three;
        self
    }

    /// With steps that are used again, which are counted.
    #[must_use]
    pub fn with_step_cache(mut self, told: Option<StepCache>, reuses: &'a Cell<Reuses>) -> Self {
        let of = |way| told.filter(|told| told.way == way);
        self.easy = of(CacheWay::Easy).map(|told| Easy::new(told, reuses));
        self.lazy = of(CacheWay::Lazy).map(|told| Lazy::new(told, reuses));
        self
    }

    /// Latents of these sizes, blended and then corrected in these ways.
    #[must_use]
    pub fn corrected(mut self, items: Items, blend: Blend, corrections: &[Correction]) -> Self {
        (self.items, self.blend) = (items, blend);
        self.corrections = corrections.to_vec();
        self
    }
}

impl<N: Network> Denoise for Guided<'_, N> {
    fn denoise(&mut self, x: &[f32], sigma: f32, out: Output<'_>) -> Result<(), Stop> {
        let Some(mut lazy) = self.lazy.take() else {
            return self.guide(x, sigma, out);
        };
        let done = lazy.denoise(x, sigma, out, |out| self.guide(x, sigma, out));
        self.lazy = Some(lazy);
        done
    }
}

impl<N: Network> Guided<'_, N> {
    /// The guided prediction of x0.
    fn guide(&mut self, x: &[f32], sigma: f32, out: Output<'_>) -> Result<(), Stop> {
        if let Some(way) = self.three {
            return self.denoise_by_three(way, x, sigma, out);
        }
        let Output {
            denoised,
            uncond,
            force_uncond,
        } = out;
        let is_watched = |c: &Correction| matches!(c, Correction::SelfAttention(_));
        let force_uncond = force_uncond || self.corrections.iter().any(is_watched);
        let needed = needs_negative(self.cfg) || force_uncond;
        let mut own = std::mem::take(&mut self.negative);
        let mut positive = std::mem::take(&mut self.positive);
        if needed && uncond.is_none() {
            own.resize(x.len(), 0.0);
        }
        let negative = uncond.unwrap_or(&mut own);
        let given = needed.then_some(&mut *negative);
        self.guided(x, sigma, denoised, given, &mut positive)?;
        if !needed && !negative.is_empty() {
            negative.copy_from_slice(denoised);
        }
        self.correct(x, sigma, self.cfg, denoised, &positive, negative)?;
        (self.negative, self.positive) = (own, positive);
        Ok(())
    }

    /// Both prompts' predictions combined; where there are corrections, the positive one alone goes
    /// to `positive`, too.
    fn guided(
        &mut self,
        x: &[f32],
        sigma: f32,
        denoised: &mut [f32],
        mut negative: Option<&mut [f32]>,
        positive: &mut Vec<f32>,
    ) -> Result<(), Stop> {
        self.predict(x, sigma, denoised, negative.as_deref_mut())?;
        if !self.corrections.is_empty() {
            positive.clear();
            positive.extend_from_slice(denoised);
        }
        if let Some(negative) = negative {
            self.blended(x, sigma, self.cfg, denoised, negative);
        }
        Ok(())
    }

    /// The prompts' predictions of x0.
    fn predict(
        &mut self,
        x: &[f32],
        sigma: f32,
        denoised: &mut [f32],
        mut negative: Option<&mut [f32]>,
    ) -> Result<(), Stop> {
        let (model, timestep) = (self.model, self.model.timestep(sigma));
        let to_x0 = |v: &mut [f32]| {
            model
                .prediction
                .denoised(sigma, model.sigma_data, timestep, x, v);
        };
        self.input.resize(x.len(), 0.0);
        model
            .prediction
            .input(sigma, model.sigma_data, x, &mut self.input);
        let (network, input) = (&mut self.network, &self.input);
        let given = negative.as_deref_mut();
        match &mut self.easy {
            Some(easy) => easy.forward(network, (sigma, timestep), input, denoised, given)?,
            None => network.forward(input, timestep, denoised, given)?,
        }
        to_x0(denoised);
        if let Some(negative) = negative {
            to_x0(negative);
        }
        Ok(())
    }

    /// Brings the negative prediction into the positive one.
    fn blended(&self, x: &[f32], sigma: f32, cfg: f32, denoised: &mut [f32], negative: &[f32]) {
        match self.blend {
            Blend::Plain => combine(cfg, denoised, negative),
            Blend::Rescaled(multiplier) => {
                let rescale = Rescale {
                    multiplier,
                    image_len: self.items.len,
                };
                combine_rescaled(x, sigma, cfg, rescale, denoised, negative);
            }
            Blend::Normed(strength) => {
                combine_normed(x, cfg, strength, self.items, denoised, negative);
            }
        }
    }

    /// Corrects what guidance by `cfg` made of these two predictions.
    fn correct(
        &mut self,
        x: &[f32],
        sigma: f32,
        cfg: f32,
        denoised: &mut [f32],
        positive: &[f32],
        negative: &[f32],
    ) -> Result<(), Stop> {
        for i in 0..self.corrections.len() {
            match self.corrections[i] {
                Correction::ZeroStar if needs_negative(cfg) => {
                    zero_star(x, cfg, self.items, denoised, positive, negative);
                }
                // There is no negative's part.
                Correction::ZeroStar => {}
                Correction::Norm(strength) => {
                    shortened(strength, self.items, denoised, positive);
                }
                Correction::SkippedLayers(skipped) if skipped.counts_at(sigma) => {
                    self.predict_beside(Beside::Weaker, x, sigma)?;
                    skipped.apply(denoised, positive, &self.beside);
                }
                Correction::SkippedLayers(_) => {}
                Correction::SelfAttention(guidance) => {
                    let attended = self.network.attended();
                    let degraded = guidance.degraded(negative, attended, self.items);
                    let noised = degraded.iter().zip(x).zip(negative);
                    let noised: Vec<f32> = noised.map(|((d, x), n)| d + x - n).collect();
                    self.predict_beside(Beside::Again, &noised, sigma)?;
                    guidance.apply(denoised, &degraded, &self.beside, self.items);
                }
            }
        }
        Ok(())
    }

    /// Another prediction.
    fn predict_beside(&mut self, what: Beside, x: &[f32], sigma: f32) -> Result<(), Stop> {
        let timestep = self.model.timestep(sigma);
        let (prediction, data) = (&self.model.prediction, self.model.sigma_data);
        prediction.input(sigma, data, x, &mut self.input);
        self.beside.resize(x.len(), 0.0);
        self.network
            .beside(what, &self.input, timestep, &mut self.beside)?;
        prediction.denoised(sigma, data, timestep, x, &mut self.beside);
        Ok(())
    }
}

/// Whether guidance by `cfg` looks at the negative prompt at all.
pub fn needs_negative(cfg: f32) -> bool {
    let cfg = f64::from(cfg);
    (cfg - 1.0).abs() > 1e-9 * cfg.abs().max(1.0)
}

/// positive = negative + (positive - negative) * cfg.
pub fn combine(cfg: f32, positive: &mut [f32], negative: &[f32]) {
    positive
        .iter_mut()
        .zip(negative)
        .for_each(|(p, n)| *p = n + (*p - n) * cfg);
}

/// The same on the v-prediction, rescaled. `positive` and `negative` are predictions of x0 from
/// `x`.
pub fn combine_rescaled(
    x: &[f32],
    sigma: f32,
    cfg: f32,
    rescale: Rescale,
    positive: &mut [f32],
    negative: &[f32],
) {
    let square = sigma * sigma + 1.0;
    let root = square.sqrt();
    let m = rescale.multiplier;
    let images = rescale.image_len.max(1);
    let chunks = positive
        .chunks_mut(images)
        .zip(negative.chunks(images))
        .zip(x.chunks(images));
    for ((positive, negative), x) in chunks {
        let v = |x0: f32, x: f32| (x / square - x0) * root / sigma;
        let guided = |i: usize, p: f32| {
            let (p, n) = (v(p, x[i]), v(negative[i], x[i]));
            n + cfg * (p - n)
        };
        let wanted = deviation(positive.iter().zip(x).map(|(&p, &x)| v(p, x)));
        let found = deviation(positive.iter().enumerate().map(|(i, &p)| guided(i, p)));
        let factor = m * (wanted / found) + (1.0 - m);
        for i in 0..positive.len() {
            let v = guided(i, positive[i]) * factor;
            positive[i] = x[i] / square - v * sigma / root;
        }
    }
}
