//! A third side of prompts beside the positive and the negative one.

use super::SampleRequest;
use crate::{Conditioning, DiffusionModel, EngineError};
use nino_sample::{Blend, Perpendicular, ThreeWay};

/// A third side of prompts.
#[derive(Clone, Copy)]
pub struct Third<'a> {
    /// One prompt, or several that share the picture by their regions.
    pub prompts: &'a [Conditioning],
    /// How it takes part in the guidance.
    pub way: ThreeWay,
}

impl Third<'_> {
    /// Whether it is the model's own; see [`DiffusionModel::with_perpendicular`].
    pub(super) fn is_patch(&self) -> bool {
        matches!(
            self.way,
            ThreeWay::Perpendicular(Perpendicular { is_patch: true, .. })
        )
    }
}

impl<'a> SampleRequest<'a> {
    /// The request with the third side that the model has, if it has one.
    pub(super) fn with_third_of<'b>(&self, model: &'b DiffusionModel) -> SampleRequest<'b>
    where
        'a: 'b,
    {
        SampleRequest {
            third: self.third.or(model.perpendicular()),
            ..*self
        }
    }

    /// The prompts of the third side.
    pub(super) fn third_prompts(&self) -> &'a [Conditioning] {
        self.third.map_or(&[], |third| third.prompts)
    }

    /// What cannot be meant of three sides.
    pub(super) fn check_third(&self, model: &DiffusionModel) -> Result<(), EngineError> {
        let own = model.perpendicular();
        let Some(third) = self.third.or(own) else {
            return Ok(());
        };
        if third.prompts.is_empty() {
            return Err(EngineError::NoPrompt);
        }
        let is_bare = |p: &Conditioning| p.region.is_everything() && p.hints.is_empty();
        let is_dual = !matches!(third.way, ThreeWay::Perpendicular(_));
        let other = if self.third.is_some() && own.is_some() {
            "PerpNeg, which has a third prompt of its own"
        } else if model.takes_guidance() {
            "a model that takes the guidance scale as an input"
        } else if model.skipped_layers().is_some() {
            "skip-layer or perturbed-attention guidance"
        } else if matches!(model.blend, Blend::Normed(_)) {
            "CFGNorm before the guidance"
        } else if !is_dual && model.blend != Blend::Plain {
            "RescaleCFG, unless it is Dual CFG"
        } else if third.is_patch() && !third.prompts.iter().all(is_bare) {
            "an empty prompt of PerpNeg that has a region or a ControlNet"
        } else {
            return Ok(());
        };
        Err(EngineError::ThirdPrompt { other })
    }
}
