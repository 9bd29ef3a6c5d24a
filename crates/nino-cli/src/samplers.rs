//! `nino samplers`: what there is, and what each is for.

use crate::printer::Printer;
use crate::table::{Align, Table};
use anyhow::Result;
use nino_engine::{Name, SAMPLER_NAMES, SCHEDULER_NAMES};
use serde::Serialize;

#[derive(Serialize)]
struct Document {
    samplers: Vec<Row>,
    schedulers: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    /// What A1111 calls it; `None` where it has no such thing.
    a1111: Option<&'static str>,
    about: &'static str,
}

pub(crate) fn run(printer: Printer) -> Result<()> {
    let document = Document {
        samplers: rows(&SAMPLER_NAMES),
        schedulers: rows(&SCHEDULER_NAMES),
    };
    printer.text(format!(
        "{}\n\n{}\n\nNames of A1111 and stable-diffusion.cpp work too, in upper or lower case: \
         \"DPM++ 2M Karras\"\nis --sampler dpmpp_2m --scheduler karras.",
        table("sampler", &document.samplers),
        table("scheduler", &document.schedulers)
    ))?;
    printer.document(&document)
}

fn rows(names: &[Name]) -> Vec<Row> {
    let row = |n: &Name| Row {
        name: n.name,
        a1111: n.a1111,
        about: n.about,
    };
    names.iter().map(row).collect()
}

fn table(what: &'static str, rows: &[Row]) -> String {
    let mut table = Table::new(&[
        (what, Align::Left),
        ("in A1111", Align::Left),
        ("what it is", Align::Left),
    ]);
    for row in rows {
        let label = row.a1111.unwrap_or("-");
        table.push([row.name, label, row.about].map(str::to_owned).to_vec());
    }
    table.render()
}
