//! `nino convert`: the same model in another encoding.

use crate::args::ConvertArgs;
use crate::bytes::Bytes;
use crate::env::Env;
use crate::failure::{Interrupted, Usage};
use crate::interrupt;
use crate::naming::make_folder_of;
use crate::overwrite::Guard;
use crate::plural::count;
use crate::printer::Printer;
use crate::stdout;
use crate::table::{Align, Table};
use crate::visible::Visible;
use anyhow::{Context, Result};
use nino_engine::ModelKind;
use nino_weights::convert::{self, Options, Problem, Report};
use nino_weights::{Error, TensorReader};
use serde::Serialize;
use std::time::Instant;

/// Fallbacks listed in the text report; `--json` has all of them.
const SHOWN: usize = 8;

#[derive(Serialize)]
struct Document<'a> {
    input: String,
    output: String,
    seconds: f64,
    #[serde(flatten)]
    report: &'a Report,
}

pub(crate) fn run(args: &ConvertArgs, env: &Env, printer: Printer) -> Result<()> {
    let input = env.library().resolve(ModelKind::ALL, &args.input)?;
    let reader = nino_weights::open(&input)?;
    let guard = Guard {
        inputs: vec![("the input", input)],
        force: args.force,
    };
    if stdout::is_meant(&args.output) {
        let text = "convert writes a file whose extension sets the format: name one that ends in \
                    .gguf or .safetensors";
        return Err(Usage(text.to_owned()).into());
    }
    guard.check(&args.output)?;
    make_folder_of(&args.output)?;
    let architecture = match nino_models::detect::detect(reader.index()) {
        Ok(report) => report.gguf_architecture(),
        // Converting needs no name for what it converts.
        Err(_) => "unknown",
    };
    let options = Options {
        dtype: args.dtype,
        keep: args.keep.clone(),
        architecture: architecture.to_owned(),
    };
    let threads = usize::from(args.threads.unwrap_or(0));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    let started = Instant::now();
    let report = pool
        .context("cannot start threads")?
        .install(|| convert(&reader, args, &options, printer))?;
    let seconds = started.elapsed().as_secs_f64();
    printer.text(text(&report, seconds))?;
    printer.document(&Document {
        input: args.input.display().to_string(),
        output: args.output.display().to_string(),
        seconds,
        report: &report,
    })
}

fn convert(
    reader: &TensorReader,
    args: &ConvertArgs,
    options: &Options,
    printer: Printer,
) -> Result<Report> {
    let bar = printer.progress(reader.index().n_bytes() >> 20);
    bar.begin("convert");
    let result = convert::convert(reader, &args.output, options, |p| {
        bar.set_position(p.done >> 20);
        bar.set_message(format!("MiB  {}", Visible(p.tensor)));
        interrupt::check().is_ok()
    });
    bar.finish_and_clear();
    result.map_err(|error| match error {
        Error::Convert {
            reason: Problem::Cancelled,
            ..
        } => Interrupted.into(),
        Error::Convert {
            reason: problem @ (Problem::Extension
                | Problem::NoEncoder { .. }
                | Problem::NotInFormat { .. }),
            ..
        } => Usage(format!("{}: {problem}", args.output.display())).into(),
        error => error.into(),
    })
}

fn text(report: &Report, seconds: f64) -> String {
    let mut table = Table::new(&[
        ("encoding", Align::Left),
        ("tensors", Align::Right),
        ("before", Align::Right),
        ("after", Align::Right),
        ("rmse", Align::Right),
        ("relative", Align::Right),
        ("worst tensor", Align::Left),
    ]);
    for e in &report.encodings {
        let worst = e.worst.as_ref().map_or(String::new(), |w| {
            format!("{} ({:.2}%)", w.tensor, 100.0 * w.relative_rmse)
        });
        table.push(vec![
            e.dtype.to_string(),
            e.tensors.to_string(),
            Bytes(e.bytes_before).to_string(),
            Bytes(e.bytes_after).to_string(),
            format!("{:.2e}", e.rmse),
            format!("{:.2}%", 100.0 * e.relative_rmse),
            worst,
        ]);
    }
    let mut lines = vec![table.render(), String::new()];
    let (before, after) = (report.file_bytes_before, report.file_bytes_after);
    let share = 100.0 * after as f64 / before.max(1) as f64;
    lines.push(format!(
        "{} -> {} ({share:.1}%) in {seconds:.1} s",
        Bytes(before),
        Bytes(after)
    ));
    for f in report.fallbacks.iter().take(SHOWN) {
        let (wanted, written) = (f.wanted, f.written);
        lines.push(format!(
            "{written} instead of {wanted}: {} {:?}",
            f.tensor, f.shape
        ));
    }
    if report.fallbacks.len() > SHOWN {
        let more = report.fallbacks.len() - SHOWN;
        lines.push(format!(
            "and {more} more whose rows are not whole blocks; --json lists them"
        ));
    }
    if report.not_finite > 0 {
        let n = report.not_finite;
        lines.push(format!(
            "warning: NaN or infinite in the source: {}",
            count(n as usize, "value")
        ));
    }
    lines.join("\n")
}
