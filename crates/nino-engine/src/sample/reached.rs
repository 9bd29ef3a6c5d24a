//! What a sampling run had come to when it stopped: Ctrl-C, a lost device, no more memory.

use super::LatentShape;
use crate::{DiffusionModel, EngineError, Latent};
use nino_sample::Step;

/// A run that did not come to its end.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct Unfinished {
    pub error: EngineError,
    /// `None` before the first step.
    pub reached: Option<Box<Reached>>,
}

impl From<EngineError> for Unfinished {
    fn from(error: EngineError) -> Unfinished {
        Unfinished {
            error,
            reached: None,
        }
    }
}

impl From<Unfinished> for EngineError {
    fn from(unfinished: Unfinished) -> EngineError {
        unfinished.error
    }
}

/// The last step that was done.
#[derive(Clone, Debug, PartialEq)]
pub struct Reached {
    /// Steps done, of so many.
    pub done: usize,
    pub total: usize,
    /// The prediction of the finished latent, in the VAE's units.
    pub denoised: Latent,
    /// The latent as the step began, with the noise it still had, in the VAE's units: a run without
    /// new noise goes on from it. `None` where it is all noise.
    pub noisy: Option<Latent>,
}

/// The last step that was told, in the model's units, `[b, c, t, h, w]`. Its room is made once.
pub(super) struct LastStep {
    x: Vec<f32>,
    denoised: Vec<f32>,
    at: Option<At>,
}

#[derive(Clone, Copy)]
struct At {
    index: usize,
    total: usize,
    sigma: f32,
}

impl LastStep {
    pub(super) fn new(len: usize) -> LastStep {
        LastStep {
            x: vec![0.0; len],
            denoised: vec![0.0; len],
            at: None,
        }
    }

    pub(super) fn hear(&mut self, step: &Step<'_>) {
        self.x.copy_from_slice(step.x);
        self.denoised.copy_from_slice(step.denoised);
        self.at = Some(At {
            index: step.index,
            total: step.total,
            sigma: step.sigma,
        });
    }

    /// The last prediction; `None` before the first step.
    pub(super) fn denoised(&self) -> Option<&[f32]> {
        self.at.map(|_| &self.denoised[..])
    }

    pub(super) fn reached(&self, model: &DiffusionModel, shape: LatentShape) -> Option<Reached> {
        let at = self.at?;
        let scale = model.sampling.prediction.finish_scale(at.sigma);
        let noisy = (scale != 0.0 && at.index > 0).then(|| {
            let noisy: Vec<f32> = self.x.iter().map(|x| x / scale).collect();
            model.finished(shape, &noisy)
        });
        Some(Reached {
            done: at.index + 1,
            total: at.total,
            denoised: model.finished(shape, &self.denoised),
            noisy,
        })
    }
}
