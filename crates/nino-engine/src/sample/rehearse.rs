//! A sampling run on a device that computes nothing: the plan is opened, and run as often as the
//! sampler asks. The sampler itself moves a latent of one pixel, because how often it calls the
//! network depends on its noise levels and not on the size of the picture.

use super::preview::Previews;
use super::steer::Steered;
use super::{Noise, Run, SampleRequest, open, plan};
use crate::store::Lease;
use crate::{Control, DiffusionModel, EngineError, Latent, LatentSize, Stage, Store};
use nino_graph::RunOptions;
use nino_sample::{Network, Stop};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Goes through a run whose prompts are each for the whole picture; the request's latent needs no
/// values.
pub(crate) fn rehearse(
    store: &Store,
    model: &DiffusionModel,
    request: &SampleRequest<'_>,
    control: &mut Control<'_>,
) -> Result<(), EngineError> {
    request.check(model)?;
    let steered = Steered::of(model, request)?;
    let steered = steered.as_ref().map(|steered| steered.run(request));
    let (model, request) = &steered.unwrap_or((model, *request));
    let planned = plan(store, model, request)?;
    control.stage(Stage::Load)?;
    let mut lease = open(store, model, &planned)?;
    let previews = Previews::open(store, model, request, control);
    let pixel = Latent::empty(1, request.latent.channels, LatentSize::picture(1, 1));
    let request = SampleRequest {
        latent: &pixel,
        noise: Noise::None,
        mask: None,
        frame_mask: &[],
        ..*request
    };
    let network = Rehearsed {
        lease: &mut lease,
        takes_both: planned.takes_both(),
        cancel: control.cancel,
    };
    let run = Run {
        model,
        request: &request,
    };
    run.sample(network, None, None, Duration::ZERO, control)?;
    previews.into_iter().for_each(Previews::finish);
    lease.finish();
    Ok(())
}

/// Runs the session as [`super::denoise::Prompted`] does, without values.
struct Rehearsed<'a> {
    lease: &'a mut Lease,
    /// A run takes the prompts of both sides.
    takes_both: bool,
    cancel: &'a AtomicBool,
}

impl Network for Rehearsed<'_> {
    fn forward(
        &mut self,
        _input: &[f32],
        _timestep: f32,
        positive: &mut [f32],
        negative: Option<&mut [f32]>,
    ) -> Result<(), Stop> {
        let runs = match &negative {
            Some(_) if !self.takes_both => 2,
            _ => 1,
        };
        for _ in 0..runs {
            let options = RunOptions {
                cancel: Some(self.cancel),
                ..RunOptions::default()
            };
            self.lease.session().run(options).map_err(|_| Stop)?;
        }
        positive.fill(0.0);
        if let Some(negative) = negative {
            negative.fill(0.0);
        }
        Ok(())
    }
}
