//! `nino list`: which models there are, what each is, and whether it fits this device.

pub(crate) mod facts;

use crate::args::{ListArgs, ListKind};
use crate::bytes::Bytes;
use crate::device::{Choice, DeviceName};
use crate::env::Env;
use crate::printer::{self, Printer};
use crate::table::{Align, Table};
use crate::{interrupt, pull};
use anyhow::Result;
use facts::{Facts, What};
use nino_engine::device::{self, Budget, DeviceChoice, HostMemory};
use nino_engine::{BUILTIN, Found, ModelKind, builtin_model};
use rayon::prelude::*;
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Serialize)]
struct Document {
    device: String,
    /// Memory that plans may use; `None` where nothing is known.
    budget_bytes: Option<u64>,
    files: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    /// What a flag takes.
    name: String,
    kind: What,
    /// Which model it is.
    model: String,
    encoding: Option<String>,
    bytes: u64,
    /// Whether nino runs it.
    runs: bool,
    /// Whether its weights are within the budget; `None` where that is not known.
    fits: Option<bool>,
    path: PathBuf,
    place: Place,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    Builtin,
    Folder,
    Download,
}

#[derive(Serialize)]
struct Downloads {
    cache: PathBuf,
    bytes: u64,
    #[serde(rename = "downloads")]
    rows: Vec<DownloadRow>,
}

#[derive(Serialize)]
struct DownloadRow {
    name: String,
    files: Vec<String>,
    bytes: u64,
    /// Of downloads that were not finished.
    unfinished_bytes: u64,
    path: PathBuf,
}

pub(crate) fn run(args: &ListArgs, env: &Env, printer: Printer) -> Result<()> {
    if args.kind == Some(ListKind::Downloads) {
        return downloads(env, printer);
    }
    let choice = Choice::new(&args.device, env)?;
    let (device, budget) = budget(&choice.device);
    let wanted = args.kind.and_then(what);
    let mut rows = rows(env, wanted, budget)?;
    interrupt::check()?;
    rows.retain(|row| wanted.is_none_or(|wanted| row.kind == wanted));
    rows.sort_by(|a, b| (a.kind, &a.name).cmp(&(b.kind, &b.name)));
    printer.text(table(&rows, env))?;
    if let Some(bytes) = budget {
        let within = format!(
            "\nfits: the weights fit in {}, the budget of {device}",
            Bytes(bytes)
        );
        printer.text(within)?;
    }
    if rows.iter().all(|row| row.place == Place::Builtin) {
        printer::note(
            "`nino pull` lists models to download; NINO_MODELS sets folders of your own models",
        );
    }
    printer.document(&Document {
        device,
        budget_bytes: budget,
        files: rows,
    })
}

fn what(kind: ListKind) -> Option<What> {
    match kind {
        ListKind::Models => Some(What::Model),
        ListKind::Vaes => Some(What::Vae),
        ListKind::Encoders => Some(What::Encoder),
        ListKind::Loras => Some(What::Lora),
        ListKind::Embeddings => Some(What::Embedding),
        ListKind::Upscalers => Some(What::Upscaler),
        ListKind::Downloads => None,
    }
}

/// The device that would be used and the memory that plans may use there, without opening it.
fn budget(choice: &DeviceChoice) -> (String, Option<u64>) {
    let wanted = choice.device.unwrap_or(DeviceName::Auto);
    if wanted == DeviceName::Cpu {
        let budget = Budget::host(&HostMemory::read(), choice.budget);
        return (wanted.to_string(), budget.map(|b| b.bytes));
    }
    let all = device::list();
    let named = all.iter().find(|d| d.name == wanted);
    let real = all.iter().find(|d| d.adapter.is_some() && !d.is_software);
    let used = named.or(real).or(all.first());
    let there = used.and_then(|d| d.budget.as_ref()).map(|b| b.bytes);
    let name = used.map_or(wanted.to_string(), |d| format!("{} ({})", d.name, d.model));
    (name, [choice.budget, there].into_iter().flatten().min())
}

fn rows(env: &Env, wanted: Option<What>, budget: Option<u64>) -> Result<Vec<Row>> {
    let kinds = wanted.map_or(ModelKind::ALL, What::kinds);
    let mut found: Vec<(Found, Place)> = Vec::new();
    let cache = env.hf_cache.clone();
    for file in env.library().list(kinds)? {
        let is_download = cache
            .as_ref()
            .is_some_and(|cache| file.path.starts_with(cache));
        let place = if is_download {
            Place::Download
        } else {
            Place::Folder
        };
        found.push((file, place));
    }
    found.extend(builtin(env).map(|file| (file, Place::Builtin)));
    let names = pull::short_names();
    let row = |(file, place): (Found, Place)| {
        let mut facts = facts::of(&file.path);
        if let (What::Other, Some(kind)) = (facts.what, file.kind) {
            facts.what = What::of_folder(kind);
        }
        let short = names.iter().find(|(_, full)| *full == file.name);
        Row {
            name: short.map_or(file.name.clone(), |(short, _)| short.clone()),
            fits: fits(&facts, budget),
            kind: facts.what,
            model: facts.is,
            encoding: facts.encoding,
            bytes: file.size,
            runs: facts.runs,
            path: file.path,
            place,
        }
    };
    // Headers are read side by side: some are on slow disks.
    let rows = found.into_par_iter().map(|found| match interrupt::check() {
        Ok(()) => Some(row(found)),
        Err(_) => None,
    });
    Ok(rows.flatten().collect())
}

fn fits(facts: &Facts, budget: Option<u64>) -> Option<bool> {
    Some(facts.weights? <= budget?).filter(|_| facts.runs)
}

/// The model in the box.
fn builtin(env: &Env) -> Option<Found> {
    let path = builtin_model(env.cache_dir.as_deref()?).ok()?;
    let size = path.metadata().map_or(0, |m| m.len());
    Some(Found {
        name: BUILTIN.to_owned(),
        path,
        kind: Some(ModelKind::Checkpoint),
        size,
    })
}

fn table(rows: &[Row], env: &Env) -> String {
    let columns = [
        ("name", Align::Left),
        ("kind", Align::Left),
        ("model", Align::Left),
        ("encoding", Align::Left),
        ("size", Align::Right),
        ("fits", Align::Left),
        ("where", Align::Left),
    ];
    let mut table = Table::new(&columns);
    for row in rows {
        table.push(vec![
            row.name.clone(),
            row.kind.noun().to_owned(),
            row.model.clone(),
            row.encoding.clone().unwrap_or_default(),
            Bytes(row.bytes).to_string(),
            fit_word(row).to_owned(),
            place(row, env),
        ]);
    }
    table.render()
}

fn fit_word(row: &Row) -> &'static str {
    let is_model = row.kind == What::Model;
    match row.fits {
        Some(true) => "yes",
        Some(false) => "streamed",
        None if is_model && !row.runs => "not run",
        None => "",
    }
}

fn place(row: &Row, env: &Env) -> String {
    match row.place {
        Place::Builtin => "built in".to_owned(),
        Place::Download => "downloads".to_owned(),
        Place::Folder => {
            let folder = row.path.parent().unwrap_or(Path::new("."));
            let home = env
                .home
                .as_deref()
                .and_then(|home| folder.strip_prefix(home).ok());
            match home {
                Some(below) => Path::new("~").join(below).display().to_string(),
                None => folder.display().to_string(),
            }
        }
    }
}

fn downloads(env: &Env, printer: Printer) -> Result<()> {
    let cache = pull::cache(env)?;
    let all = nino_hub::downloads(&cache);
    let columns = [
        ("name", Align::Left),
        ("files", Align::Right),
        ("size", Align::Right),
        ("", Align::Left),
    ];
    let mut table = Table::new(&columns);
    let mut rows = Vec::new();
    for download in all {
        let mut files: Vec<String> = download.files.into_iter().map(|f| f.name).collect();
        files.dedup();
        let unfinished = match download.unfinished {
            0 => String::new(),
            bytes => format!("{} not finished", Bytes(bytes)),
        };
        let (name, n) = (download.repo.to_string(), files.len().to_string());
        table.push(vec![
            name.clone(),
            n,
            Bytes(download.bytes).to_string(),
            unfinished,
        ]);
        rows.push(DownloadRow {
            name,
            files,
            bytes: download.bytes,
            unfinished_bytes: download.unfinished,
            path: download.folder,
        });
    }
    let bytes = rows.iter().map(|row| row.bytes).sum();
    if rows.is_empty() {
        printer.text(format!("no downloads in {}", cache.display()))?;
    } else {
        printer.text(table.render())?;
        printer.text(format!("\n{} in {}", Bytes(bytes), cache.display()))?;
    }
    printer.document(&Downloads { cache, bytes, rows })
}
