//! Clips without a video model: pictures of the built-in one in between two prompts.

use super::output::{Clip, Output, named};
use crate::args::{ModelArgs, VideoArgs};
use crate::decode::precision_of;
use crate::device::{self, Choice};
use crate::env::Env;
use crate::failure::Usage;
use crate::generate::{Screen, model, names, request as pictures};
use crate::interrupt;
use crate::naming::make_folder_of;
use crate::printer::{self, Printer};
use anyhow::Result;
use nino_engine::media::can_write_video;
use nino_engine::{
    Between, Control, Event, Picture, Rng, SamplerInfo, Scheduler, Seed, Store, make_between,
    plan_between,
};
use serde_json::json;

/// Frames of such a clip, there and back.
const FRAMES: usize = 17;
const FPS: f64 = 8.0;
/// Enough for the built-in model, which is asked for many pictures.
const STEPS: usize = 10;

pub(super) fn run(args: &VideoArgs, choice: &Choice, env: &Env, printer: Printer) -> Result<()> {
    for (flag, given) in [
        ("--image", args.image.is_some()),
        ("--last-image", args.last_image.is_some()),
        ("--resume", args.resume),
    ] {
        if given {
            return Err(Usage(format!("{flag} needs a video model: name one with --model")).into());
        }
    }
    let prompt = args.prompt.join(" ");
    let checkpoint = model::open(&ModelArgs::default(), choice, env)?;
    // Other noise alone gives the same picture nearly; the other style does not.
    let then = args.then.clone();
    let then = then.unwrap_or_else(|| format!("{prompt}, flat"));
    printer::note(&format!(
        "without a video model, {} draws a transition from the prompt to {then:?}, and nothing in \
         it moves; --then sets the second prompt",
        checkpoint.name()
    ));
    let defaults = checkpoint.defaults();
    let seed = args.sampling.seed.and_then(|s| s.0);
    let size = args
        .size
        .map_or((defaults.size, defaults.size), |s| (s.width, s.height));
    // Half of the frames are the others backwards, so that the clip can be repeated.
    let n_frames = args.frames.unwrap_or(FRAMES);
    let n_pictures = n_frames.div_ceil(2).max(1);
    let request = Between {
        prompts: [prompt.clone(), then],
        negative: args.negative.clone(),
        seed: Seed {
            value: seed.unwrap_or_else(pictures::new_seed),
            rng: Rng::Torch,
        },
        n_pictures,
        steps: args.sampling.steps.map_or(STEPS, |n| n as usize),
        cfg: args.sampling.cfg.map_or(defaults.cfg, |cfg| cfg as f32),
        sampler: match &args.sampling.sampler {
            Some(name) => names::sampler(name)?.sampler,
            None => SamplerInfo::find(defaults.sampler)?,
        },
        scheduler: match &args.sampling.scheduler {
            Some(name) => names::scheduler(name)?,
            None => Scheduler::find(defaults.scheduler)?,
        },
        width: pictures::rounded("width", size.0),
        height: pictures::rounded("height", size.1),
        precision: precision_of(args.precision, &choice.settings)?,
        beside: n_pictures * size.0 * size.1 * 3,
    };
    let path = args.output.clone();
    let path = path.unwrap_or_else(|| named(&prompt, request.seed.value));
    let output = Output::at(path);
    make_folder_of(&output.path)?;
    can_write_video(&output.path)?;
    let opened = device::open(choice)?;
    let store = Store::for_pictures(opened.device.clone(), n_pictures);
    plan_between(&store, &checkpoint, &request)?;
    let mut screen = Screen::new(printer, None, None);
    let mut made: Vec<Picture> = Vec::new();
    let mut on_event = |event: Event| {
        if let Event::Pass { index, total } = event {
            screen.next(index, total);
        } else {
            screen.hear(event);
        }
    };
    let mut control = Control {
        cancel: interrupt::flag(),
        on_event: &mut on_event,
    };
    let fps = args.fps.unwrap_or(FPS);
    let mut clip = Clip::of(&output.path, n_frames, fps);
    make_between(
        &store,
        &checkpoint,
        &request,
        &mut control,
        &mut |_, _, picture| {
            clip.take(&picture)?;
            made.push(picture);
            Ok(())
        },
    )?;
    let back = made
        .iter()
        .rev()
        .skip(1)
        .take(n_frames - n_pictures.min(n_frames));
    for picture in back {
        clip.take(picture)?;
    }
    clip.finish()?;
    screen.close();
    let report = Report {
        file: output.path.display().to_string(),
        frames: n_frames,
        seed: request.seed.value,
        fps,
    };
    printer.files(std::slice::from_ref(&output.path), &report)
}

/// What was made.
struct Report {
    file: String,
    frames: usize,
    seed: u64,
    fps: f64,
}

impl serde::Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Report {
            file,
            frames,
            seed,
            fps,
        } = self;
        let model = nino_engine::BUILTIN;
        json!({ "file": file, "model": model, "frames": frames, "seed": seed, "fps": fps })
            .serialize(serializer)
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{}", self.file)?;
        write!(
            f,
            "{} frames at {} per second, seed {}",
            self.frames, self.fps, self.seed
        )
    }
}
