//! The sampling of a request: one pass, or a second one over the enlarged latent.

use super::request::Pass;
use super::start::Canvas;
use super::{GenerateRequest, OnLatent, Prompts, stopped};
use crate::sample::{self, Noise, SampleRequest, sample};
use crate::{Checkpoint, Conditioning, Control, EngineError, Event, Latent, Store};
use std::time::Duration;

/// The passes of a request, known to fit.
pub(super) struct Passes<'a> {
    store: &'a Store,
    model: &'a Checkpoint,
    request: &'a GenerateRequest,
    prompts: &'a Prompts,
    /// Each pass with its noise levels.
    planned: Vec<(Pass, Vec<f32>)>,
}

/// A finished latent, and what it took.
pub(super) struct Sampled {
    pub(super) latent: Latent,
    pub(super) load_time: Duration,
    pub(super) sample_time: Duration,
}

impl<'a> Passes<'a> {
    /// Plans every pass before anything is loaded, so that a second one that does not fit is told
    /// now.
    pub(super) fn plan(
        store: &'a Store,
        model: &'a Checkpoint,
        request: &'a GenerateRequest,
        prompts: &'a Prompts,
    ) -> Result<Passes<'a>, EngineError> {
        let mut passes = Passes {
            store,
            model,
            request,
            prompts,
            planned: Vec::new(),
        };
        let levels = request.levels(model);
        for pass in request.passes(model) {
            let all = sample::sigmas(
                &levels,
                request.sampler,
                request.scheduler,
                pass.steps,
                pass.denoise,
            )?;
            let sigmas = pass.window.map_or(all.clone(), |w| w.cut(&all));
            let latent = pass.shape.without_values();
            let run = passes.run_of(
                &pass,
                &sigmas,
                &prompts.positive,
                &prompts.negative,
                &latent,
            );
            sample::check_fits(store, &model.diffusion, &run)?;
            passes.planned.push((pass, sigmas));
        }
        Ok(passes)
    }

    /// Goes through the passes on a device that computes nothing.
    pub(super) fn rehearse(&self, control: &mut Control<'_>) -> Result<(), EngineError> {
        let Prompts { positive, negative } = self.prompts;
        for (pass, sigmas) in &self.planned {
            let latent = pass.shape.without_values();
            let run = self.run_of(pass, sigmas, positive, negative, &latent);
            sample::rehearse(self.store, &self.model.diffusion, &run, control)?;
        }
        Ok(())
    }

    /// Runs the passes. Of one that fails, `on_latent` gets what there is.
    pub(super) fn run(
        &self,
        canvas: &Canvas,
        control: &mut Control<'_>,
        on_latent: &mut OnLatent<'_>,
    ) -> Result<Sampled, EngineError> {
        let positive = self.prompts.positive.with_seen(canvas.seen.clone());
        let negative = self.prompts.negative.with_seen(canvas.seen.clone());
        let (mut load_time, mut sample_time) = (Duration::ZERO, Duration::ZERO);
        let mut before: Option<Latent> = None;
        for (pass, sigmas) in &self.planned {
            let shape = pass.shape;
            let start = match &before {
                None => canvas.start(shape),
                Some(before) => before.resized(shape.height, shape.width, pass.method),
            };
            if self.planned.len() > 1 {
                let (index, total) = (pass.index, self.planned.len());
                (control.on_event)(Event::Pass { index, total });
            }
            let request = SampleRequest {
                mask: canvas.mask.as_ref(),
                ..self.run_of(pass, sigmas, &positive, &negative, &start)
            };
            match sample(self.store, &self.model.diffusion, &request, control) {
                Ok(sampled) => {
                    load_time += sampled.load_time;
                    sample_time += sampled.sample_time;
                    before = Some(sampled.latent);
                }
                Err(unfinished) => {
                    let model = &self.model.diffusion;
                    let reached = unfinished.reached.map(|r| *r);
                    let stopped = stopped::of(reached, model, self.request, pass);
                    stopped::keep(stopped.as_ref(), before.as_ref(), control, on_latent);
                    return Err(unfinished.error);
                }
            }
        }
        Ok(Sampled {
            latent: before.expect("a request has a pass"),
            load_time,
            sample_time,
        })
    }

    fn run_of<'b>(
        &'b self,
        pass: &Pass,
        sigmas: &'b [f32],
        positive: &'b Conditioning,
        negative: &'b Conditioning,
        latent: &'b Latent,
    ) -> SampleRequest<'b> {
        let request = self.request;
        SampleRequest {
            positive: std::slice::from_ref(positive),
            negative: std::slice::from_ref(negative),
            third: None,
            latent,
            noise: if pass.add_noise {
                Noise::Seeded
            } else {
                Noise::None
            },
            mask: None,
            frame_mask: &[],
            sigmas,
            sampler: request.sampler,
            options: &request.options,
            seed: request.seed,
            cfg: request.cfg,
            precision: request.precision,
            preview: request.preview.as_ref(),
            beside: request.held_bytes(),
            memory: None,
        }
    }
}
