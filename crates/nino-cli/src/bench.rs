//! `nino bench ops`: how fast each op is on one device, against what that device can do at best.

mod report;
#[cfg(test)]
mod tests;

use crate::args::BenchOpsArgs;
use crate::device::{self, Choice};
use crate::env::Env;
use crate::failure::Usage;
use crate::interrupt;
use crate::printer::Printer;
use anyhow::{Context, Result};
use nino_suite::bench::{SHAPES, Shape, measure};
use report::{Report, Row};
use std::time::Duration;

/// A card that was idle is slow for its first milliseconds.
const WARM_UP: Duration = Duration::from_millis(300);

pub(crate) fn ops(args: &BenchOpsArgs, env: &Env, printer: Printer) -> Result<()> {
    let choice = Choice::new(&args.device, env)?;
    let shapes = chosen(args.filter.as_deref())?;
    let opened = device::open(&choice)?;
    let bar = printer.progress(shapes.len() as u64 + 1);
    bar.set_message("measuring what the device can do at best");
    let ceiling = opened.ceiling()?;
    bar.inc(1);
    let mut report = Report::new(&opened, ceiling);
    printer.text(report.heading())?;
    for shape in shapes {
        interrupt::check()?;
        bar.set_message(shape.label());
        let row = measure(
            &*opened.device,
            shape,
            opened.device.activation_dtype(),
            args.runs as usize,
            WARM_UP,
        )
        .with_context(|| format!("{} on {}", shape.label(), opened.name))?;
        report.rows.push(Row::new(&row, &opened, ceiling));
        bar.inc(1);
    }
    bar.finish_and_clear();
    printer.text(report.table())?;
    printer.document(&report)
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
