//! `nino generate`: a prompt to a picture.

mod metadata;
mod model;
mod output;
mod report;
mod request;
#[cfg(test)]
mod tests;
mod tips;

use crate::args::GenerateArgs;
use crate::decode::{device_text, show};
use crate::device::{self, Choice};
use crate::env::Env;
use crate::interrupt;
use crate::printer::{self, Printer};
use anyhow::{Context, Result};
use nino_engine::{Control, Event};
use report::Report;
use std::collections::BTreeMap;
use std::time::Instant;

pub(crate) fn run(args: &GenerateArgs, env: &Env, printer: Printer) -> Result<()> {
    let started = Instant::now();
    let choice = Choice::new(&args.device, env)?;
    let model = model::open(&args.model, &choice)?;
    let request = request::request(args, &model)?;
    for tip in tips::tips(&request, &model) {
        printer::note(&format!("tip: {tip}"));
    }
    let output = output::path(args, &request);
    let opened = device::open(&choice)?;
    let bar = printer.progress(request.steps as u64);
    let mut on_event = |event: Event| show(&bar, event);
    let mut control = Control {
        cancel: interrupt::flag(),
        on_event: &mut on_event,
    };
    let rescue = output.with_extension("latent");
    let latent_file = args.save_latent.as_deref().unwrap_or(&rescue);
    let format = BTreeMap::from([("prompt".to_owned(), request.prompt.clone())]);
    let made = nino_engine::generate(
        &*opened.device,
        &model,
        &request,
        &mut control,
        &mut |latent| latent.save(latent_file, &format),
    );
    let made = made.with_context(|| output::rescued(latent_file))?;
    let text = metadata::text(&request, &model, &device_text(&opened));
    let files =
        output::write(&output, &made, &text).with_context(|| output::rescued(latent_file))?;
    if args.save_latent.is_none() {
        // It served its purpose; one that cannot be removed does no harm.
        let _ = std::fs::remove_file(&rescue);
    }
    bar.finish_and_clear();
    let report = Report::new(
        &request,
        &model,
        &made,
        files,
        device_text(&opened),
        started,
    );
    printer.text(&report)?;
    printer.document(&report)
}
