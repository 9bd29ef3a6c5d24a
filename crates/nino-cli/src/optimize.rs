//! `nino optimize`: options tried one at a time and then together; those stay that keep a picture
//! like the one in f32 and take less time or memory.

mod choose;
mod report;
mod trial;

use crate::args::OptimizeArgs;
use crate::device::{self, Choice};
use crate::env::Env;
use crate::generate::model::file_of;
use crate::interrupt;
use crate::printer::Printer;
use anyhow::{Context, Result};
use choose::{combined, worth_it};
use nino_engine::{BUILTIN, Checkpoint, Control, ErrorKind, GenerateRequest, ModelKind};
use report::{Document, Row};
use std::path::Path;
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
        .with_context(|| format!("{} cannot be made", args.output.display()))?;
    let options = Setting::all(&model, request.steps);
    let bar = printer.progress(options.len() as u64 + 2);
    let bench = Bench {
        device: opened.device.clone(),
        model: &model,
        request: &request,
        runs: args.runs as usize,
    };
    let mut control = Control {
        cancel: interrupt::flag(),
        on_event: &mut |_| {},
    };
    bar.set_message("the picture in f32".to_owned());
    let base = bench.run(&[Setting::Precision("fp32")], None, &mut control)?;
    let mut rows = vec![Row::new("base", &base, &args.output)?];
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
                rows.push(Row::new(&option.name(), &tried, &args.output)?.kept(is_kept));
                if is_kept {
                    kept.push(tried.of(option));
                }
            }
            // What a device cannot do is no option there.
            Err(error) if error.kind() == ErrorKind::Unsupported => {}
            Err(error) => return Err(error.into()),
        }
    }
    bar.set_message("what was kept, together".to_owned());
    let best = combined(kept, args.min_psnr, |settings| {
        bench.run(settings, Some(&base), &mut control)
    })?;
    if let Some((settings, tried)) = &best {
        let names: Vec<String> = settings.iter().map(Setting::name).collect();
        rows.push(Row::new(&names.join(" + "), tried, &args.output)?.kept(true));
    }
    bar.finish_and_clear();
    let settings = best.map_or_else(Vec::new, |(settings, _)| settings);
    let document = Document {
        model: model.name().to_owned(),
        device: opened.name.to_string(),
        min_psnr: args.min_psnr,
        runs: args.runs as usize,
        settings: settings.iter().map(Setting::line).collect(),
        rows,
    };
    document.write(&args.output)?;
    printer.text(document.text(&args.output))?;
    printer.document(&document)
}
