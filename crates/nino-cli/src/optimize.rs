//! `nino optimize`: options tried one at a time and then together; those stay that keep a picture
//! like the one in f32 and take less time or memory.

mod choose;
mod page;
mod report;
mod trial;

use crate::args::OptimizeArgs;
use crate::device::{self, Choice, Opened};
use crate::env::Env;
use crate::generate::model::file_of;
use crate::interrupt;
use crate::measured::{self, Best, Measured};
use crate::printer::{Bar, Printer};
use anyhow::{Context, Result};
use choose::{combined, why, worth_it};
use nino_engine::{BUILTIN, Checkpoint, Control, ErrorKind, GenerateRequest, ModelKind};
use report::{Document, Row};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};
use trial::{Bench, Setting, Tried};

pub(crate) fn run(args: &OptimizeArgs, env: &Env, printer: Printer) -> Result<()> {
    let choice = Choice::new(&args.device, env)?;
    let name = args.model.as_deref().unwrap_or(Path::new(BUILTIN));
    let model = Checkpoint::open(&file_of(ModelKind::MODELS, name, env)?, None)?;
    let opened = device::open(&choice)?;
    let mut request = GenerateRequest::new(&model, &args.prompt);
    request.steps = args.steps.map_or(request.steps, |n| n as usize);
    if let Some(size) = args.size {
        (request.width, request.height) = (size.width, size.height);
    }
    std::fs::create_dir_all(&args.output)
        .with_context(|| format!("{} cannot be created", args.output.display()))?;
    let bench = Bench {
        device: opened.device.clone(),
        model: &model,
        request: &request,
        runs: args.runs as usize,
    };
    let options = Setting::all(&model, &request);
    let bar = printer.progress(options.len() as u64 + 2);
    let found = tried(&bench, options, args, &bar);
    bar.finish_and_clear();
    let (rows, settings) = found?;
    let document = Document {
        model: model.name().to_owned(),
        prompt: args.prompt.clone(),
        width: request.width,
        height: request.height,
        steps: request.steps,
        device: opened.name.to_string(),
        device_model: opened.model.clone(),
        min_psnr: args.min_psnr,
        runs: args.runs as usize,
        settings,
        rows,
    };
    document.write(&args.output)?;
    keep(&document, &model, &opened, env)?;
    printer.text(document.text(&args.output))?;
    printer.document(&document)
}

/// Tries every option, and what was kept together: a row of each, and the settings that are best.
fn tried(
    bench: &Bench<'_>,
    options: Vec<Setting>,
    args: &OptimizeArgs,
    bar: &Bar,
) -> Result<(Vec<Row>, Vec<Best>)> {
    let mut control = Control {
        cancel: interrupt::flag(),
        on_event: &mut |_| {},
    };
    bar.set_message("the image in f32".to_owned());
    let base = bench.run(&[Setting::Precision("fp32")], None, &mut control)?;
    let mut rows = vec![Row::new("base", &base, None, &args.output)?];
    let mut kept: Vec<Tried> = Vec::new();
    for option in options {
        bar.inc(1);
        bar.set_message(option.name());
        let with = [Setting::Precision("fp32")]
            .into_iter()
            .filter(|base| !base.is_like(&option))
            .chain([option.clone()]);
        let with: Vec<Setting> = with.collect();
        match bench.run(&with, Some(&base), &mut control) {
            Ok(tried) => {
                let is_kept = worth_it(&base, &tried, args.min_psnr);
                let row = Row::new(&option.name(), &tried, Some(&base), &args.output)?;
                rows.push(row.kept(is_kept));
                if is_kept {
                    kept.push(tried.of(option));
                }
            }
            // What a device cannot do is no option there.
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(error.into()),
        }
    }
    bar.inc(1);
    bar.set_message("kept options together".to_owned());
    let alone = kept.clone();
    let best = combined(&base, kept, args.min_psnr, |settings| {
        bench.run(settings, Some(&base), &mut control)
    })?;
    let Some((settings, tried)) = best else {
        return Ok((rows, Vec::new()));
    };
    if settings.len() > 1 {
        let names: Vec<String> = settings.iter().map(Setting::name).collect();
        let row = Row::new(&names.join(" + "), &tried, Some(&base), &args.output)?;
        rows.push(row.kept(true));
    }
    let best = settings.iter().flat_map(|setting| {
        let by_itself = alone.iter().find(|t| t.setting.as_ref() == Some(setting));
        let why = by_itself.map_or_else(String::new, |tried| why(&base, tried));
        let keys = setting.keys().into_iter();
        keys.map(move |(key, value)| Best {
            key: key.to_owned(),
            value,
            why: why.clone(),
        })
    });
    Ok((rows, best.collect()))
}

/// Remembers what is best, for `--profile measured`.
fn keep(document: &Document, model: &Checkpoint, opened: &Opened, env: &Env) -> Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let measured = Measured {
        model: measured::whole(&model.path),
        device: opened.model.clone(),
        time: now.unwrap_or_default().as_secs(),
        runs: document.runs,
        width: document.width,
        height: document.height,
        settings: document.settings.clone(),
    };
    measured.keep(env)
}
