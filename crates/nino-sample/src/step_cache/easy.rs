//! EasyCache: of each prompt, the difference of the network's output and its input is kept.

use super::{Drift, Reuses, StepCache, difference, mean_size, moved_by};
use crate::error::Stop;
use crate::guidance::Network;
use std::cell::Cell;

/// A cache between guidance and its network.
pub(crate) struct Easy<'a> {
    told: StepCache,
    drift: Drift,
    /// Whether a noise level was reached from which on steps may be reused.
    is_begun: bool,
    positive: Vec<f32>,
    negative: Vec<f32>,
    reuses: &'a Cell<Reuses>,
}

impl<'a> Easy<'a> {
    pub(crate) fn new(told: StepCache, reuses: &'a Cell<Reuses>) -> Easy<'a> {
        Easy {
            drift: Drift::new(&told),
            told,
            is_begun: false,
            positive: Vec::new(),
            negative: Vec::new(),
            reuses,
        }
    }

    /// The network's outputs, or what earlier ones say they would be.
    pub(crate) fn forward(
        &mut self,
        network: &mut impl Network,
        (sigma, timestep): (f32, f32),
        input: &[f32],
        positive: &mut [f32],
        mut negative: Option<&mut [f32]>,
    ) -> Result<(), Stop> {
        let (start, end) = self.told.sigmas;
        if sigma <= end {
            Reuses::count(self.reuses, false);
            return network.forward(input, timestep, positive, negative);
        }
        let mut moved = None;
        if sigma <= start {
            self.is_begun = true;
            moved = self.drift.moved(input);
            if self.drift.is_small(moved) {
                Reuses::count(self.reuses, true);
                moved_by(input, &self.positive, positive);
                if let Some(negative) = negative {
                    moved_by(input, &self.negative, negative);
                }
                return Ok(());
            }
        }
        Reuses::count(self.reuses, false);
        network.forward(input, timestep, positive, negative.as_deref_mut())?;
        difference(positive, input, &mut self.positive);
        if let Some(negative) = &negative {
            difference(negative, input, &mut self.negative);
        }
        if self.is_begun {
            // ComfyUI puts the negative prompt first where both are one run.
            if let Some(negative) = negative.filter(|_| self.told.together) {
                let size = mean_size(negative.iter().chain(&*positive));
                self.drift.take(moved, input, negative, size);
            } else {
                let size = mean_size(positive.iter());
                self.drift.take(moved, input, positive, size);
            }
        }
        Ok(())
    }
}
