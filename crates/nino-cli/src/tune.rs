//! `nino tune`: which tiles of kernels are fastest on this card, measured and kept.

use crate::args::TuneArgs;
use crate::device::{self, Choice};
use crate::env::Env;
use crate::failure::Interrupted;
use crate::interrupt;
use crate::printer::{self, Printer};
use crate::table::{Align, Table};
use anyhow::Result;
use nino_engine::device::{Tuned, WORKLOADS};
use serde::Serialize;
use std::sync::atomic::Ordering;

#[derive(Serialize)]
struct Document {
    device: String,
    model: String,
    /// Whether the choices are kept for later runs.
    kept: bool,
    problems: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    /// The kernel and the size, rows up to the next power of two first.
    problem: String,
    candidates: usize,
    usual_ms: f64,
    best_ms: f64,
    /// The numbers of the tile; nothing where the usual one is best.
    tile: Option<Vec<u32>>,
}

pub(crate) fn run(args: &TuneArgs, env: &Env, printer: Printer) -> Result<()> {
    let choice = Choice::new(&args.device, env)?;
    let opened = device::open(&choice)?;
    let workloads = if args.workload.is_empty() {
        &WORKLOADS[..]
    } else {
        &args.workload
    };
    let tuning = opened.tuning(workloads)?;
    let bar = printer.progress(tuning.problems().len() as u64);
    let mut all: Vec<Tuned> = Vec::new();
    let mut stopped = false;
    for &problem in tuning.problems() {
        if interrupt::flag().load(Ordering::SeqCst) {
            stopped = true;
            break;
        }
        bar.set_message(problem.to_string());
        all.extend(tuning.measure(problem)?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    // What was measured before a stop is worth keeping, too.
    let document = Document {
        device: opened.name.to_string(),
        model: opened.model.clone(),
        kept: tuning.keep(&all, &choice.device),
        problems: all.iter().map(row).collect(),
    };
    printer.text(text(&document))?;
    printer.document(&document)?;
    if all.is_empty() && !stopped {
        printer::note(
            "there is nothing to tune: the kernels of these networks have no choice of tiles on \
             this device",
        );
    }
    if stopped {
        return Err(Interrupted.into());
    }
    Ok(())
}

fn row(tuned: &Tuned) -> Row {
    Row {
        problem: tuned.problem.to_string(),
        candidates: tuned.timed,
        usual_ms: tuned.usual * 1e3,
        best_ms: tuned.best * 1e3,
        tile: tuned.choice.map(|tile| tile.to_vec()),
    }
}

fn text(document: &Document) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("problem", Left),
        ("timed", Right),
        ("default ms", Right),
        ("best ms", Right),
        ("ratio", Right),
        ("tile", Left),
    ]);
    for row in &document.problems {
        let tile = row.tile.as_ref().map(|tile| {
            // What a kind of tile has no use for is zero, and comes last.
            let used = tile.iter().rposition(|&n| n > 0).map_or(0, |last| last + 1);
            let numbers: Vec<String> = tile[..used].iter().map(u32::to_string).collect();
            numbers.join(" x ")
        });
        table.push(vec![
            row.problem.clone(),
            row.candidates.to_string(),
            format!("{:.3}", row.usual_ms),
            format!("{:.3}", row.best_ms),
            format!("{:.2}", row.best_ms / row.usual_ms),
            tile.unwrap_or_else(|| "default".to_owned()),
        ]);
    }
    let changed = document.problems.iter().filter(|r| r.tile.is_some());
    let kept = if document.kept {
        "kept for this card and driver"
    } else {
        "not kept: there is no cache folder"
    };
    format!(
        "{}  {}\n\n{}\n{} of {} kernels have a faster tile, {kept}.\n",
        document.device,
        document.model,
        table.render(),
        changed.count(),
        document.problems.len(),
    )
}
