//! `nino video`: words and pictures to clips.

mod between;
mod fitting;
mod follow;
mod from;
mod metadata;
pub(crate) mod model;
mod output;
mod report;
mod request;

use crate::args::VideoArgs;
use crate::device::{self, Choice};
use crate::env::Env;
use crate::generate::{Graphics, Screen};
use crate::interrupt;
use crate::printer::{self, Printer};
use anyhow::{Context, Result};
pub(crate) use fitting::planned;
pub(crate) use model::open_or_spec;
use nino_engine::{Control, Event, VideoModel, VideoRequest, make_video};
use output::{Clip, Output};
use report::Report;
pub(crate) use request::{NoStart, wanted};
use std::time::Instant;

pub(crate) fn run(args: &VideoArgs, env: &Env, printer: Printer) -> Result<()> {
    let started = Instant::now();
    let line: Vec<_> = std::env::args_os().collect();
    let from::Wanted {
        args: repeated,
        flags,
    } = from::wanted(args, &line)?;
    let args = repeated.as_deref().unwrap_or(args);
    let choice = Choice::with_profile(&args.device, &args.profile, env)?;
    if args.model.model.is_none() {
        return between::run(args, &choice, env, printer);
    }
    let model = model::open(&args.model, &args.sampling, &choice, env)?;
    let mut wanted = wanted(args, &model, &choice, NoStart::Refuse, env)?;
    let output = Output::new(args, &model, &wanted)?;
    let opened = device::open(&choice)?;
    let text_device = device::open_for_text(&choice, &args.text, &opened)?;
    let graphics = Graphics::of(env).filter(|_| !args.preview.no_preview);
    let mut screen = Screen::new(printer, graphics, args.preview.preview.clone());
    wanted.request.preview = request::preview(&args.preview, screen.shows_previews(), env)?;
    let store = device::store(&opened, text_device.as_ref(), 1);
    let plan = planned(&opened, &store, &model, &mut wanted, args.fit)?;
    let settings = settings(&model, &wanted.request);
    let journal = output.journal(args, &settings)?;
    if let Some(journal) = journal.as_ref().filter(|_| args.resume) {
        let n = journal.predictions();
        printer::note(&format!(
            "resuming after {}",
            crate::plural::count(n, "step")
        ));
    }
    let text = if args.no_metadata {
        Vec::new()
    } else {
        metadata::text(args, &flags, &model, &wanted)
    };
    let mut clip = Clip::new(&output, &wanted, text);
    let mut on_event = |event: Event| screen.hear(event);
    let mut control = Control {
        cancel: interrupt::flag(),
        on_event: &mut on_event,
    };
    let made = make_video(
        &store,
        &model,
        &wanted.request,
        journal.as_ref(),
        &mut control,
        &mut |_, _, picture| clip.take(&picture),
    );
    let made = made.with_context(|| output.told(journal.is_some()))?;
    clip.finish()?;
    output.done();
    screen.close();
    let report = Report::new(&output, &model, &wanted, &made, &plan, started.elapsed());
    printer.files(std::slice::from_ref(&output.path), &report)
}

/// All that a clip hangs on, as a text: a journal of other settings is not gone on with.
fn settings(model: &VideoModel, request: &VideoRequest) -> String {
    let weights = model.identity();
    let sum = |values: &[f32]| {
        let bytes = values.iter().map(|v| u64::from(v.to_bits()));
        bytes.fold(1u64, |sum, v| sum.wrapping_mul(0x0100_0000_01b3) ^ v)
    };
    let image = |image: &Option<nino_engine::Image>| image.as_ref().map(|i| sum(&i.values));
    let followed = request.follow.as_ref().map(|f| {
        let frames = f.frames.iter().chain(&f.reference);
        let frames: Vec<u64> = frames.map(|i| sum(&i.values)).collect();
        let masks: Vec<u64> = f.masks.iter().map(|m| sum(&m.values)).collect();
        (frames, masks, f.strength.to_bits())
    });
    let audio = request.audio.as_ref();
    let audio = audio.map(|audio| (audio.rate, audio.channels, sum(&audio.samples)));
    format!(
        "{weights} {followed:?} {audio:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {} {} {} {:?} {} {:?} {:?} {:?} {:?} {:?}",
        request.camera,
        model.high.skipped_layers(),
        model.high.corrections,
        model.high.step_reuse(),
        request.prompt,
        request.negative,
        request.seed,
        request.steps,
        request.cfg,
        request.sampler.name,
        request.scheduler,
        request.switch,
        request.size,
        request.precision,
        image(&request.start),
        image(&request.end),
        model.high.sampling.percent_to_sigma(0.5),
    )
}
