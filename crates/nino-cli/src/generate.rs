//! `nino generate`: a prompt to pictures.

mod from;
mod graph;
mod graphics;
mod metadata;
pub(crate) mod model;
mod model_hash;
mod output;
pub(crate) mod planned;
mod report;
mod request;
pub(crate) mod rescue;
mod screen;
mod start;
#[cfg(test)]
mod tests;
mod tips;

use crate::args::GenerateArgs;
use crate::decode::device_text;
use crate::device::{self, Choice, Opened};
use crate::env::Env;
use crate::interrupt;
use crate::printer::{self, Printer};
use anyhow::{Context, Result};
use from::{Flags, Wanted};
pub(crate) use graph::find_for_graph;
use graphics::Graphics;
use metadata::Origin;
use model_hash::ModelHash;
use nino_engine::{
    Checkpoint, Control, Event, GenerateRequest, Generated, ModelKind, Seed, Store, plan_generate,
};
use report::Report;
use rescue::Rescue;
use screen::Screen;
use std::path::PathBuf;
use std::time::Instant;

pub(crate) fn run(args: &GenerateArgs, env: &Env, printer: Printer) -> Result<()> {
    let started = Instant::now();
    let line: Vec<_> = std::env::args_os().collect();
    let (repeated, flags) = match from::wanted(args, &line)? {
        Wanted::Graph { graph, given } => return graph::run(args, graph, &given, env, printer),
        Wanted::Flags { args, flags } => (args, flags),
    };
    let args = repeated.as_deref().unwrap_or(args);
    let choice = Choice::with_profile(&args.device, args.profile, env)?;
    let mut model = model::open(&args.model, &choice, env)?;
    model.diffusion.cfg_rescale = args.sampling.cfg_rescale as f32;
    let mut request = request::request(args, &model, &choice.settings, env)?;
    request.embeddings = env.library().folders(ModelKind::Embedding)?;
    let model_hash = ModelHash::start(&model.path, env.cache_dir.as_deref());
    let tips = tips::tips(&request, &model);
    let batch = choice.settings.batch_tip(request.batch);
    for tip in tips.iter().chain(&batch) {
        printer::note(&format!("tip: {tip}"));
    }
    output::check(args)?;
    let opened = device::open(&choice)?;
    let count = args.count as usize;
    let graphics = Graphics::of(env).filter(|_| !args.preview.no_preview);
    let mut screen = Screen::new(printer, graphics, args.preview.preview.clone());
    request.preview = request::preview(&args.preview, screen.shows_previews(), env)?;
    plan_generate(&opened.device, &model, &request, count)?;
    // Weights that fit beside each other stay for the next picture.
    let store = Store::for_pictures(opened.device.clone(), count);
    let maker = Maker {
        args,
        model: &model,
        opened: &opened,
        store: &store,
        flags: &flags,
        model_hash: &model_hash,
    };
    let mut report = Report::new(&request, &model, device_text(&opened));
    for i in 0..count {
        screen.next(i, count);
        let request = seeded(&request, i);
        let made = maker.make(&request, i, &mut screen);
        let (made, files) = match count {
            1 => made?,
            _ => made.with_context(|| format!("picture {} of {count}", i + 1))?,
        };
        report.add(&request, &made, files);
        if let Some(picture) = made.pictures.last() {
            screen.finished(picture);
        }
    }
    screen.close();
    report.close(started.elapsed());
    printer.text(&report)?;
    printer.document(&report)
}

/// The request of picture `i`: the same with the seed `i` higher.
fn seeded(request: &GenerateRequest, i: usize) -> GenerateRequest {
    GenerateRequest {
        seed: Seed {
            value: request.seed.value.wrapping_add(i as u64),
            ..request.seed
        },
        ..request.clone()
    }
}

/// Makes one picture, or one batch, after the other.
struct Maker<'a> {
    args: &'a GenerateArgs,
    model: &'a Checkpoint,
    opened: &'a Opened,
    store: &'a Store,
    flags: &'a Flags,
    model_hash: &'a ModelHash,
}

impl Maker<'_> {
    fn make(
        &self,
        request: &GenerateRequest,
        i: usize,
        screen: &mut Screen,
    ) -> Result<(Generated, Vec<PathBuf>)> {
        let output = output::path(self.args, &request.prompt, request.seed.value, i);
        let mut rescue = Rescue::new(self.args, self.model, request, (&output, i));
        let mut on_event = |event: Event| screen.hear(event);
        let mut control = Control {
            cancel: interrupt::flag(),
            on_event: &mut on_event,
        };
        let made = nino_engine::generate(
            self.store,
            self.model,
            request,
            &mut control,
            &mut |latent| rescue.keep(latent),
        );
        let made = made.with_context(|| rescue.told())?;
        let origin = Origin {
            flags: self.flags,
            files: &self.args.model,
            model: self.model,
            model_hash: self.model_hash.wait(),
            device: &device_text(self.opened),
            clip_skip: request.clip_skip,
        };
        let text = metadata::text(request, &origin);
        let files = output::write(&output, &made, &text).with_context(|| rescue.told())?;
        rescue.done();
        Ok((made, files))
    }
}
