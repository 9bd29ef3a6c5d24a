//! Guidance by three prompts. Behavior: ComfyUI's `DualCFGGuider`, `PerpNegGuider` and `PerpNeg`.

use super::{Beside, Guided, Network, needs_negative};
use crate::error::Stop;
use crate::sampler::Output;

/// How the prediction of a third prompt and those of the positive and the negative one become one.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ThreeWay {
    /// The third prompt is guided away from the negative one by this factor; then the way from the
    /// third prompt to the positive one is added, times the request's factor.
    Chained(f32),
    /// The positive prompt is guided away from the third one by the request's factor, and the
    /// result away from the negative one by this factor.
    Nested(f32),
    /// The third prompt is an empty one. What leads from it to the negative prompt counts only
    /// where it is perpendicular to what leads to the positive one (Armandpour et al. 2023).
    Perpendicular(Perpendicular),
}

/// See [`ThreeWay::Perpendicular`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Perpendicular {
    /// How much the negative prompt counts.
    pub scale: f32,
    /// Whether a negative prediction of 0 stands for that prompt where the request's factor is 1,
    /// as in ComfyUI's `PerpNeg`.
    pub is_patch: bool,
}

impl ThreeWay {
    /// Whether the negative prompt is looked at, where guidance is by `cfg`. The positive and the
    /// third one always are.
    pub fn needs_negative(self, cfg: f32) -> bool {
        match self {
            ThreeWay::Chained(second) => needs_negative(second),
            ThreeWay::Nested(_) => true,
            ThreeWay::Perpendicular(Perpendicular { is_patch: true, .. }) => needs_negative(cfg),
            ThreeWay::Perpendicular(Perpendicular { scale, .. }) => scale != 0.0,
        }
    }
}

impl<N: Network> Guided<'_, N> {
    pub(super) fn denoise_by_three(
        &mut self,
        way: ThreeWay,
        x: &[f32],
        sigma: f32,
        out: Output<'_>,
    ) -> Result<(), Stop> {
        let Output {
            denoised,
            uncond,
            force_uncond,
        } = out;
        let needed = way.needs_negative(self.cfg) || force_uncond;
        let mut negative = std::mem::take(&mut self.negative);
        negative.clear();
        negative.resize(x.len(), 0.0);
        self.predict(x, sigma, denoised, needed.then_some(&mut negative))?;
        self.predict_beside(Beside::Third, x, sigma)?;
        let mut third = self.beside.clone();
        match way {
            ThreeWay::Chained(second) => {
                denoised.swap_with_slice(&mut third);
                let (positive, middle) = (third, denoised.to_vec());
                if needed {
                    self.blended(x, sigma, second, denoised, &negative);
                }
                self.correct(x, sigma, second, denoised, &middle, &negative)?;
                let ways = positive.iter().zip(&middle);
                for (out, (positive, middle)) in denoised.iter_mut().zip(ways) {
                    *out += (positive - middle) * self.cfg;
                }
                if !needed {
                    negative.copy_from_slice(denoised);
                }
            }
            ThreeWay::Nested(outer) => {
                let positive = denoised.to_vec();
                self.blended(x, sigma, self.cfg, denoised, &third);
                self.correct(x, sigma, self.cfg, denoised, &positive, &third)?;
                super::combine(outer, denoised, &negative);
                negative = third;
            }
            ThreeWay::Perpendicular(Perpendicular { scale, .. }) => {
                let positive = denoised.to_vec();
                perpendicular(self.cfg, scale, denoised, &negative, &third);
                self.correct(x, sigma, self.cfg, denoised, &positive, &negative)?;
            }
        }
        if let Some(uncond) = uncond {
            uncond.copy_from_slice(&negative);
        }
        self.negative = negative;
        Ok(())
    }
}

/// positive = empty + cfg * (p - scale * n), where `p` and `n` lead from the empty prediction to
/// the others, `n` without its part along `p`. One factor is for a whole batch, as in ComfyUI.
fn perpendicular(cfg: f32, scale: f32, positive: &mut [f32], negative: &[f32], empty: &[f32]) {
    let (mut dot, mut square) = (0.0, 0.0);
    for ((p, n), e) in positive.iter().zip(negative).zip(empty) {
        let (p, n) = (f64::from(p - e), f64::from(n - e));
        dot += p * n;
        square += p * p;
    }
    // Equal prompts leave no direction to be perpendicular to.
    let along = if square > 0.0 {
        (dot / square) as f32
    } else {
        0.0
    };
    for ((out, n), e) in positive.iter_mut().zip(negative).zip(empty) {
        let (p, n) = (*out - e, n - e);
        *out = e + cfg * (p - scale * (n - along * p));
    }
}
