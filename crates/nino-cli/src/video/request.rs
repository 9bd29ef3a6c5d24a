//! From the command line to a request for a clip.

use super::follow;
use crate::args::{CameraArg, PreviewArgs, VideoArgs};
use crate::decode::{picture_limits, precision_of};
use crate::device::Choice;
use crate::env::Env;
use crate::failure::UsageWithHint;
use crate::generate::{names, request as pictures};
use crate::interrupt;
use crate::printer;
use anyhow::Result;
use nino_engine::media::{Limits, ReadOptions, load_audio, load_picture};
use nino_engine::{
    Audio, CameraMove, ClipSize, DecodeOptions, Family, Image, Preview, Rng, SamplerInfo,
    Scheduler, Seed, VideoModel, VideoRequest,
};
use std::path::Path;
use std::sync::Arc;

/// A request, and how fast the clip is shown.
pub(crate) struct Wanted {
    pub(crate) request: VideoRequest,
    pub(crate) fps: f64,
}

/// What to do where a model needs a first frame and none is given.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoStart {
    Refuse,
    /// Any image will do: a plan depends on its size alone.
    Assume,
}

/// Frames under one latent frame.
const TIME: usize = 4;

pub(crate) fn wanted(
    args: &VideoArgs,
    model: &VideoModel,
    choice: &Choice,
    no_start: NoStart,
    env: &Env,
) -> Result<Wanted> {
    let settings = &choice.settings;
    let defaults = model.high.defaults();
    let is_5b = model.high.family == Family::Wan5B;
    let budget = settings.pick("budget", args.device.budget, str::parse)?;
    let limits = picture_limits(budget.map(|b: crate::bytes::Bytes| b.0));
    let load = |path: &Path| -> Result<Image> {
        let path = env.library().find_input(path);
        Ok(Image::from(&load_picture(&path, &limits)?))
    };
    let start = args.image.as_deref().map(load).transpose()?;
    let end = args.last_image.as_deref().map(load).transpose()?;
    let hears = model.high.net().wants().audio.is_some();
    let usual_frames = match () {
        () if is_5b => 121,
        () if hears => 77,
        () => 81,
    };
    let frames = whole_frames(args.frames.unwrap_or(usual_frames));
    let fps = args.fps.unwrap_or(if is_5b { 24.0 } else { 16.0 });
    let audio = audio(args, &limits, env)?;
    let lacks_audio = hears && audio.is_none();
    if lacks_audio && no_start == NoStart::Refuse {
        return Err(UsageWithHint {
            sentence: format!("{} needs a sound", model.high.name),
            hint: "give one with --audio".to_owned(),
        }
        .into());
    }
    let audio = audio.or_else(|| lacks_audio.then(|| silence(frames as f64 / fps)));
    let follow = follow::wanted(args, model, frames, &limits, env)?;
    let camera = args.camera.map(|camera| {
        let speed = args.camera_speed.unwrap_or(1.0);
        (motion(camera), speed)
    });
    let is_shown = start.is_some() || end.is_some() || follow.is_some() || camera.is_some();
    let lacks_start = model.high.sees_frames() && !is_shown;
    if lacks_start && no_start == NoStart::Refuse {
        return Err(UsageWithHint {
            sentence: format!("{} needs a first frame", model.high.name),
            hint: "give one with --image".to_owned(),
        }
        .into());
    }
    let shown = start
        .as_ref()
        .or(follow.as_ref().and_then(|f| f.frames.first()));
    // The start picture's shape, at about as many pixels as the model was trained on.
    let usual = if is_5b { (1280, 704) } else { (832, 480) };
    let (width, height) = match (args.size, shown) {
        (Some(size), _) => (size.width, size.height),
        (None, Some(image)) => shaped_as(image, usual.0 * usual.1),
        (None, None) => usual,
    };
    let multiple = model.vae.kind.scale() * 2;
    let size = ClipSize {
        width: rounded("width", width, multiple),
        height: rounded("height", height, multiple),
        frames,
    };
    let start = start.or_else(|| lacks_start.then(|| black(size)));
    let steps = args.sampling.steps.map_or(defaults.steps, |n| n as usize);
    let switch = args.sampling.switch.map_or(steps / 2, |n| n as usize);
    let sampler = match (&args.sampling.sampler, &model.low) {
        (Some(name), _) => names::sampler(name)?.sampler,
        (None, Some(_)) => SamplerInfo::find("euler")?,
        (None, None) => SamplerInfo::find(defaults.sampler)?,
    };
    let scheduler = match &args.sampling.scheduler {
        Some(name) => names::scheduler(name)?,
        None => Scheduler::find(defaults.scheduler)?,
    };
    let precision = precision_of(args.precision, settings)?;
    let seed = args.sampling.seed.and_then(|s| s.0);
    let request = VideoRequest {
        prompt: args.prompt.join(" "),
        negative: args.negative.clone(),
        seed: Seed {
            value: seed.unwrap_or_else(pictures::new_seed),
            rng: Rng::Torch,
        },
        steps,
        cfg: args.sampling.cfg.map_or(defaults.cfg, |cfg| cfg as f32),
        sampler,
        scheduler,
        switch,
        size,
        start,
        end,
        follow,
        camera,
        audio: audio.map(Arc::new),
        precision,
        preview: None,
        decode: DecodeOptions {
            precision,
            ..DecodeOptions::default()
        },
    };
    Ok(Wanted { request, fps })
}

/// The move that a flag names.
fn motion(camera: CameraArg) -> CameraMove {
    // In the order of the moves.
    CameraMove::ALL[camera as usize]
}

/// Previews, if anyone sees them.
pub(super) fn preview(args: &PreviewArgs, seen: bool, env: &Env) -> Result<Option<Preview>> {
    pictures::preview(args, seen, env)
}

/// A first frame that nobody looks at.
fn black(size: ClipSize) -> Image {
    Image {
        width: size.width,
        height: size.height,
        values: vec![0.0; 3 * size.width * size.height],
    }
}

/// The sound that a flag names.
fn audio(args: &VideoArgs, limits: &Limits, env: &Env) -> Result<Option<Audio>> {
    let Some(path) = &args.audio else {
        return Ok(None);
    };
    let reading = ReadOptions {
        limits: *limits,
        stop: interrupt::stop(),
    };
    Ok(Some(load_audio(&env.library().find_input(path), &reading)?))
}

/// A sound that nobody hears, a second long at least.
fn silence(seconds: f64) -> Audio {
    const RATE: u32 = 16_000;
    Audio {
        rate: RATE,
        channels: 1,
        samples: vec![0.0; (seconds.max(1.0) * f64::from(RATE)) as usize],
    }
}

/// Width and height of so many pixels in the picture's shape.
fn shaped_as(image: &Image, pixels: usize) -> (usize, usize) {
    let aspect = image.width as f64 / image.height.max(1) as f64;
    let height = (pixels as f64 / aspect).sqrt();
    // To the nearest multiple: the sides are rounded down later.
    let near = |side: f64| ((side / 16.0).round() as usize).max(1) * 16;
    (near(height * aspect), near(height))
}

/// A token of the transformer is two latent pixels wide.
fn rounded(what: &str, pixels: usize, multiple: usize) -> usize {
    let whole = (pixels / multiple).max(1) * multiple;
    if whole != pixels {
        printer::note(&format!(
            "a {what} of {pixels} becomes {whole}, a multiple of {multiple}"
        ));
    }
    whole
}

/// 1 and a multiple of 4.
fn whole_frames(frames: usize) -> usize {
    let whole = (frames.max(1) - 1) / TIME * TIME + 1;
    if whole != frames {
        printer::note(&format!(
            "{frames} frames become {whole}, a multiple of {TIME} plus 1"
        ));
    }
    whole
}
