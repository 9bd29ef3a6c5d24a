//! `nino generate`: prompts to pictures.

mod control;
mod from;
mod graph;
mod graphics;
mod ineffective;
mod jobs;
mod metadata;
pub(crate) mod model;
mod model_hash;
pub(crate) mod names;
mod output;
pub(crate) mod planned;
mod prompts;
mod report;
pub(crate) mod request;
pub(crate) mod rescue;
mod screen;
mod start;
mod style;
#[cfg(test)]
mod tests;
mod tips;

use crate::args::GenerateArgs;
use crate::decode::device_text;
use crate::device::{self, Choice, Opened};
use crate::env::Env;
use crate::interrupt;
use crate::measured;
use crate::naming::Words;
use crate::printer::{self, Printer};
use anyhow::{Context, Result};
use from::Wanted;
pub(crate) use from::{Flags, Repeated};
pub(crate) use graph::{find_for_graph, quantize as quantize_of};
pub(crate) use graphics::Graphics;
use jobs::Job;
use metadata::Origin;
pub(crate) use metadata::{Graph, Input, Link, at, reusing, value, workflow};
use model_hash::ModelHash;
use nino_engine::{Control, Event, GenerateRequest, Generated, Seed, Store};
use output::Outputs;
use report::Report;
use rescue::{About, Rescue};
pub(crate) use screen::Screen;
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
    let mut choice = Choice::with_profile(&args.device, &args.profile, env)?;
    let mut early = None;
    if choice.settings.wants_measured() {
        let opened = device::open(&choice)?;
        choice = measured::adapted(choice, args, &opened, env)?;
        early = Some(opened);
    }
    let model = model::open(&args.model, &choice, env)?;
    let mut jobs = jobs::read(args, model, &choice, &flags, env)?;
    let (first, count) = (&jobs[0], args.count as usize);
    let model_hash = ModelHash::start(&first.model.path, env.cache_dir.as_deref());
    let tips = tips::tips(&first.request, &first.model, args);
    let batch = choice.settings.batch_tip(first.request.batch);
    tips.iter().chain(&batch).for_each(|tip| printer::tip(tip));
    let guard = jobs::guard(args, Some(&first.model), env);
    let outputs = Outputs::new(args, &choice.settings, jobs.len(), guard)?;
    outputs.check(printer.json)?;
    let opened = early.map_or_else(|| device::open(&choice), Ok)?;
    let text = device::open_for_text(&choice, &args.text, &opened)?;
    let graphics = Graphics::of(env).filter(|_| !args.preview.no_preview);
    let mut screen = Screen::new(printer, graphics, args.preview.preview.clone());
    let ineffective = ineffective::notes(args, &first.model, screen.shows_previews());
    ineffective.iter().for_each(|note| printer::note(note));
    let preview = request::preview(&args.preview, screen.shows_previews(), env)?;
    let total = jobs.len() * count;
    // Weights that fit beside each other stay for the next picture.
    let store = device::store(&opened, text.as_ref(), total);
    jobs::fill_batch(args, &mut jobs, &store)?;
    jobs::plan(&jobs, &store, preview.as_ref())?;
    let first = &jobs[0];
    let maker = Maker {
        args,
        outputs: &outputs,
        opened: &opened,
        store: &store,
        model_hash: &model_hash,
    };
    let mut report = Report::new(&first.request, &first.model, &opened);
    for i in 0..total {
        screen.next(i, total);
        let job = &jobs[i / count];
        let mut request = seeded(&job.request, i % count);
        request.preview.clone_from(&preview);
        let made = maker.make(job, &request, i, &mut screen);
        let (made, files) = match total {
            1 => made?,
            _ => made.with_context(|| format!("image {} of {total}", i + 1))?,
        };
        report.add(&request, &made, files);
        if let Some(picture) = made.pictures.last() {
            screen.finished(picture);
        }
    }
    screen.close();
    report.close(started.elapsed());
    if outputs.is_stdout() {
        return Ok(());
    }
    printer.files(report.files(), &report)
}

/// The request of picture `i` of a prompt: the same with the seed `i` higher.
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
    outputs: &'a Outputs<'a>,
    opened: &'a Opened,
    store: &'a Store,
    model_hash: &'a ModelHash,
}

impl Maker<'_> {
    /// Makes picture `i` of all.
    fn make(
        &self,
        job: &Job,
        request: &GenerateRequest,
        i: usize,
        screen: &mut Screen,
    ) -> Result<(Generated, Vec<PathBuf>)> {
        let model = &job.model;
        let words = Words {
            prompt: &request.prompt,
            seed: request.seed.value,
            model: model.name(),
        };
        let output = self.outputs.place(words, i)?;
        let about = About {
            args: self.args,
            model,
            request,
        };
        let mut rescue = Rescue::new(about, self.outputs.latent(i), &output);
        let mut on_event = |event: Event| screen.hear(event);
        let mut control = Control {
            cancel: interrupt::flag(),
            on_event: &mut on_event,
        };
        let made = nino_engine::generate(self.store, model, request, &mut control, &mut |latent| {
            rescue.keep(latent)
        });
        let made = made.with_context(|| rescue.told())?;
        let origin = Origin {
            flags: &job.flags,
            files: &self.args.model,
            loras: &job.loras,
            model,
            model_hash: self.model_hash.wait(),
            device: &device_text(self.opened),
            clip_skip: request.clip_skip,
        };
        let text = metadata::text(request, &origin);
        let files = self.outputs.write(&output, &made, &text);
        let files = files.with_context(|| rescue.told())?;
        rescue.done();
        for file in files.iter().filter(|_| !self.outputs.is_stdout()) {
            let seed = request.seed.value;
            printer::event(&serde_json::json!({ "event": "picture", "file": file, "seed": seed }));
        }
        Ok((made, files))
    }
}
