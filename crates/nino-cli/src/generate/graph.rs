//! `nino generate --from` a graph of ComfyUI's: the graph is run as it is, with what the command
//! line says put in where that has one meaning.

mod change;
mod host;
mod planned;
mod report;
mod rescue;
#[cfg(test)]
mod tests;

use super::from::Flags;
use super::graphics::Graphics;
use super::output::Outputs;
use super::screen::Screen;
use super::{jobs, request};
use crate::args::{GenerateArgs, QuantizeArg};
use crate::decode::{device_text, precision_of};
use crate::device::{self, Choice};
use crate::env::Env;
use crate::failure::Usage;
use crate::interrupt;
use crate::printer::Printer;
use crate::settings::Settings as UserSettings;
use anyhow::{Context, Result};
use host::CliHost;
pub(crate) use host::find as find_for_graph;
use nino_engine::DType;
use nino_workflow::{
    Executor, Graph, Limits, NodeError, Progress, RunError, Settings, Watch, check, fill_defaults,
};
pub(crate) use planned::{PlannedGraph, plan, planned};
use report::Report;
use std::time::Instant;

/// Runs a graph with the flags that are given beside it.
pub(super) fn run(
    args: &GenerateArgs,
    mut graph: Graph,
    given: &Flags,
    env: &Env,
    printer: Printer,
) -> Result<()> {
    let started = Instant::now();
    let choice = Choice::with_profile(&args.device, &args.profile, env)?;
    fill_defaults(&mut graph);
    change::apply(&mut graph, given)?;
    if args.save_latent.is_some() {
        change::save_latent(&mut graph)?;
    }
    let count = args.count as usize;
    let first_seed = change::seed(&graph);
    if count > 1 && first_seed.is_none() {
        let text = "--count makes images with seeds N, N+1, ..., and this graph does not have \
                    exactly one seed";
        return Err(Usage(text.to_owned()).into());
    }
    let guard = jobs::guard(args, None, env);
    let outputs = Outputs::new(args, &choice.settings, 1, guard)?;
    outputs.check(printer.json)?;
    let mut host = CliHost::new(&outputs, env);
    let limits = Limits::default();
    // What is wrong is told before a device is opened.
    check(&graph, &host, &limits)?;
    let opened = device::open(&choice)?;
    let text = device::open_for_text(&choice, &args.text, &opened)?;
    let graphics = Graphics::of(env).filter(|_| !args.preview.no_preview);
    let mut screen = Screen::new(printer, graphics, args.preview.preview.clone());
    let settings = Settings {
        precision: precision_of(args.precision, &choice.settings)?,
        quantize: quantize(args.model.quantize, &choice.settings)?,
        preview: request::preview(&args.preview, screen.shows_previews(), env)?,
        limits,
    };
    let store = device::store(&opened, text.as_ref(), count);
    store.reset_peak();
    let mut executor = Executor::new(store, settings);
    for i in 0..count {
        screen.next(i, count);
        if let Some(seed) = first_seed.filter(|_| i > 0) {
            change::set_seed(&mut graph, seed.wrapping_add(i as u64))?;
        }
        let checked = check(&graph, &host, &limits)?;
        host.begin(&graph, i, checked.outputs.len());
        let mut watch = Watch {
            cancel: interrupt::flag(),
            on_event: &mut |event| {
                if let Progress::Engine(event) = event.what {
                    screen.hear(event);
                }
            },
        };
        let ran = executor.run(&checked, &mut host, &mut watch);
        ran.map_err(|error| kept(error, &host, &graph))
            .with_context(|| match count {
                1 => "the graph stopped".to_owned(),
                _ => format!("image {} of {count}", i + 1),
            })?;
    }
    if let Some(picture) = host.last_picture() {
        screen.finished(picture);
    }
    screen.close();
    let report = Report {
        files: host.files(),
        device: device_text(&opened),
        nodes: graph.len(),
        peak_bytes: executor.store().usage().peak_bytes,
        total_ms: started.elapsed().as_secs_f64() * 1e3,
    };
    if outputs.is_stdout() {
        return Ok(());
    }
    printer.files(&report.files, &report)
}

/// How weights are held, as the flag or a setting says.
pub(crate) fn quantize(
    flag: Option<QuantizeArg>,
    settings: &UserSettings,
) -> Result<Option<DType>, Usage> {
    Ok(match settings.choose("quantize", flag)? {
        Some(QuantizeArg::Q8) => Some(DType::Q8_0),
        Some(QuantizeArg::Q4K) => Some(DType::Q4_K),
        Some(QuantizeArg::None) | None => None,
    })
}

/// The error of a run, with where its latent was kept.
fn kept(error: RunError, host: &CliHost<'_>, graph: &Graph) -> anyhow::Error {
    let rescued = host.rescue(graph, error.is_cancelled());
    let error = told(error);
    match rescued {
        None => error,
        Some(Ok(rescued)) => error.context(rescued),
        Some(Err(lost)) => error.context(format!("the sampled latent could not be saved: {lost}")),
    }
}

/// An error of a node, with the engine's own error where it is found: hints and exit codes depend
/// on it.
fn told(error: RunError) -> anyhow::Error {
    let place = format!("node {} ({})", error.node, error.class);
    match *error.source {
        NodeError::Engine(engine) => anyhow::Error::new(engine).context(place),
        other => anyhow::Error::new(other).context(place),
    }
}
