//! What is kept of a run that does not come to its end: Ctrl-C, a lost device, no more memory.

use super::request::Pass;
use super::{Checkpoint, GenerateRequest, Kept, OnLatent};
use crate::{Control, Latent};
use nino_sample::{Restart, Step, ksampler};

/// Where a run stopped.
#[derive(Clone, Debug, PartialEq)]
pub struct Stopped {
    /// 0, or 1 for the second pass over the enlarged latent.
    pub pass: usize,
    /// Steps done, of so many in its pass.
    pub done: usize,
    pub total: usize,
    pub go_on: Option<GoOn>,
}

/// How a run goes on, as `KSamplerAdvanced` would: without new noise.
#[derive(Clone, Debug, PartialEq)]
pub struct GoOn {
    /// The latent with the noise it still has, in the VAE's units.
    pub noisy: Latent,
    pub steps: usize,
    pub start_at_step: usize,
    /// It comes to the picture the whole run would have made, up to rounding.
    pub same: bool,
}

/// The last step that was told, in the model's units, `[b, c, h, w]`. Its room is made once.
pub(super) struct LastStep {
    x: Vec<f32>,
    denoised: Vec<f32>,
    /// Index, steps in all, noise level.
    at: Option<(usize, usize, f32)>,
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
        self.at = Some((step.index, step.total, step.sigma));
    }

    /// The picture so far, and how to go on; `None` before the first step.
    fn stopped(
        &self,
        model: &Checkpoint,
        request: &GenerateRequest,
        pass: &Pass,
    ) -> Option<(Latent, Stopped)> {
        let (index, total, _) = self.at?;
        let stopped = Stopped {
            pass: pass.index,
            done: index + 1,
            total,
            go_on: self.go_on(model, request, pass),
        };
        Some((model.finished(pass.shape, &self.denoised), stopped))
    }

    /// `None` where there is no other way than to begin anew: all is noise, or steps have no place in a schedule, or
    /// the latent outside a mask, or the picture to edit, is lost.
    fn go_on(&self, model: &Checkpoint, request: &GenerateRequest, pass: &Pass) -> Option<GoOn> {
        let (index, _, sigma) = self.at?;
        let restart = request.sampler.restart;
        let begins_elsewhere = request.inpaint.is_some() || model.edits();
        if index == 0 || begins_elsewhere || restart == Restart::Never {
            return None;
        }
        let levels = |steps, denoise| {
            let (sampler, scheduler) = (request.sampler, request.scheduler);
            let all = ksampler::sigmas(&model.sampling, sampler, scheduler, steps, denoise);
            all.map(|all| all.len()).ok()
        };
        // Less than all the noise is the end of a longer schedule.
        let steps = if pass.denoise > 0.9999 {
            pass.steps
        } else {
            (pass.steps as f64 / pass.denoise) as usize
        };
        let skipped = levels(steps, 1.0)?.checked_sub(levels(pass.steps, pass.denoise)?)?;
        let scale = model.sampling.prediction.finish_scale(sigma);
        if scale == 0.0 {
            return None;
        }
        let noisy: Vec<f32> = self.x.iter().map(|x| x / scale).collect();
        Some(GoOn {
            noisy: model.finished(pass.shape, &noisy),
            steps,
            start_at_step: skipped + pass.window.map_or(0, |w| w.start_at_step) + index,
            same: restart == Restart::Same,
        })
    }
}

/// Hands over what there is when a pass failed; `before` is the finished latent of the pass before it.
pub(super) fn keep(
    last: &LastStep,
    before: Option<&Latent>,
    (model, request, pass): (&Checkpoint, &GenerateRequest, &Pass),
    control: &mut Control<'_>,
    on_latent: &mut OnLatent<'_>,
) {
    let kept = match (last.stopped(model, request, pass), before) {
        (Some((latent, stopped)), _) => on_latent(Kept {
            latent: &latent,
            stopped: Some(&stopped),
        }),
        (None, Some(latent)) => on_latent(Kept {
            latent,
            stopped: None,
        }),
        (None, None) => Ok(()),
    };
    if let Err(error) = kept {
        control.note(format!("the latent could not be kept: {error}"));
    }
}
