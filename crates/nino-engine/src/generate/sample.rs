//! The sampling stage: a UNet on the device, moved through the noise levels of a request; once, or a second
//! time over the enlarged latent.

use super::denoise::{self, Conditions, LatentShape, Unet, UnetPlan, Wanted};
use super::request::Pass;
use super::start::Canvas;
use super::stopped::{self, LastStep};
use super::text::Conditioning;
use super::{Checkpoint, GenerateRequest, OnLatent, preview, remade};
use crate::fit::share_weights;
use crate::{Control, EngineError, Event, Latent};
use nino_graph::{Device, Weights};
use nino_sample::ksampler::{self, Job};
use nino_sample::{Guided, Options, Rescale, Step, Stop, needs_negative, noise};
use std::time::{Duration, Instant};

/// A request, and what it runs on.
#[derive(Clone, Copy)]
pub(super) struct Work<'a> {
    pub(super) device: &'a dyn Device,
    pub(super) model: &'a Checkpoint,
    pub(super) request: &'a GenerateRequest,
}

/// The passes of a request, known to fit, with their noise levels.
pub(super) struct Planned(Vec<Planning>);

struct Planning {
    pass: Pass,
    sigmas: Vec<f32>,
    unet: UnetPlan,
}

/// A finished latent, and what it took.
pub(super) struct Sampled {
    /// In the VAE's units, as files hold it.
    pub(super) latent: Latent,
    /// Weights and activations.
    pub(super) peak_bytes: usize,
    pub(super) load_time: Duration,
    pub(super) sample_time: Duration,
}

/// Plans every pass before anything is loaded, so that a second one that does not fit is told now.
pub(super) fn plan(work: Work<'_>, tokens: usize) -> Result<Planned, EngineError> {
    let Work {
        device,
        model,
        request,
    } = work;
    let guided = (needs_negative(request.cfg) && !model.tells_guidance()) || request.sampler.cfg_pp;
    let dtype = request.precision.dtype(device);
    let one = |pass: Pass| {
        Ok(Planning {
            pass,
            sigmas: levels(model, request, &pass)?,
            unet: denoise::plan(
                device,
                model,
                Wanted {
                    shape: pass.shape,
                    tokens,
                    guided,
                    dtype,
                },
            )?,
        })
    };
    let passes: Result<Vec<_>, EngineError> = request.passes(model).into_iter().map(one).collect();
    let mut passes = passes?;
    let mut plans: Vec<_> = passes.iter_mut().map(|p| &mut p.unet.plan).collect();
    share_weights(&mut plans);
    Ok(Planned(passes))
}

fn levels(
    model: &Checkpoint,
    request: &GenerateRequest,
    pass: &Pass,
) -> Result<Vec<f32>, EngineError> {
    let all = ksampler::sigmas(
        &model.sampling,
        request.sampler,
        request.scheduler,
        pass.steps,
        pass.denoise,
    )?;
    Ok(pass.window.map_or(all.clone(), |w| w.cut(&all)))
}

/// Runs the passes. Of one that fails, `on_latent` gets what there is.
pub(super) fn sample(
    work: Work<'_>,
    planned: &Planned,
    mut canvas: Canvas,
    prompts: &(Conditioning, Conditioning),
    control: &mut Control<'_>,
    on_latent: &mut OnLatent<'_>,
) -> Result<Sampled, EngineError> {
    control.stage("load")?;
    let started = Instant::now();
    let plans: Vec<_> = planned.0.iter().map(|p| &*p.unet.plan).collect();
    let source = remade::source(work.model.unet_params(), &plans);
    let weights = work.device.load(&plans, source)?;
    let load_time = started.elapsed();

    let started = Instant::now();
    let mut latent: Option<Latent> = None;
    for (i, planning) in planned.0.iter().enumerate() {
        let shape = planning.pass.shape;
        if let Some(before) = &latent {
            canvas = canvas.next(before, shape, planning.pass.method);
        }
        let run = Run {
            work,
            planning,
            canvas: &canvas,
        };
        let stage = if i == 0 { "sample" } else { "second pass" };
        let mut last = LastStep::new(shape.batch * shape.image_len());
        let sampled = control
            .stage(stage)
            .and_then(|()| run.sample(&weights, prompts, &mut last, control));
        match sampled {
            Ok(values) => latent = Some(work.model.finished(shape, &values)),
            Err(error) => {
                let of = (work.model, work.request, &planning.pass);
                stopped::keep(&last, latent.as_ref(), of, control, on_latent);
                return Err(error);
            }
        }
    }
    let latent = latent.expect("a request has a pass");
    let peak = planned.0.iter().map(|p| p.unet.plan.device_bytes());
    Ok(Sampled {
        latent,
        peak_bytes: peak.max().unwrap_or(0),
        load_time,
        sample_time: started.elapsed(),
    })
}

/// One pass over one canvas.
struct Run<'a> {
    work: Work<'a>,
    planning: &'a Planning,
    canvas: &'a Canvas,
}

impl Run<'_> {
    /// The sampled latent in the model's units, `[b, c, h, w]`.
    fn sample(
        &self,
        weights: &Weights,
        (positive, negative): &(Conditioning, Conditioning),
        last: &mut LastStep,
        control: &mut Control<'_>,
    ) -> Result<Vec<f32>, EngineError> {
        let Work {
            device,
            model,
            request,
        } = self.work;
        let Planning { pass, sigmas, unet } = self.planning;
        let shape = pass.shape;
        let pixels = shape.pixels(model.vae.vae.scale());
        let (positive, negative) = (
            positive.at_size(model.family, &request.told, pixels, false),
            negative.at_size(model.family, &request.told, pixels, true),
        );
        let inpaint = request.inpaint.as_ref().map(|i| &i.mask);
        let session = device.session(unet.plan.clone(), weights)?;
        let beside = self.canvas.beside(model, inpaint, shape);
        let conditions = Conditions {
            positive: &positive,
            negative: &negative,
            beside: beside.as_deref(),
            cfg: request.cfg,
        };
        let mut error = None;
        let network = Unet::new(session, unet, shape, conditions, control.cancel, &mut error)?;
        let cfg = if model.tells_guidance() {
            1.0
        } else {
            request.cfg
        };
        let mut denoiser = Guided::new(network, &model.sampling, cfg);
        if request.cfg_rescale > 0.0 {
            denoiser = denoiser.with_rescale(Rescale {
                multiplier: request.cfg_rescale,
                image_len: shape.image_len(),
            });
        }
        let latent = self.canvas.values(shape, model.latent_format());
        let mask = self.canvas.latent_mask(shape);
        let noise = if pass.add_noise {
            noise::initial(request.seed, latent.len())
        } else {
            vec![0.0; latent.len()]
        };
        let job = Job {
            model: &model.sampling,
            sampler: request.sampler,
            sigmas,
            seed: request.seed,
            options: &Options::default(),
            latent: &latent,
            noise: &noise,
            mask: mask.as_deref(),
        };
        control.progress(0, sigmas.len().saturating_sub(1))?;
        let mut trouble = None;
        let mut on_step = |step: &Step<'_>| {
            last.hear(step);
            self.told(step, control).map_err(|e| {
                trouble = Some(e);
                Stop
            })
        };
        let sampled = ksampler::sample(&job, &mut denoiser, &mut on_step);
        drop(denoiser);
        if let Some(error) = error.or(trouble) {
            return Err(error);
        }
        control.check()?;
        let mut sampled = sampled?;
        if let (Some(mask), Some(&0.0)) = (&mask, sigmas.last()) {
            restore(&mut sampled, &latent, mask);
        }
        Ok(sampled)
    }

    fn told(&self, step: &Step<'_>, control: &mut Control<'_>) -> Result<(), EngineError> {
        control.progress(step.index + 1, step.total)?;
        let Some(preview) = &self.work.request.preview else {
            return Ok(());
        };
        if !(step.index + 1).is_multiple_of(preview.every.max(1)) {
            return Ok(());
        }
        let shape = self.planning.pass.shape;
        let shown = preview::show(
            self.work.device,
            self.work.model,
            preview,
            shape,
            step.denoised,
            control,
        )?;
        if let Some(picture) = shown {
            (control.on_event)(Event::Preview(picture));
        }
        Ok(())
    }
}

/// What is outside the mask is the start's to the bit, not up to the rounding of the last step.
fn restore(sampled: &mut [f32], latent: &[f32], mask: &[f32]) {
    for ((value, &original), &paint) in sampled.iter_mut().zip(latent).zip(mask) {
        if paint == 0.0 {
            *value = original;
        }
    }
}

impl Checkpoint {
    /// A sampled latent in the VAE's units.
    pub(super) fn finished(&self, shape: LatentShape, sampled: &[f32]) -> Latent {
        let mut latent = Latent {
            batch: shape.batch,
            frames: 1,
            height: shape.height,
            width: shape.width,
            channels: shape.channels,
            values: denoise::channels_last(sampled, shape),
            is_video: false,
            format: None,
        };
        if let Some(format) = self.latent_format() {
            latent.scale_to_vae(format);
        }
        latent
    }
}
