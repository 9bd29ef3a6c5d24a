//! `nino bench decode`: the pictures and clips of the specification, decoded with a VAE file or
//! with made-up weights.

mod cases;
mod report;

use super::timing::Timing;
use super::{each, finish, sentences};
use crate::args::{BenchDecodeArgs, BenchSuiteArgs};
use crate::decode::precision;
use crate::device::{self, Choice, Opened};
use crate::env::Env;
use crate::interrupt;
use crate::printer::{self, Printer};
use crate::resident;
use anyhow::{Context, Result};
use cases::{Case, Memory};
use nino_dtype::DType;
use nino_engine::{
    Band, Chunking, Control, DecodeOptions, DecodePlan, Decoder, Latent, Precision, Profile, Store,
    VaeFile, plan_decode,
};
use report::{Quality, Report, Row};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A decode slower than this is not repeated in f32 to judge it.
const QUALITY_LIMIT: Duration = Duration::from_secs(20);

pub(crate) fn run(args: &BenchDecodeArgs, env: &Env, printer: Printer) -> Result<()> {
    let (report, errors) = measured(args, false, env, printer)?;
    let table = report.table();
    finish(&report, table, report.rows.is_empty(), errors, printer)
}

/// The same with sweeps, and documents of what was measured.
pub(crate) fn suite(args: &BenchSuiteArgs, env: &Env, printer: Printer) -> Result<()> {
    let folder = &args.output;
    let made = std::fs::create_dir_all(folder);
    made.with_context(|| format!("cannot create the folder {}", folder.display()))?;
    let (report, errors) = measured(&args.decode, true, env, printer)?;
    let table = report.table();
    if !report.rows.is_empty() {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let name = format!("suite_{}", since.unwrap_or_default().as_secs());
        let document = serde_json::to_string_pretty(&report)?;
        let page = format!(
            "# Decodes\n\n{}\n```text\n{}\n```\n",
            report.heading(),
            table.trim()
        );
        for (extension, text) in [("json", document), ("md", page)] {
            let path = folder.join(format!("{name}.{extension}"));
            nino_files::AtomicFile::replace(&path, text.as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
            printer::note(&format!("wrote {}", path.display()));
        }
    }
    finish(&report, table, report.rows.is_empty(), errors, printer)
}

/// Measures what the arguments ask for; gives the rows and what went wrong.
fn measured(
    args: &BenchDecodeArgs,
    sweeps: bool,
    env: &Env,
    printer: Printer,
) -> Result<(Report, Vec<anyhow::Error>)> {
    let choice = Choice::new(&args.device, env)?;
    let work = cases::chosen(args, sweeps, env)?;
    let opened = device::open(&choice)?;
    let mut report = Report::new(&opened);
    printer.text(report.heading())?;
    let bar = printer.progress(work.len() as u64);
    let errors = each(
        &work,
        &bar,
        |(case, _)| case.name(),
        |(case, vae)| {
            one(case, vae, &opened, args)
                .with_context(|| format!("{} with {} on {}", case.name(), vae.name, opened.name))
        },
        |row| {
            bar.suspend(|| printer.text(row.line()))?;
            report.rows.push(row);
            Ok(())
        },
    )?;
    report.failures = sentences(&errors);
    Ok((report, errors))
}

fn one(case: &Case, vae: &VaeFile, opened: &Opened, args: &BenchDecodeArgs) -> Result<Row> {
    interrupt::check()?;
    // Every case has the device to itself.
    let store = Store::keeping_nothing(opened.device.clone());
    let latent = case.latent(vae)?;
    let mut options = DecodeOptions {
        precision: case.precision.unwrap_or(precision(args.precision)),
        chunking: case.chunk.map_or(Chunking::Auto, Chunking::Frames),
        ..DecodeOptions::default()
    };
    let plan = plan_decode(&store, vae, latent.size(), &options)?;
    let plan = match case.memory {
        Memory::Whole => plan,
        Memory::Quarter => {
            let arena = plan.peak_bytes() - plan.weight_bytes();
            options.budget = Some(plan.weight_bytes() + arena / 4);
            plan_decode(&store, vae, latent.size(), &options)?
        }
    };
    let dtype = plan.dtype;
    resident::reset_peak();
    let (timing, decoder, values) = timed(&store, vae, plan, &latent, args)?;
    let resident = resident::peak();
    let seconds = timing.median_ms / 1e3;
    let quality = match dtype {
        DType::F32 => Quality::Reference,
        _ if args.no_quality => Quality::NotAsked,
        _ if seconds > QUALITY_LIMIT.as_secs_f64() => Quality::TooSlow,
        _ => quality(&store, vae, &latent, &options, &values),
    };
    Ok(Row::new(
        case, vae, &latent, &decoder, timing, quality, resident,
    ))
}

/// A warm-up that is timed apart, then the runs; with the values of the last.
fn timed(
    store: &Store,
    vae: &VaeFile,
    plan: DecodePlan,
    latent: &Latent,
    args: &BenchDecodeArgs,
) -> Result<(Timing, Decoder, Vec<f32>)> {
    let mut on_event = |_| {};
    let mut control = Control {
        cancel: interrupt::flag(),
        on_event: &mut on_event,
    };
    let mut decoder = Decoder::open(store, vae, plan, &mut control)?;
    let mut values = Vec::new();
    let keep = decoder.plan.dtype != DType::F32 && !args.no_quality;
    let mut once = |decoder: &mut Decoder| -> Result<Duration> {
        values.clear();
        let time = decoder.run(latent, &mut control, &mut |band: Band<'_>| {
            if keep {
                values.extend_from_slice(band.values);
            }
            Ok(())
        })?;
        Ok(time)
    };
    let timing = Timing::measure(args.runs, || once(&mut decoder))?;
    if args.profile {
        decoder.profile = Some(Profile::default());
        once(&mut decoder)?;
    }
    Ok((timing, decoder, values))
}

/// The same decode in f32 on the same device, compared.
fn quality(
    store: &Store,
    vae: &VaeFile,
    latent: &Latent,
    options: &DecodeOptions,
    values: &[f32],
) -> Quality {
    let options = DecodeOptions {
        precision: Precision::F32,
        ..*options
    };
    let mut on_event = |_| {};
    let mut control = Control {
        cancel: interrupt::flag(),
        on_event: &mut on_event,
    };
    let mut square = 0.0;
    let mut at = 0;
    let compared = plan_decode(store, vae, latent.size(), &options)
        .and_then(|plan| Decoder::open(store, vae, plan, &mut control))
        .and_then(|mut decoder| {
            decoder.run(latent, &mut control, &mut |band: Band<'_>| {
                let found = &values[at..at + band.values.len()];
                let pairs = found.iter().zip(band.values);
                square += pairs.map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
                at += found.len();
                Ok(())
            })
        });
    match compared {
        Ok(_) => Quality::Psnr(-10.0 * (square / at as f64).log10()),
        Err(e) => Quality::Failed(e.to_string()),
    }
}
