//! A sampling run on a device that computes nothing: the plan is opened, and run as often as the
//! sampler asks. The sampler itself moves a latent of one pixel, because how often it calls the
//! network depends on its noise levels and not on the size of the picture.

use super::cached;
use super::preview::Previews;
use super::regions::{Side, Turns};
use super::steer::Steered;
use super::{Noise, Run, SampleRequest, open, plan};
use crate::store::Lease;
use crate::{Control, DiffusionModel, EngineError, Latent, LatentSize, Stage, Store};
use nino_graph::RunOptions;
use nino_sample::{Beside, Network, Stop};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Goes through a run; the request's latent needs no values. A prompt that counts in some of the
/// steps runs in all of them here.
pub(crate) fn rehearse(
    store: &Store,
    model: &DiffusionModel,
    request: &SampleRequest<'_>,
    control: &mut Control<'_>,
) -> Result<(), EngineError> {
    request.check(model)?;
    let request = &request.with_third_of(model);
    let steered = Steered::of(model, request)?;
    let steered = steered.as_ref().map(|steered| steered.run(request));
    let (model, request) = &steered.unwrap_or((model, *request));
    let (mut lease, turns) = if let Some(plans) = cached::plan(store, model, request)? {
        control.stage(Stage::Load)?;
        // The first run takes longer; both prompts are in every one.
        (open(store, model, &plans)?, vec![(1, Side::Positive)])
    } else if request.is_plain(model) {
        let planned = plan(store, model, request)?;
        control.stage(Stage::Load)?;
        let lease = open(store, model, std::slice::from_ref(&planned))?;
        let sides: &[Side] = if planned.takes_both() {
            &[Side::Positive]
        } else {
            &[Side::Positive, Side::Negative]
        };
        (lease, sides.iter().map(|&side| (0, side)).collect())
    } else {
        let turns = Turns::plan(store, model, request)?;
        control.stage(Stage::Load)?;
        // A run with all layers and of full size stands for those that take less time.
        let all = turns.all.iter();
        let turned = all.filter(|t| t.skipping != Some(true) && t.phase == 0);
        let order = turned.map(|t| (t.network, t.side)).collect();
        (open(store, model, &turns.plans)?, order)
    };
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
        turns,
        cancel: control.cancel,
    };
    let run = Run {
        model,
        request: &request,
        // How many steps are used again depends on the values.
        step_cache: None,
    };
    run.sample(network, None, None, Duration::ZERO, control)?;
    previews.into_iter().for_each(Previews::finish);
    lease.finish();
    Ok(())
}

/// Runs sessions as [`super::denoise::Whole`] and [`super::regions::Regions`] do, without values.
struct Rehearsed<'a> {
    lease: &'a mut Lease,
    /// The session of each run, and what that run is for.
    turns: Vec<(usize, Side)>,
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
        self.run(Side::Positive)?;
        if negative.is_some() {
            self.run(Side::Negative)?;
        }
        positive.fill(0.0);
        if let Some(negative) = negative {
            negative.fill(0.0);
        }
        Ok(())
    }

    fn beside(
        &mut self,
        what: Beside,
        _input: &[f32],
        _timestep: f32,
        out: &mut [f32],
    ) -> Result<(), Stop> {
        self.run(Side::of(what))?;
        out.fill(0.0);
        Ok(())
    }
}

impl Rehearsed<'_> {
    /// Runs the sessions of one side.
    fn run(&mut self, side: Side) -> Result<(), Stop> {
        for &(session, _) in self.turns.iter().filter(|turn| turn.1 == side) {
            let options = RunOptions {
                cancel: Some(self.cancel),
                ..RunOptions::default()
            };
            let session = &mut self.lease.sessions()[session];
            session.run(options).map_err(|_| Stop)?;
        }
        Ok(())
    }
}
