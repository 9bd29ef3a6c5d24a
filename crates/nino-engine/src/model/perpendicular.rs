//! Guidance by an empty prompt that a model brings along. ComfyUI's `PerpNeg`.

use crate::sample::Third;
use crate::{Conditioning, DiffusionModel};
use nino_sample::{Perpendicular, ThreeWay};
use std::sync::Arc;

/// The empty prompt, and how much the negative one counts.
pub(super) struct EmptyPrompt {
    prompts: Arc<Vec<Conditioning>>,
    scale: f32,
}

impl DiffusionModel {
    /// The same model, with which the negative prompt counts, `scale` times, only where it is
    /// perpendicular to the positive one, seen from an empty prompt.
    #[must_use]
    pub fn with_perpendicular(
        &self,
        prompts: Arc<Vec<Conditioning>>,
        scale: f32,
    ) -> DiffusionModel {
        DiffusionModel {
            empty: Some(Arc::new(EmptyPrompt { prompts, scale })),
            ..self.clone()
        }
    }

    /// The third side of prompts of every run.
    pub(crate) fn perpendicular(&self) -> Option<Third<'_>> {
        let empty = self.empty.as_ref()?;
        let way = ThreeWay::Perpendicular(Perpendicular {
            scale: empty.scale,
            is_patch: true,
        });
        let prompts = &empty.prompts;
        Some(Third { prompts, way })
    }
}
