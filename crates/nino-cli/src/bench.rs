//! `nino bench ops`: how fast each op is on one device, against what that device can do at best.
//! Benches of whole models are beside it.

mod compare;
mod decode;
mod generate;
mod head;
mod op_rows;
mod report;
#[cfg(test)]
mod tests;
mod timing;

use crate::args::{BenchOpsArgs, VerbFlags};
use crate::device::{self, Choice, Opened};
use crate::env::Env;
use crate::failure::{self, Failure, Told, Usage};
use crate::interrupt;
use crate::printer::{self, Bar, Printer};
use anyhow::{Context, Result};
pub(crate) use compare::run as compare;
pub(crate) use decode::{run as decode, suite};
pub(crate) use generate::run as generate;
use nino_suite::bench::{self, SHAPES, Shape};
use report::{Report, Row};
use serde::Serialize;
use std::time::Duration;

/// A card that was idle is slow for its first milliseconds.
const WARM_UP: Duration = Duration::from_millis(300);

pub(crate) fn ops(args: &BenchOpsArgs, env: &Env, printer: Printer) -> Result<()> {
    let choice = Choice::new(&args.device, env)?;
    let shapes = chosen(args.filter.as_deref())?;
    let opened = device::open(&choice)?;
    let bar = printer.progress(shapes.len() as u64 + 1);
    bar.set_message("measuring the device's peak rates");
    let ceiling = opened.ceiling()?;
    bar.inc(1);
    let mut report = Report::new(&opened, ceiling);
    bar.suspend(|| printer.text(report.heading()))?;
    let errors = each(
        &shapes,
        &bar,
        |shape| shape.label(),
        |shape| one(shape, &opened, args),
        |row| {
            report.rows.push(Row::new(&row, &opened, ceiling));
            Ok(())
        },
    )?;
    report.failures = sentences(&errors);
    let table = report.table();
    finish(&report, table, report.rows.is_empty(), errors, printer)
}

/// Measures every case and keeps its row. Gives what went wrong; an error that ends all work is the
/// last.
fn each<T, R>(
    cases: &[T],
    bar: &Bar,
    name: impl Fn(&T) -> String,
    mut one: impl FnMut(&T) -> Result<R>,
    mut keep: impl FnMut(R) -> Result<()>,
) -> Result<Vec<anyhow::Error>> {
    let mut errors = Vec::new();
    for case in cases {
        bar.set_message(name(case));
        match one(case) {
            Ok(row) => keep(row)?,
            Err(e) => {
                let over = failure::ends_work(&e);
                errors.push(e);
                if over {
                    break;
                }
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(errors)
}

fn sentences(errors: &[anyhow::Error]) -> Vec<String> {
    errors.iter().map(|e| format!("{e:#}")).collect()
}

fn one(shape: &Shape, opened: &Opened, args: &BenchOpsArgs) -> Result<bench::Row> {
    interrupt::check()?;
    let dtype = crate::decode::precision(args.precision).dtype(&*opened.device);
    let row = bench::measure(&*opened.device, shape, dtype, args.runs as usize, WARM_UP);
    row.with_context(|| format!("{} on {}", shape.label(), opened.name))
}

/// What was measured is printed even when something went wrong on the way.
fn finish(
    report: &impl Serialize,
    table: String,
    empty: bool,
    errors: Vec<anyhow::Error>,
    printer: Printer,
) -> Result<()> {
    let mut errors = errors.into_iter();
    let Some(first) = errors.next() else {
        printer.text(table)?;
        return printer.document(report);
    };
    if empty {
        return Err(first);
    }
    printer.text(table)?;
    printer.document(report)?;
    let code = failure::exit_code(&first);
    let line: Vec<_> = std::env::args_os().collect();
    let verb = VerbFlags::of_line(&line);
    for error in std::iter::once(first).chain(errors) {
        printer::failure(false, &Failure::of(&error, &verb));
    }
    Err(Told(code).into())
}

fn chosen(filter: Option<&str>) -> Result<Vec<&'static Shape>, Usage> {
    let filter = filter.unwrap_or_default();
    let found: Vec<&Shape> = SHAPES
        .iter()
        .filter(|s| s.label().contains(filter))
        .collect();
    if found.is_empty() {
        let labels: Vec<String> = SHAPES.iter().map(Shape::label).collect();
        let text = format!(
            "no op matches --filter {filter:?}; there are: {}",
            labels.join("; ")
        );
        return Err(Usage(text));
    }
    Ok(found)
}
