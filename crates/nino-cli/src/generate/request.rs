//! From the command line to a request: names become values, the model fills what was not said.

use super::{control, names, start, style};
use crate::args::{
    BatchArg, GenerateArgs, HiresArg, HiresArgs, PreviewArgs, SamplingArgs, UpscaleArg, whole,
};
use crate::decode::{picture_limits, precision_of, tile_of};
use crate::env::Env;
use crate::failure::Usage;
use crate::plural::count;
use crate::printer;
use crate::settings::Settings;
use crate::size::Size;
use anyhow::Result;
use nino_engine::{
    Checkpoint, GenerateRequest, Hires, ModelKind, Preview, Rng, Seed, SizeHint, Start, Upscale,
    VaeFile, Window,
};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

pub(super) fn request(
    args: &GenerateArgs,
    prompt: &str,
    model: &Checkpoint,
    settings: &Settings,
    env: &Env,
) -> Result<GenerateRequest> {
    let mut request = GenerateRequest::new(model, prompt);
    request.negative.clone_from(&args.negative);
    request.batch = match args.batch {
        BatchArg::Count(n) => n,
        // Known when the device is.
        BatchArg::Max => 1,
    };
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
    let size = size(args, &request, settings)?;
    if let (Some(size), None) = (size, &args.start.latent) {
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
    start::start(&args.start, size, context, &mut request)?;
    request.hints = control::hints(&args.control, model, env, &limits)?;
    request.styles = style::styles(&args.style, env, &limits)?;
    sampling(&args.sampling, model, settings, &mut request)?;
    request.hires = hires(&args.hires, &request)?;
    Ok(request)
}

fn sampling(
    args: &SamplingArgs,
    model: &Checkpoint,
    settings: &Settings,
    request: &mut GenerateRequest,
) -> Result<()> {
    request.seed = Seed {
        value: args.seed.and_then(|s| s.0).unwrap_or_else(new_seed),
        rng: rng(&args.rng)?,
    };
    names::choose(args, settings, request)?;
    let steps = settings.pick("steps", args.steps, whole(1..=10_000))?;
    request.steps = steps.map_or(request.steps, |n| n as usize);
    request.cfg = args.cfg.map_or(request.cfg, |cfg| cfg as f32);
    request.guidance = args.guidance.map(|guidance| guidance as f32);
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
            "none of {} is between --start-at-step {start_at_step} and --end-at-step {end_at_step}",
            count(steps, "step")
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
pub(crate) fn preview(args: &PreviewArgs, seen: bool, env: &Env) -> Result<Option<Preview>> {
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
        every: args.preview_every.map_or(1, usize::from),
        vae: vae.map(Arc::new),
    }))
}

fn rng(name: &str) -> Result<Rng, Usage> {
    Rng::parse(name).ok_or_else(|| {
        Usage(format!(
            "no random number generator is called {name:?}; there are torch and philox"
        ))
    })
}

/// The size that flags ask for, or a setting where the run starts from nothing.
fn size(
    args: &GenerateArgs,
    request: &GenerateRequest,
    settings: &Settings,
) -> Result<Option<Size>, Usage> {
    let empty = args.start.image.is_none() && args.start.latent.is_none();
    match (args.width, args.height) {
        (None, None) if empty => settings.pick("size", args.size, str::parse),
        (None, None) => Ok(args.size),
        (Some(width), Some(height)) => Ok(Some(Size { width, height })),
        _ if !empty => Err(Usage(
            "the input has its own size: give both --width and --height".to_owned(),
        )),
        (width, height) => {
            let set: Option<Size> = settings.pick("size", None, str::parse)?;
            let (w, h) = set.map_or((request.width, request.height), |s| (s.width, s.height));
            Ok(Some(Size {
                width: width.unwrap_or(w),
                height: height.unwrap_or(h),
            }))
        }
    }
}

/// Latents are made of squares of 8 pixels.
pub(crate) fn rounded(what: &str, pixels: usize) -> usize {
    let whole = (pixels / 8).max(1) * 8;
    if whole != pixels {
        printer::note(&format!(
            "a {what} of {pixels} becomes {whole}, a multiple of 8"
        ));
    }
    whole
}

pub(crate) fn new_seed() -> u64 {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    // Nine digits: enough to differ, short enough to type.
    (now.as_nanos() as u64 ^ u64::from(std::process::id())) % 1_000_000_000
}
