//! Steps that use an earlier one again: what a run's cache is told, and what it cannot be combined
//! with.

use super::{LatentShape, SampleRequest};
use crate::conditioning::common_multiple;
use crate::{Conditioning, DiffusionModel, EngineError};
use nino_sample::{CacheWay, StepCache};
use std::sync::Arc;

/// Prompts of a UNet share a run of ComfyUI's where repeating the shorter one at most so often
/// brings both to one length.
const MOST_REPEATS: usize = 4;

impl SampleRequest<'_> {
    /// What the cache of a run is told; prompts are those that the caller gave, not steered yet.
    pub(super) fn step_cache(&self, model: &DiffusionModel) -> Option<StepCache> {
        let reuse = model.step_reuse()?;
        let shape = LatentShape::of(self.latent);
        let level = |percent| model.sampling.percent_to_sigma(percent) as f32;
        let (start, end) = reuse.percent;
        Some(StepCache {
            way: reuse.way,
            threshold: reuse.threshold,
            sigmas: (level(start), level(end)),
            plane: (shape.height, shape.width),
            together: self.share_runs(model),
        })
    }

    /// Vectors as long as the latent that a cache holds: the differences of both prompts, or the
    /// guided one's and the last negative prediction; and the sparse ones.
    pub(super) fn step_cache_vectors(model: &DiffusionModel) -> usize {
        model.step_reuse().map_or(0, |_| 3)
    }

    /// What cannot be meant of steps that are used again.
    pub(super) fn check_step_cache(&self, model: &DiffusionModel) -> Result<(), EngineError> {
        let Some(reuse) = model.step_reuse() else {
            return Ok(());
        };
        let sides = [self.positive, self.negative(model)];
        let whole = |c: &Conditioning| c.region.is_everything();
        let is_one = |side: &[Conditioning]| side.len() <= 1 && side.iter().all(whole);
        let other = if reuse.way == CacheWay::Lazy {
            return Ok(());
        } else if model.skipped_layers().is_some() {
            "skip-layer or perturbed-attention guidance"
        } else if model.is_watched() {
            "self-attention guidance"
        } else if self.third.is_some() || model.perpendicular().is_some() {
            "guidance by three prompts"
        } else if !sides.iter().all(|side| is_one(side))
            || self.negative.iter().any(|c| c.region.has_area())
        {
            "prompts for a part of the image or of the sampling"
        } else {
            return Ok(());
        };
        Err(EngineError::StepReuse {
            name: reuse.name(),
            other: format!("{other}: LazyCache can be"),
        })
    }

    /// Whether ComfyUI runs the network once for both prompts.
    fn share_runs(&self, model: &DiffusionModel) -> bool {
        let ([positive], [negative]) = (self.positive, self.negative(model)) else {
            return false;
        };
        let is_one_length = if model.net().counts_tokens() {
            self.has_one_length(model)
        } else {
            let (n, m) = (positive.tokens_for(model), negative.tokens_for(model));
            common_multiple(n, m) <= MOST_REPEATS * n.min(m)
        };
        // A negative prompt without a ControlNet is steered as the positive one says.
        let shared = positive.hints.iter().filter(|hint| hint.both_sides);
        let is_steered_alike = if negative.hints.is_empty() {
            shared.count() == positive.hints.len()
        } else {
            let mut pairs = positive.hints.iter().zip(&negative.hints);
            positive.hints.len() == negative.hints.len() && pairs.all(|(p, n)| Arc::ptr_eq(p, n))
        };
        is_one_length && is_steered_alike
    }
}
