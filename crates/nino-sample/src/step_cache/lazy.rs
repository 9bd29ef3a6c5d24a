//! LazyCache: the difference of the guided prediction and the latent is kept.

use super::{Drift, Reuses, StepCache, difference, mean_size, moved_by};
use crate::error::Stop;
use crate::sampler::Output;
use std::cell::Cell;

/// A cache around all guidance.
pub(crate) struct Lazy<'a> {
    told: StepCache,
    drift: Drift,
    difference: Vec<f32>,
    /// The negative prompt's last prediction: samplers that look at it get it again as it is.
    uncond: Vec<f32>,
    reuses: &'a Cell<Reuses>,
}

impl<'a> Lazy<'a> {
    pub(crate) fn new(told: StepCache, reuses: &'a Cell<Reuses>) -> Lazy<'a> {
        Lazy {
            drift: Drift::new(&told),
            told,
            difference: Vec::new(),
            uncond: Vec::new(),
            reuses,
        }
    }

    /// The prediction that `guide` makes, or what an earlier one says it would be.
    pub(crate) fn denoise(
        &mut self,
        x: &[f32],
        sigma: f32,
        out: Output<'_>,
        guide: impl FnOnce(Output<'_>) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        let (start, end) = self.told.sigmas;
        if sigma <= end {
            Reuses::count(self.reuses, false);
            return guide(out);
        }
        let Output {
            denoised,
            mut uncond,
            force_uncond,
        } = out;
        let mut moved = None;
        if sigma <= start {
            moved = self.drift.moved(x);
            let is_kept = uncond.is_none() || self.uncond.len() == x.len();
            if self.drift.is_small(moved) && is_kept {
                Reuses::count(self.reuses, true);
                moved_by(x, &self.difference, denoised);
                if let Some(uncond) = uncond {
                    uncond.copy_from_slice(&self.uncond);
                }
                return Ok(());
            }
        }
        Reuses::count(self.reuses, false);
        guide(Output {
            denoised: &mut *denoised,
            uncond: uncond.as_deref_mut(),
            force_uncond,
        })?;
        difference(denoised, x, &mut self.difference);
        if let Some(uncond) = uncond {
            self.uncond.clear();
            self.uncond.extend_from_slice(uncond);
        }
        let size = mean_size(denoised.iter());
        self.drift.take(moved, x, denoised, size);
        Ok(())
    }
}
