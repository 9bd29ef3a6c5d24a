//! `nino replay`: captured stages run again, and how far each is from what it was.

use crate::args::ReplayArgs;
use crate::device::{self, Choice};
use crate::env::Env;
use crate::failure::{Told, Usage};
use crate::interrupt;
use crate::printer::{self, Printer};
use crate::table::{Align, Table};
use anyhow::{Context, Result};
use nino_engine::capture::{self, Replayed};
use nino_engine::{Control, EngineError, ErrorKind, Store};
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Serialize)]
struct Document {
    device: String,
    limit: f64,
    stages: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    capture: PathBuf,
    stage: String,
    file: String,
    nmse: f64,
    largest: f32,
    same: bool,
}

pub(crate) fn run(args: &ReplayArgs, env: &Env, printer: Printer) -> Result<()> {
    let files = captures(&args.path)?;
    let opened = device::open(&Choice::new(&args.device, env)?)?;
    let store = Store::new(opened.device.clone());
    let mut control = Control {
        cancel: interrupt::flag(),
        on_event: &mut |_| {},
    };
    let mut stages = Vec::new();
    for path in files {
        match capture::replay(&store, &path, &mut control) {
            Ok(again) => stages.push(row(path, again, args.limit)),
            Err(error @ EngineError::CannotReplay { .. }) => printer::note(&error.to_string()),
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error.into()),
            Err(error) => return Err(error).with_context(|| path.display().to_string()),
        }
    }
    let document = Document {
        device: opened.name.to_string(),
        limit: args.limit,
        stages,
    };
    printer.text(table(&document))?;
    printer.document(&document)?;
    if document.stages.iter().any(|row| !row.same) {
        return Err(Told(1).into());
    }
    Ok(())
}

fn row(capture: PathBuf, again: Replayed, limit: f64) -> Row {
    Row {
        capture,
        same: again.nmse <= limit,
        stage: again.stage,
        file: again.file,
        nmse: again.nmse,
        largest: again.largest,
    }
}

/// The file, or all captures of a folder in the order they were made.
fn captures(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let entries = path
        .read_dir()
        .with_context(|| path.display().to_string())?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|file| file.extension().is_some_and(|e| e == "safetensors"))
        .collect();
    files.sort();
    if files.is_empty() {
        let text = format!("{} contains no captured stage", path.display());
        return Err(Usage(text).into());
    }
    Ok(files)
}

fn table(document: &Document) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("capture", Left),
        ("stage", Left),
        ("NMSE", Right),
        ("largest", Right),
        ("", Left),
    ]);
    for row in &document.stages {
        let name = row.capture.file_name().unwrap_or(row.capture.as_os_str());
        table.push(vec![
            name.to_string_lossy().into_owned(),
            row.stage.clone(),
            format!("{:.1e}", row.nmse),
            format!("{:.1e}", row.largest),
            if row.same { "same" } else { "differs" }.to_owned(),
        ]);
    }
    table.render()
}
