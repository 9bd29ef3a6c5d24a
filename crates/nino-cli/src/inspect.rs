//! `nino inspect`: what a file is. A picture tells how it was made, a workflow what it wants, a
//! model file what is in it.

mod embedding;
mod graph;
mod latent;
mod model;
mod picture;
mod print;
mod workflow;

use crate::args::InspectArgs;
use crate::env::Env;
use crate::generate::model::file_of;
use crate::printer::Printer;
use anyhow::Result;
use nino_engine::ModelKind;
use nino_engine::media::{Limits, picture_info};
use std::path::Path;

pub(crate) fn run(args: &InspectArgs, env: &Env, printer: Printer) -> Result<()> {
    let path = file_of(ModelKind::ALL, &args.path, env)?;
    if !path.is_dir() {
        if let Some(info) = picture_info(&path, &Limits::default())? {
            return picture::run(&path, info, env, printer);
        }
        if is_workflow(&path) {
            return workflow::run(&path, env, printer);
        }
    }
    model::run(&path, args, printer)
}

/// Whether a file's name says that it is a workflow: JSON, and no list of a model's shards.
fn is_workflow(path: &Path) -> bool {
    let has = |path: &Path, extension: &str| {
        let found = path.extension();
        found.is_some_and(|e| e.eq_ignore_ascii_case(extension))
    };
    let shards = path.file_stem().map(Path::new);
    has(path, "json") && !shards.is_some_and(|stem| has(stem, "index"))
}

/// Facts under their names, which make a column. Further lines of a value are set below it.
fn facts(rows: &[(String, String)]) -> String {
    const NAMES: usize = 12;
    let mut text: Vec<String> = Vec::new();
    for (name, value) in rows {
        let mut lines = value.lines();
        let first = lines.next().unwrap_or_default();
        text.push(format!("{name:<NAMES$}{first}").trim_end().to_owned());
        text.extend(lines.map(|line| format!("{:NAMES$}{line}", "")));
    }
    text.join("\n")
}
