//! From the command line to a request: names become values, the model fills what was not said.

use super::start;
use crate::args::{GenerateArgs, HiresArg, HiresArgs, PreviewArgs, SamplingArgs, UpscaleArg};
use crate::decode::{picture_limits, precision_of, tile_of};
use crate::env::Env;
use crate::failure::Usage;
use crate::printer;
use crate::settings::Settings;
use anyhow::Result;
use nino_engine::{
    Checkpoint, GenerateRequest, Hires, ModelKind, Preview, Rng, SampleError, SamplerInfo,
    Scheduler, Seed, SizeHint, Start, Upscale, VaeFile, Window,
};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) fn request(
    args: &GenerateArgs,
    model: &Checkpoint,
    settings: &Settings,
    env: &Env,
) -> Result<GenerateRequest> {
    let mut request = GenerateRequest::new(model, &args.prompt);
    request.negative.clone_from(&args.negative);
    request.batch = usize::from(args.batch);
    request.clip_skip = args.model.clip_skip;
    request.zero_negative = args.zero_negative;
    request.size_hint = SizeHint {
        original: args.original_size.map(|s| (s.width, s.height)),
        crop: args.crop.map_or((0, 0), |at| (at.left, at.top)),
        target: args.target_size.map(|s| (s.width, s.height)),
        score: None,
    };
    request.precision = precision_of(args.precision, settings)?;
    request.decode.precision = request.precision;
    request.decode.tile = tile_of(None, (None, None), settings)?;
    if let (Some(size), None) = (args.size, &args.start.latent) {
        request.width = rounded("width", size.width);
        request.height = rounded("height", size.height);
    }
    request.add_noise = !args.sampling.no_noise;
    let budget = settings.pick("budget", args.device.budget, str::parse)?;
    let limits = picture_limits(budget.map(|b| b.0));
    let context = start::Context {
        model,
        env,
        limits: &limits,
    };
    start::start(&args.start, args.size, context, &mut request)?;
    sampling(&args.sampling, model, &mut request)?;
    request.hires = hires(&args.hires, &request)?;
    Ok(request)
}

fn sampling(
    args: &SamplingArgs,
    model: &Checkpoint,
    request: &mut GenerateRequest,
) -> Result<(), Usage> {
    request.seed = Seed {
        value: args.seed.unwrap_or_else(new_seed),
        rng: rng(&args.rng)?,
    };
    if let Some(name) = &args.sampler {
        request.sampler = SamplerInfo::find(name).map_err(|e| usage(&e))?;
    }
    if let Some(name) = &args.scheduler {
        request.scheduler = Scheduler::find(name).map_err(|e| usage(&e))?;
    }
    request.steps = args.steps.map_or(request.steps, |n| n as usize);
    request.cfg = args.cfg.unwrap_or(request.cfg);
    request.guidance = args.guidance;
    request.window = window(args, request.steps)?;
    // All the noise would leave nothing of what it starts from; a mask says itself what stays, and
    // an editing model sees the picture beside the noise.
    let some = request.start != Start::Empty
        && !model.diffusion.edits()
        && request.inpaint.is_none()
        && request.window.is_none()
        && request.add_noise;
    request.denoise = args.denoise.unwrap_or(if some { 0.75 } else { 1.0 });
    Ok(())
}

fn window(args: &SamplingArgs, steps: usize) -> Result<Option<Window>, Usage> {
    if args.start_at_step.is_none() && args.end_at_step.is_none() {
        return Ok(None);
    }
    let start_at_step = args.start_at_step.unwrap_or(0) as usize;
    let end_at_step = args.end_at_step.map_or(steps, |n| n as usize);
    if start_at_step >= end_at_step.min(steps) {
        return Err(Usage(format!(
            "of {steps} steps none is left from step {start_at_step} to {end_at_step}"
        )));
    }
    Ok(Some(Window {
        start_at_step,
        end_at_step,
        return_with_leftover_noise: args.return_with_leftover_noise,
    }))
}

fn hires(args: &HiresArgs, request: &GenerateRequest) -> Result<Option<Hires>, Usage> {
    let Some(hires) = args.hires else {
        return Ok(None);
    };
    if request.window.is_some_and(|w| w.return_with_leftover_noise) {
        return Err(Usage(
            "--hires needs a finished first pass, without --return-with-leftover-noise".to_owned(),
        ));
    }
    let (width, height) = match hires {
        HiresArg::Size(size) => (rounded("width", size.width), rounded("height", size.height)),
        // Whole latent pixels, as LatentUpscaleBy rounds them.
        HiresArg::Factor(by) => {
            let scaled = |pixels: usize| ((pixels / 8) as f64 * by).round_ties_even() as usize * 8;
            (scaled(request.width), scaled(request.height))
        }
    };
    Ok(Some(Hires {
        width,
        height,
        method: match args.hires_method {
            UpscaleArg::NearestExact => Upscale::NearestExact,
            UpscaleArg::Bilinear => Upscale::Bilinear,
            UpscaleArg::Area => Upscale::Area,
            UpscaleArg::Bicubic => Upscale::Bicubic,
            UpscaleArg::Bislerp => Upscale::Bislerp,
        },
        steps: args.hires_steps.map_or(request.steps, |n| n as usize),
        denoise: args.hires_denoise,
    }))
}

/// Previews, if anyone sees them.
pub(super) fn preview(args: &PreviewArgs, seen: bool, env: &Env) -> Result<Option<Preview>> {
    if !seen {
        return Ok(None);
    }
    let vae = match &args.preview_vae {
        Some(name) => Some(VaeFile::open(
            &env.library().resolve(&[ModelKind::Vae], name)?,
        )?),
        None => None,
    };
    Ok(Some(Preview {
        every: usize::from(args.preview_every),
        vae: vae.map(Arc::new),
    }))
}

fn rng(name: &str) -> Result<Rng, Usage> {
    Rng::parse(name).ok_or_else(|| {
        Usage(format!(
            "no stream of noise is called {name:?}; there are torch and philox"
        ))
    })
}

fn usage(error: &SampleError) -> Usage {
    Usage(error.to_string())
}

/// Latents are made of squares of 8 pixels.
pub(super) fn rounded(what: &str, pixels: usize) -> usize {
    let whole = (pixels / 8).max(1) * 8;
    if whole != pixels {
        printer::note(&format!(
            "note: a {what} of {pixels} becomes {whole}, a multiple of 8"
        ));
    }
    whole
}

fn new_seed() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    // Nine digits: enough to differ, short enough to type.
    (now.as_nanos() as u64 ^ u64::from(std::process::id())) % 1_000_000_000
}
