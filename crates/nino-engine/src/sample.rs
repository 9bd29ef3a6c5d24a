//! The sampling stage: a diffusion model on the device, moved through noise levels. ComfyUI's
//! `KSampler`, `KSamplerAdvanced` and `SamplerCustomAdvanced` are calls of [`sample`] with other
//! values.

mod areas;
mod cached;
mod denoise;
mod planned;
mod preview;
mod reached;
mod regions;
mod rehearse;
mod remembered;
mod request;
mod reuse;
mod shape;
mod steer;
mod third;

use crate::decode::Precision;
use crate::model::remade;
use crate::store::{Lease, Network};
use crate::{Control, DiffusionModel, EngineError, Event, Latent, Stage, Store, capture};
use cached::Cached;
use denoise::{Prompted, Whole};
use nino_dtype::DType;
use nino_graph::Plan;
use nino_models::{Family, KvCache, SoundShape};
use nino_sample::ksampler::{self, Job};
use nino_sample::{
    Denoise, Guided, Items, Options as SamplerOptions, Output, Reuses, Sampler, Step, StepCache,
    Stop, noise,
};
use planned::{DenoiserPlan, PlanSpec};
pub use preview::Preview;
use preview::Previews;
use reached::LastStep;
pub use reached::{Reached, Unfinished};
use regions::Regions;
pub(crate) use rehearse::rehearse;
use remembered::Remembered;
pub use request::{Noise, Remember, SampleRequest};
pub(crate) use shape::{LatentShape, channels_last};
use std::cell::Cell;
use std::sync::Arc;
use std::time::{Duration, Instant};
use steer::Steered;
pub use third::Third;

/// A sampled latent, and what it took.
#[derive(Debug)]
pub struct Sampled {
    /// The latent at the last noise level, in the VAE's units.
    pub latent: Latent,
    /// The last prediction of the finished latent; the same as `latent` when the levels end at 0,
    /// and for no levels at all.
    pub denoised: Latent,
    /// Of a model that reuses steps, how often it was asked for a prediction, and reused one.
    pub reuses: Reuses,
    pub load_time: Duration,
    pub sample_time: Duration,
}

/// The noise levels of a schedule, as `KSampler` has them. `denoise` below 1 takes the last `steps`
/// of a longer schedule; at 0 there is nothing to do and the list is empty.
pub fn sigmas(
    model: &DiffusionModel,
    sampler: &Sampler,
    scheduler: nino_sample::Scheduler,
    steps: usize,
    denoise: f64,
) -> Result<Vec<f32>, EngineError> {
    let (sampling, levels) = (&model.sampling, ksampler::sigmas);
    Ok(levels(sampling, sampler, scheduler, steps, denoise)?)
}

/// Samples a latent. What a run had come to when it failed is in the error; `?` turns that into an
/// [`EngineError`] for callers who do not go on from there. Predictions that are not finite in half
/// precision are made again in f32, from the start, which is told.
pub fn sample(
    store: &Store,
    model: &DiffusionModel,
    request: &SampleRequest<'_>,
    control: &mut Control<'_>,
) -> Result<Sampled, Unfinished> {
    let sampled = match sample_once(store, model, request, control) {
        Err(Unfinished {
            error: EngineError::NotFinite { dtype },
            ..
        }) if dtype != DType::F32 => {
            control.note(format!(
                "values were not finite in {dtype}: the image is sampled again in f32"
            ));
            let exact = SampleRequest {
                precision: Precision::F32,
                ..*request
            };
            sample_once(store, model, &exact, control)
        }
        done => done,
    };
    if let (Ok(sampled), true) = (&sampled, capture::is_on(store)) {
        capture::sample(model, request, sampled);
    }
    sampled
}

fn sample_once(
    store: &Store,
    model: &DiffusionModel,
    request: &SampleRequest<'_>,
    control: &mut Control<'_>,
) -> Result<Sampled, Unfinished> {
    request.check(model)?;
    let request = &request.with_third_of(model);
    let step_cache = request.step_cache(model);
    let started = Instant::now();
    let mut steered = Steered::of(model, request)?;
    if let Some(steered) = &mut steered {
        steered.encode(store, request, control)?;
    }
    let steered = steered.as_ref().map(|steered| steered.run(request));
    let (model, request) = &steered.unwrap_or((model, *request));
    let run = Run {
        model,
        request,
        step_cache,
    };
    if let Some(plans) = cached::plan(store, model, request)? {
        control.stage(Stage::Load)?;
        let mut network = Cached::open(store, model, request, plans, control)?;
        let previews = Previews::open(store, model, request, control);
        let (load_time, sigma) = (started.elapsed(), network.sigma());
        let sampled = run.sample(&mut network, Some(&sigma), previews, load_time, control);
        let sampled = blame(sampled, network.error())?;
        network.finish();
        return Ok(sampled);
    }
    if request.is_plain(model) {
        let planned = plan(store, model, request)?;
        control.stage(Stage::Load)?;
        let lease = open(store, model, std::slice::from_ref(&planned))?;
        let previews = Previews::open(store, model, request, control);
        let both = request.prompts(model);
        let sets: Vec<_> = if planned.takes_both() {
            vec![&both[..]]
        } else {
            both.chunks(1).collect()
        };
        let cancel = control.cancel;
        let prompted = Prompted::new(planned, model, &sets, request, cancel)?;
        let sigma = prompted.sigma();
        let mut network = Whole::new(lease, prompted);
        let load_time = started.elapsed();
        let sampled = run.sample(&mut network, Some(&sigma), previews, load_time, control);
        let sampled = blame(sampled, network.error())?;
        network.finish();
        return Ok(sampled);
    }
    control.stage(Stage::Load)?;
    let mut network = Regions::open(store, model, request, control)?;
    let previews = Previews::open(store, model, request, control);
    let (load_time, sigma) = (started.elapsed(), network.sigma());
    let sampled = run.sample(&mut network, Some(&sigma), previews, load_time, control);
    let sampled = blame(sampled, network.error())?;
    network.finish();
    Ok(sampled)
}

/// The run's result with the network's own error in the place of what that led to.
fn blame(
    sampled: Result<Sampled, Unfinished>,
    error: Option<EngineError>,
) -> Result<Sampled, Unfinished> {
    sampled.map_err(|unfinished| Unfinished {
        error: error.unwrap_or(unfinished.error),
        ..unfinished
    })
}

/// The model on the device, with a session for each of the plans, which share an arena.
fn open(
    store: &Store,
    model: &DiffusionModel,
    planned: &[Arc<DenoiserPlan>],
) -> Result<Lease, EngineError> {
    let plans: Vec<Arc<Plan>> = planned.iter().map(|p| Arc::clone(&p.plan)).collect();
    let beside = planned.iter().map(|p| p.host_bytes).max();
    store.open(&Network {
        stage: Stage::Sample,
        net: model.id(),
        plans: &plans,
        beside: beside.unwrap_or(0),
        source: &|| {
            let plans: Vec<&Plan> = plans.iter().map(|p| &**p).collect();
            Ok(remade::source(model.source(), &plans))
        },
    })
}

/// Plans everything that a run would load, made now or before: what does not fit is told.
pub(crate) fn check_fits(
    store: &Store,
    model: &DiffusionModel,
    request: &SampleRequest<'_>,
) -> Result<(), EngineError> {
    let request = &request.with_third_of(model);
    let steered = Steered::of(model, request)?;
    let steered = steered.as_ref().map(|steered| steered.run(request));
    let (model, request) = &steered.unwrap_or((model, *request));
    if cached::plan(store, model, request)?.is_some() {
        return Ok(());
    }
    if request.is_plain(model) {
        return plan(store, model, request).map(|_| ());
    }
    regions::Turns::plan(store, model, request).map(|_| ())
}

/// The plan of a run over the whole picture, made now or before.
fn plan(
    store: &Store,
    model: &DiffusionModel,
    request: &SampleRequest<'_>,
) -> Result<Arc<DenoiserPlan>, EngineError> {
    plan_for(store, model, &spec(store, model, request))
}

/// What a run over the whole picture is planned for.
fn spec(store: &Store, model: &DiffusionModel, request: &SampleRequest<'_>) -> PlanSpec {
    let clip = request.positive.first().map(|p| &p.clip);
    PlanSpec {
        shape: LatentShape::of(request.latent),
        tokens: request.tokens(model),
        queries: request.positive.first().map_or(0, |p| p.queries_for(model)),
        guided: request.is_guided(model),
        turns: false,
        dtype: model.dtype(request.precision, store.device()),
        preview_bytes: Previews::bytes(store, model, request),
        references: request
            .positive
            .first()
            .map_or_else(Vec::new, |p| p.reference_sizes(model)),
        steering: model.steering().controlled(),
        image_tokens: clip.map_or(0, |c| c.image_tokens(model)),
        controls: clip.map_or(0, |c| c.n_controls(model)),
        camera: clip.is_some_and(|c| c.sees_camera(model)),
        sound: clip.map_or_else(SoundShape::default, |c| {
            c.sound.shape(model, LatentShape::of(request.latent))
        }),
        skipped: Vec::new(),
        shrinks: Vec::new(),
        watched: false,
        biased: request
            .positive
            .first()
            .map_or_else(Vec::new, |p| p.stretches(model)),
        unguided: request.positive.first().is_some_and(|p| p.unguided),
        style: model.style_tokens(),
        kept: KvCache::Off,
        places: request.positive.first().and_then(|p| p.places),
        host_bytes: request.host_bytes(model),
    }
}

fn plan_for(
    store: &Store,
    model: &DiffusionModel,
    spec: &PlanSpec,
) -> Result<Arc<DenoiserPlan>, EngineError> {
    store.plan(&model.id(), model.plan_key(spec), || {
        planned::plan(store.device(), model, spec)
    })
}

/// One run of the sampler.
struct Run<'a> {
    model: &'a DiffusionModel,
    request: &'a SampleRequest<'a>,
    step_cache: Option<StepCache>,
}

impl Run<'_> {
    /// Samples with a network. `sigma` hears the noise level before every call of it.
    fn sample<N: nino_sample::Network>(
        &self,
        network: N,
        sigma: Option<&Cell<f32>>,
        mut previews: Option<Previews>,
        load_time: Duration,
        control: &mut Control<'_>,
    ) -> Result<Sampled, Unfinished> {
        control.stage(Stage::Sample)?;
        let started = Instant::now();
        let (model, request) = (self.model, self.request);
        let shape = LatentShape::of(request.latent);
        let items = Items {
            len: shape.item_len(),
            channels: shape.channels,
            width: shape.width,
        };
        let (own, forgotten) = (Cell::default(), Cell::new(None));
        let sigma = sigma.unwrap_or(&own);
        let network = Remembered {
            network,
            memory: request.memory,
            level: sigma,
            error: &forgotten,
        };
        let reuses = Cell::default();
        let mut guided = Guided::new(network, &model.sampling, self.cfg())
            .corrected(items, model.blend, &model.corrections)
            .with_third(request.third.map(|third| third.way))
            .with_step_cache(self.step_cache, &reuses);
        let mut denoiser = |x: &[f32], level: f32, out: Output<'_>| {
            sigma.set(level);
            let before = reuses.get();
            guided.denoise(x, level, out)?;
            if let Some(reuse) = model.step_reuse().filter(|reuse| reuse.verbose) {
                let reused = reuses.get().reused > before.reused;
                let made = if reused { "reused" } else { "computed" };
                tracing::info!("{}: noise level {level} is {made}", reuse.name());
            }
            Ok(())
        };
        let latent = request
            .latent
            .in_model_units(model.latent_format())
            .planes();
        let mask = request.mask_values();
        let noise = match request.noise {
            Noise::Seeded => noise::initial(request.seed, shape.len()),
            Noise::SeededAt(places) => noise::initial_at(request.seed, shape.item_len(), places)
                .map_err(EngineError::from)?,
            Noise::None => vec![0.0; shape.len()],
            Noise::Given(noise) => noise.to_vec(),
        };
        let options = SamplerOptions {
            gradual: model.gradual_mask.or(request.options.gradual),
            ..request.options.clone()
        };
        let job = Job {
            model: &model.sampling,
            sampler: request.sampler,
            sigmas: request.sigmas,
            seed: request.seed,
            options: &options,
            latent: &latent,
            noise: &noise,
            mask: mask.as_deref(),
            // A model that is told which frames are given sees them as they are.
            clean: model.family == Family::Wan5B,
        };
        control.progress(0, request.sigmas.len().saturating_sub(1))?;
        let mut last = LastStep::new(shape.len());
        let mut stopped = None;
        let mut on_step = |step: &Step<'_>| {
            last.hear(step);
            tell(step, &mut previews, control).map_err(|e| {
                stopped = Some(e);
                Stop
            })
        };
        let sampled = ksampler::sample(&job, &mut denoiser, &mut on_step);
        let error = stopped.or(forgotten.take()).or(control.check().err());
        let sampled = match (error, sampled) {
            (None, Ok(sampled)) => sampled,
            (error, sampled) => {
                let error = error.or(sampled.err().map(EngineError::from));
                return Err(Unfinished {
                    error: error.unwrap_or(EngineError::Cancelled),
                    reached: last.reached(model, shape).map(Box::new),
                });
            }
        };
        previews.into_iter().for_each(Previews::finish);
        let (latent, denoised) = self.finished(&last, sampled, &latent, mask.as_deref());
        let reuses = reuses.get();
        if let Some(reuse) = model.step_reuse().filter(|_| self.step_cache.is_some()) {
            let Reuses {
                predictions,
                reused,
            } = reuses;
            control.note(format!(
                "{} reused {reused} of {predictions} predictions",
                reuse.name()
            ));
        }
        Ok(Sampled {
            latent,
            denoised,
            reuses,
            load_time,
            sample_time: started.elapsed(),
        })
    }

    /// The guidance: a model that takes it as an input is not guided.
    fn cfg(&self) -> f32 {
        if self.model.takes_guidance() {
            1.0
        } else {
            self.request.cfg
        }
    }

    fn finished(
        &self,
        last: &LastStep,
        mut sampled: Vec<f32>,
        latent: &[f32],
        mask: Option<&[f32]>,
    ) -> (Latent, Latent) {
        let shape = LatentShape::of(self.request.latent);
        let ends_clean = self.request.sigmas.last() == Some(&0.0);
        if let (Some(mask), true) = (mask, ends_clean) {
            restore(&mut sampled, latent, mask);
        }
        let made = self.model.finished(shape, &sampled);
        let denoised = match last.denoised() {
            Some(denoised) if !ends_clean => self.model.finished(shape, denoised),
            _ => made.clone(),
        };
        (made, denoised)
    }
}

/// Tells a step, and shows what the latent looks like by now. A preview that fails is not worth a
/// picture: it is told, and there are no more.
fn tell(
    step: &Step<'_>,
    previews: &mut Option<Previews>,
    control: &mut Control<'_>,
) -> Result<(), EngineError> {
    control.progress(step.index + 1, step.total)?;
    let Some(shown) = previews.as_mut().filter(|p| p.is_due(step.index)) else {
        return Ok(());
    };
    match shown.show(step.denoised, control) {
        Ok(mut frames) if frames.len() == 1 => {
            (control.on_event)(Event::Preview(frames.remove(0)));
        }
        Ok(frames) if frames.is_empty() => {}
        Ok(frames) => (control.on_event)(Event::PreviewClip(frames)),
        Err(EngineError::Cancelled) => return Err(EngineError::Cancelled),
        Err(error) => {
            *previews = None;
            control.note(format!("no more previews: {error}"));
        }
    }
    Ok(())
}

/// What is outside the mask is the start's to the bit, not up to the rounding of the last step.
fn restore(sampled: &mut [f32], latent: &[f32], mask: &[f32]) {
    for ((value, &original), &paint) in sampled.iter_mut().zip(latent).zip(mask) {
        if paint == 0.0 {
            *value = original;
        }
    }
}

impl DiffusionModel {
    /// A sampled latent, `[b, c, t, h, w]` in the model's units, in the VAE's units.
    pub(crate) fn finished(&self, shape: LatentShape, sampled: &[f32]) -> Latent {
        let format = self.latent_format();
        let mut latent = Latent {
            values: channels_last(sampled, shape),
            format,
            ..shape.empty()
        };
        if let Some(format) = format {
            latent.scale_to_vae(format);
        }
        latent
    }
}

#[cfg(test)]
mod tests;
