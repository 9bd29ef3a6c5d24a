//! What is done to a guided prediction of x0, and how the two prompts' predictions become one.

use super::SelfAttention;
use std::iter::StepBy;
use std::ops::Range;

/// The latents that are corrected: `[b, c, ...]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Items {
    /// Values per picture or clip.
    pub len: usize,
    pub channels: usize,
    /// Columns: the last axis.
    pub width: usize,
}

impl Items {
    /// Rows of a picture.
    pub(super) fn height(self) -> usize {
        self.len / (self.channels * self.width).max(1)
    }
}

/// A correction of the guided prediction. Several follow one another, each on what the one before
/// made of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Correction {
    /// CFG-Zero* (Fan et al. 2025): the negative's part is scaled to what of it the positive has.
    ZeroStar,
    /// No place of it is longer, over the channels, than the positive's is there; then all is
    /// multiplied by this. Behaviour: ComfyUI's `CFGNorm`.
    Norm(f32),
    SkippedLayers(SkippedLayers),
    SelfAttention(SelfAttention),
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

    /// Moves the prediction away from `weaker`.
    pub(super) fn apply(&self, denoised: &mut [f32], positive: &[f32], weaker: &[f32]) {
        for ((out, p), w) in denoised.iter_mut().zip(positive).zip(weaker) {
            *out += (p - w) * self.scale;
        }
        if self.rescale != 0.0 {
            let wanted = deviation(positive.iter().copied());
            let factor = wanted / deviation(denoised.iter().copied());
            let factor = self.rescale * factor + (1.0 - self.rescale);
            denoised.iter_mut().for_each(|v| *v *= factor);
        }
    }
}

/// CFG-Zero* of a prediction that was guided by `cfg`.
pub(super) fn zero_star(
    x: &[f32],
    cfg: f32,
    items: Items,
    denoised: &mut [f32],
    positive: &[f32],
    negative: &[f32],
) {
    let len = items.len.max(1);
    let inputs = x
        .chunks(len)
        .zip(positive.chunks(len))
        .zip(negative.chunks(len));
    for (out, ((x, p), n)) in denoised.chunks_mut(len).zip(inputs) {
        let more = (1.0 - share_of_way(x, p, n)) * (cfg - 1.0);
        out.iter_mut().zip(n).for_each(|(out, n)| *out += n * more);
    }
}

/// How much of the negative's way from x0 to `x` the positive's has.
fn share_of_way(x: &[f32], positive: &[f32], negative: &[f32]) -> f32 {
    let ways = x.iter().zip(positive).zip(negative);
    let (mut dot, mut square) = (0.0, 0.0);
    for ((x, p), n) in ways {
        let (p, n) = (f64::from(x - p), f64::from(x - n));
        dot += p * n;
        square += n * n;
    }
    (dot / (square + 1e-8)) as f32
}

/// [`Correction::Norm`].
pub(super) fn shortened(strength: f32, items: Items, denoised: &mut [f32], positive: &[f32]) {
    each_place(items, denoised, positive, |place, out, positive| {
        let wanted = length(place.clone().map(|i| positive[i]));
        let found = length(place.clone().map(|i| out[i]));
        let factor = (wanted / (found + 1e-8)).clamp(0.0, 1.0) * strength;
        place.for_each(|i| out[i] *= factor);
    });
}

/// positive = negative + (positive - negative) * cfg on the ways from x0 to `x`, every place of
/// which then gets the length over the channels that the positive's has, as far as `strength`, from
/// 0 to 1, says. Behaviour: ComfyUI's `CFGNorm` before the guidance.
pub fn combine_normed(
    x: &[f32],
    cfg: f32,
    strength: f32,
    items: Items,
    positive: &mut [f32],
    negative: &[f32],
) {
    let way = |x0: &[f32], i: usize| x[i] - x0[i];
    each_place(items, positive, negative, |place, positive, negative| {
        let guided = |positive: &[f32], i: usize| {
            let n = way(negative, i);
            n + cfg * (way(positive, i) - n)
        };
        let wanted = length(place.clone().map(|i| way(positive, i)));
        let found = length(place.clone().map(|i| guided(positive, i)));
        let full = if found > 0.0 {
            wanted / found.max(1e-12)
        } else {
            1.0
        };
        let factor = strength * full + (1.0 - strength);
        for i in place {
            positive[i] = x[i] - guided(positive, i) * factor;
        }
    });
}

/// Calls `f` for every place of every item, with the indices of its channels.
fn each_place(
    items: Items,
    changed: &mut [f32],
    other: &[f32],
    f: impl Fn(StepBy<Range<usize>>, &mut [f32], &[f32]),
) {
    let len = items.len.max(1);
    let places = (len / items.channels.max(1)).max(1);
    for item in 0..changed.len() / len {
        for place in 0..places {
            let all = (item * len + place..(item + 1) * len).step_by(places);
            f(all, changed, other);
        }
    }
}

fn length(values: impl Iterator<Item = f32>) -> f32 {
    values.map(|v| f64::from(v).powi(2)).sum::<f64>().sqrt() as f32
}

pub(super) fn deviation(values: impl Iterator<Item = f32> + Clone) -> f32 {
    let n = values.clone().count() as f64;
    let mean = values.clone().map(f64::from).sum::<f64>() / n;
    let sum: f64 = values.map(|v| (f64::from(v) - mean).powi(2)).sum();
    (sum / (n - 1.0)).sqrt() as f32
}
