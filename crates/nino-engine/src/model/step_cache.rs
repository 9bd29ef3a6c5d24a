//! Steps that use an earlier one again. ComfyUI's `EasyCache` and `LazyCache`.

use crate::{DiffusionModel, EngineError};
use nino_sample::CacheWay;

/// When steps of a model use an earlier one again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepReuse {
    pub way: CacheWay,
    /// How far predictions may have moved, as a share of their size: higher is faster and less
    /// exact, 0 is off.
    pub threshold: f32,
    /// The part of the sampling in which steps may be reused: from the first share of it to the
    /// second.
    pub percent: (f64, f64),
    /// Whether every decision is logged as information.
    pub verbose: bool,
}

impl StepReuse {
    /// ComfyUI's defaults.
    pub fn new(way: CacheWay) -> StepReuse {
        StepReuse {
            way,
            threshold: 0.2,
            percent: (0.15, 0.95),
            verbose: false,
        }
    }

    /// ComfyUI's name of it.
    pub fn name(&self) -> &'static str {
        match self.way {
            CacheWay::Easy => "EasyCache",
            CacheWay::Lazy => "LazyCache",
        }
    }
}

impl DiffusionModel {
    /// The same model, some steps of which use an earlier one again.
    pub fn with_step_reuse(&self, reuse: StepReuse) -> Result<DiffusionModel, EngineError> {
        if let Some(own) = self.reuse {
            return Err(EngineError::StepReuse {
                name: reuse.name(),
                other: format!("{}: a model reuses steps in one way", own.name()),
            });
        }
        Ok(DiffusionModel {
            reuse: Some(reuse),
            ..self.clone()
        })
    }

    /// When its steps use an earlier one again.
    pub fn step_reuse(&self) -> Option<StepReuse> {
        self.reuse
    }
}
