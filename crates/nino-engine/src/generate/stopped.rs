//! What is kept of a run that does not come to its end: Ctrl-C, a lost device, no more memory.

use super::request::Pass;
use super::{GenerateRequest, Kept, OnLatent};
use crate::sample::Reached;
use crate::{Control, DiffusionModel, Latent};
use nino_sample::{Restart, ksampler};

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

/// What a pass that failed had come to, and how to go on; `None` before its first step.
pub(super) fn of(
    reached: Option<Reached>,
    model: &DiffusionModel,
    request: &GenerateRequest,
    pass: &Pass,
) -> Option<(Latent, Stopped)> {
    let Reached {
        done,
        total,
        denoised,
        noisy,
    } = reached?;
    let stopped = Stopped {
        pass: pass.index,
        done,
        total,
        go_on: noisy.and_then(|noisy| go_on(noisy, done - 1, model, request, pass)),
    };
    Some((denoised, stopped))
}

/// `None` where there is no other way than to begin anew: steps have no place in a schedule, or the
/// latent outside a mask, or the picture to edit, is lost.
fn go_on(
    noisy: Latent,
    index: usize,
    model: &DiffusionModel,
    request: &GenerateRequest,
    pass: &Pass,
) -> Option<GoOn> {
    let restart = request.sampler.restart;
    let begins_elsewhere = request.inpaint.is_some() || model.edits();
    if begins_elsewhere || restart == Restart::Never {
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
    Some(GoOn {
        noisy,
        steps,
        start_at_step: skipped + pass.window.map_or(0, |w| w.start_at_step) + index,
        same: restart == Restart::Same,
    })
}

/// Hands over what there is when a pass failed; `before` is the finished latent of the pass before
/// it.
pub(super) fn keep(
    stopped: Option<&(Latent, Stopped)>,
    before: Option<&Latent>,
    control: &mut Control<'_>,
    on_latent: &mut OnLatent<'_>,
) {
    let kept = match (stopped, before) {
        (Some((latent, stopped)), _) => on_latent(Kept {
            latent,
            stopped: Some(stopped),
        }),
        (None, Some(latent)) => on_latent(Kept {
            latent,
            stopped: None,
        }),
        (None, None) => Ok(()),
    };
    if let Err(error) = kept {
        control.note(format!("the latent could not be saved: {error}"));
    }
}
