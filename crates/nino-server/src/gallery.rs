//! The pictures of the output folder, newest first, with what they were made with.

use crate::app::App;
use crate::routes::files::modified;
use nino_engine::media::{Limits, read_text};
use nino_workflow::metadata;
use nino_workflow::summary::Summary;
use serde_json::{Map, Value, json};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Pictures that are listed.
const MOST: usize = 20_000;
const DEEPEST: usize = 4;

/// Words of pictures that were read once, by file and its time.
#[derive(Default)]
pub(crate) struct Words(Mutex<HashMap<PathBuf, (u64, Arc<str>)>>);

struct Shown {
    path: PathBuf,
    subfolder: String,
    filename: String,
    /// Milliseconds since 1970.
    time: u64,
}

/// A page of the gallery: those pictures whose prompt, model or name has all words of `search`.
pub(crate) fn page(app: &App, search: &str, offset: usize, limit: usize) -> Value {
    let mut all = Vec::new();
    collect(&app.folders.output, "", 0, &mut all);
    all.sort_by(|a, b| (b.time, &b.filename).cmp(&(a.time, &a.filename)));
    let search = search.to_lowercase();
    let wanted: Vec<&str> = search.split_whitespace().collect();
    if !wanted.is_empty() {
        all.retain(|shown| {
            let words = words(app, shown);
            wanted.iter().all(|word| words.contains(word))
        });
    }
    let total = all.len();
    let pictures = all.iter().skip(offset).take(limit);
    let pictures = pictures.map(|shown| {
        json!({
            "filename": shown.filename,
            "subfolder": shown.subfolder,
            "type": "output",
            "time": shown.time,
        })
    });
    json!({ "total": total, "offset": offset, "pictures": pictures.collect::<Vec<_>>() })
}

fn collect(folder: &Path, name: &str, depth: usize, all: &mut Vec<Shown>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (Ok(kind), Ok(file)) = (entry.file_type(), entry.file_name().into_string()) else {
            continue;
        };
        if all.len() >= MOST || kind.is_symlink() || file.starts_with('.') {
            continue;
        }
        if kind.is_dir() && depth < DEEPEST {
            let below = if name.is_empty() {
                file
            } else {
                format!("{name}/{file}")
            };
            collect(&entry.path(), &below, depth + 1, all);
        } else if kind.is_file() && crate::pictures::content_type(&file).starts_with("image/") {
            let time = entry.metadata().map_or(0.0, |about| modified(&about));
            all.push(Shown {
                path: entry.path(),
                subfolder: name.to_owned(),
                filename: file,
                time: (time * 1e3) as u64,
            });
        }
    }
}

/// What a search looks in.
fn words(app: &App, shown: &Shown) -> Arc<str> {
    let lock = || app.words.0.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((time, words)) = lock().get(&shown.path)
        && *time == shown.time
    {
        return Arc::clone(words);
    }
    let about = made_with(&shown.path);
    let mut words = format!("{}/{} ", shown.subfolder, shown.filename);
    for key in ["prompt", "negative", "sampler", "seed"] {
        let values = about["settings"][key].as_array().into_iter().flatten();
        for value in values.filter_map(Value::as_str) {
            words.push_str(value);
            words.push(' ');
        }
    }
    for file in about["files"].as_array().into_iter().flatten() {
        words.push_str(file["name"].as_str().unwrap_or_default());
        words.push(' ');
    }
    let words: Arc<str> = words.to_lowercase().into();
    let mut known = lock();
    if known.len() >= MOST {
        known.clear();
    }
    known.insert(shown.path.clone(), (shown.time, Arc::clone(&words)));
    words
}

/// The settings of a picture, by the names of `nino generate`'s flags, its files, and its graph;
/// `null` where it says nothing.
pub(crate) fn made_with(path: &Path) -> Value {
    let keywords = ["prompt", "parameters"];
    let text = read_text(path, &keywords, &Limits::default());
    let Ok(text) = text else { return Value::Null };
    let found = metadata::find(&text.found, &nino_workflow::Limits::default());
    let Ok(Some(found)) = found else {
        return Value::Null;
    };
    let summary = Summary::of(&found.graph);
    let settings = summary.settings.iter();
    let settings = settings.map(|(name, values)| ((*name).to_owned(), json!(values)));
    let files = summary.files.iter().map(|file| {
        json!({
            "name": file.name,
            "folder": file.folder.map(nino_workflow::Folder::name),
            "strength": file.strength,
        })
    });
    json!({
        "settings": settings.collect::<Map<_, _>>(),
        "files": files.collect::<Vec<_>>(),
        "graph": found.graph.to_json(),
    })
}
