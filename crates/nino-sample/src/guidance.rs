//! Classifier-free guidance (Ho and Salimans 2022) around a network: scales its input, runs the
//! positive and, where it counts, the negative prompt, and combines the two predictions of x0.

use crate::error::Stop;
use crate::model::ModelSampling;
use crate::sampler::{Denoise, Output};

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

    /// Runs a network that does without some of its layers, for the positive prompt. Asked for
    /// only by [`Guided::with_skipped_layers`].
    fn weaker(&mut self, input: &[f32], timestep: f32, out: &mut [f32]) -> Result<(), Stop>;
}

/// A network made into a denoiser.
pub struct Guided<'a, N> {
    network: N,
    model: &'a ModelSampling,
    cfg: f32,
    rescale: Option<Rescale>,
    /// Values per picture or clip, where CFG-Zero* is on.
    zero_star: Option<usize>,
    skipped: Option<SkippedLayers>,
    input: Vec<f32>,
    negative: Vec<f32>,
    positive: Vec<f32>,
    weaker: Vec<f32>,
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

/// Skip-layer guidance: away from what the network makes without some of its layers. Behaviour:
/// ComfyUI's `SkipLayerGuidanceDiT`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SkippedLayers {
    /// How far away; 0 is off.
    pub scale: f32,
    /// Noise levels between which it counts: from the first down to the second.
    pub sigmas: (f64, f64),
    /// Share of the correction that brings the result's deviation back to the positive's.
    pub rescale: f32,
}

impl SkippedLayers {
    /// Whether it counts at a noise level.
    pub fn counts_at(&self, sigma: f32) -> bool {
        let (start, end) = self.sigmas;
        self.scale > 0.0 && (end..=start).contains(&f64::from(sigma))
    }
}

impl<'a, N: Network> Guided<'a, N> {
    pub fn new(network: N, model: &'a ModelSampling, cfg: f32) -> Self {
        Self {
            network,
            model,
            cfg,
            rescale: None,
            zero_star: None,
            skipped: None,
            input: Vec::new(),
            negative: Vec::new(),
            positive: Vec::new(),
            weaker: Vec::new(),
        }
    }

    #[must_use]
    pub fn with_rescale(mut self, rescale: Rescale) -> Self {
        self.rescale = Some(rescale);
        self
    }

    /// With CFG-Zero* (Fan et al. 2025): the negative's part is scaled to what of it the positive
    /// has. `image_len` are the values per picture or clip.
    #[must_use]
    pub fn with_zero_star(mut self, image_len: usize) -> Self {
        self.zero_star = Some(image_len);
        self
    }

    #[must_use]
    pub fn with_skipped_layers(mut self, skipped: SkippedLayers) -> Self {
        self.skipped = Some(skipped);
        self
    }
}

impl<N: Network> Denoise for Guided<'_, N> {
    fn denoise(&mut self, x: &[f32], sigma: f32, out: Output<'_>) -> Result<(), Stop> {
        let Some(skipped) = self.skipped.filter(|s| s.counts_at(sigma)) else {
            return self.guided(x, sigma, out, None);
        };
        let mut positive = std::mem::take(&mut self.positive);
        positive.resize(x.len(), 0.0);
        let Output {
            denoised,
            uncond,
            force_uncond,
        } = out;
        let guided = Output {
            denoised: &mut *denoised,
            uncond,
            force_uncond,
        };
        self.guided(x, sigma, guided, Some(&mut positive))?;
        let timestep = self.model.timestep(sigma);
        self.weaker.resize(x.len(), 0.0);
        self.network
            .weaker(&self.input, timestep, &mut self.weaker)?;
        let (prediction, data) = (&self.model.prediction, self.model.sigma_data);
        prediction.denoised(sigma, data, timestep, x, &mut self.weaker);
        for ((out, p), w) in denoised.iter_mut().zip(&positive).zip(&self.weaker) {
            *out += (p - w) * skipped.scale;
        }
        if skipped.rescale != 0.0 {
            let wanted = deviation(positive.iter().copied());
            let factor = wanted / deviation(denoised.iter().copied());
            let factor = skipped.rescale * factor + (1.0 - skipped.rescale);
            denoised.iter_mut().for_each(|v| *v *= factor);
        }
        self.positive = positive;
        Ok(())
    }
}

impl<N: Network> Guided<'_, N> {
    /// Both prompts' predictions combined; the positive one alone goes to `positive`, too.
    fn guided(
        &mut self,
        x: &[f32],
        sigma: f32,
        out: Output<'_>,
        positive: Option<&mut [f32]>,
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
        if !needs_negative(self.cfg) && !out.force_uncond {
            self.network
                .forward(&self.input, timestep, out.denoised, None)?;
            to_x0(out.denoised);
            if let Some(positive) = positive {
                positive.copy_from_slice(out.denoised);
            }
            if let Some(uncond) = out.uncond {
                uncond.copy_from_slice(out.denoised);
            }
            return Ok(());
        }
        self.negative.resize(x.len(), 0.0);
        let negative = out.uncond.unwrap_or(&mut self.negative);
        self.network
            .forward(&self.input, timestep, out.denoised, Some(negative))?;
        to_x0(out.denoised);
        to_x0(negative);
        if let Some(positive) = positive {
            positive.copy_from_slice(out.denoised);
        }
        let scales = self
            .zero_star
            .map(|len| zero_star_scales(x, out.denoised, negative, len.max(1)));
        match self.rescale {
            Some(rescale) => combine_rescaled(x, sigma, self.cfg, rescale, out.denoised, negative),
            None => combine(self.cfg, out.denoised, negative),
        }
        if let (Some(scales), Some(len)) = (scales, self.zero_star) {
            let images = out.denoised.chunks_mut(len.max(1));
            for ((guided, negative), scale) in images.zip(negative.chunks(len.max(1))).zip(scales) {
                let more = (1.0 - scale) * (self.cfg - 1.0);
                let pairs = guided.iter_mut().zip(negative);
                pairs.for_each(|(g, n)| *g += n * more);
            }
        }
        Ok(())
    }
}

/// How much of the negative's way from x0 to `x` the positive's has, for each picture or clip.
fn zero_star_scales(x: &[f32], positive: &[f32], negative: &[f32], len: usize) -> Vec<f32> {
    let images = x
        .chunks(len)
        .zip(positive.chunks(len))
        .zip(negative.chunks(len));
    let scale = |((x, p), n): ((&[f32], &[f32]), &[f32])| {
        let ways = x.iter().zip(p).zip(n).map(|((x, p), n)| (x - p, x - n));
        let (mut dot, mut square) = (0.0, 0.0);
        for (p, n) in ways {
            dot += f64::from(p) * f64::from(n);
            square += f64::from(n) * f64::from(n);
        }
        (dot / (square + 1e-8)) as f32
    };
    images.map(scale).collect()
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

fn deviation(values: impl Iterator<Item = f32> + Clone) -> f32 {
    let n = values.clone().count() as f64;
    let mean = values.clone().map(f64::from).sum::<f64>() / n;
    let sum: f64 = values.map(|v| (f64::from(v) - mean).powi(2)).sum();
    (sum / (n - 1.0)).sqrt() as f32
}
