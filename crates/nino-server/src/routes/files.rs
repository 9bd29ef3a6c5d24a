//! Model files by ComfyUI's folders.

use super::{blocking, unpacking};
use crate::app::App;
use crate::error::Refused;
use crate::models::Models;
use crate::{folders, pictures};
use axum::Json;
use axum::extract::{Path, Query, State};
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use nino_engine::media::{Limits, load_picture};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::fs::Metadata;
use std::io::Read;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The longest header of a safetensors file that is read.
const LONGEST_HEADER: u64 = 100 << 20;
const EXTENSIONS: [&str; 7] = [
    ".bin",
    ".ckpt",
    ".gguf",
    ".pt",
    ".pth",
    ".safetensors",
    ".sft",
];

fn no_folder() -> Refused {
    Refused::not_found("there is no folder of models of that name")
}

pub(crate) async fn folders() -> Json<Value> {
    Json(json!(Models::folders()))
}

pub(crate) async fn models(
    State(app): State<Arc<App>>,
    Path(folder): Path<String>,
) -> Result<Json<Value>, Refused> {
    let names = blocking(move || app.models.names(&folder).ok_or_else(no_folder));
    Ok(Json(json!(names.await?)))
}

/// Names of textual inversions, without their extension.
pub(crate) async fn embeddings(State(app): State<Arc<App>>) -> Result<Json<Value>, Refused> {
    let names = blocking(move || Ok(app.models.names("embeddings").unwrap_or_default())).await?;
    let stem = |name: &String| match name.rsplit_once('.') {
        Some((stem, _)) => stem.to_owned(),
        None => name.clone(),
    };
    Ok(Json(json!(names.iter().map(stem).collect::<Vec<_>>())))
}

pub(crate) async fn folders_with_paths(
    State(app): State<Arc<App>>,
) -> Result<Json<Value>, Refused> {
    let folders = blocking(move || {
        let each = Models::folders().into_iter();
        let each = each.map(|name| {
            let folders = app.models.paths(name);
            json!({ "name": name, "folders": folders, "extensions": EXTENSIONS })
        });
        Ok(each.collect::<Vec<_>>())
    });
    Ok(Json(json!(folders.await?)))
}

pub(crate) async fn models_with_facts(
    State(app): State<Arc<App>>,
    Path(folder): Path<String>,
) -> Result<Json<Value>, Refused> {
    let files = blocking(move || {
        let found = app.models.in_folder(&folder).ok_or_else(no_folder)?;
        let paths = app.models.paths(&folder);
        let each = found.iter().map(|found| {
            let index = paths.iter().position(|path| found.path.starts_with(path));
            let about = std::fs::metadata(&found.path).ok();
            json!({
                "name": found.name,
                "pathIndex": index.unwrap_or(0),
                "modified": about.as_ref().map(modified),
                "created": about.as_ref().map(modified),
                "size": found.size,
            })
        });
        Ok(each.collect::<Vec<_>>())
    });
    Ok(Json(json!(files.await?)))
}

/// Seconds since 1970 of a file's last change.
pub(crate) fn modified(about: &Metadata) -> f64 {
    let time = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
    time.duration_since(UNIX_EPOCH)
        .map_or(0.0, |since| since.as_secs_f64())
}

/// The picture that lies beside a model file.
pub(crate) async fn preview(
    State(app): State<Arc<App>>,
    Path((folder, index, file)): Path<(String, usize, String)>,
) -> Result<Response, Refused> {
    let webp = unpacking(&app, move |app| {
        let paths = app.models.paths(&folder);
        let base = paths.get(index).ok_or_else(no_folder)?;
        let base = std::fs::canonicalize(base).map_err(|_| no_folder())?;
        let stem = file.rsplit_once('.').map_or(&*file, |(stem, _)| stem);
        let names = ["png", "preview.png", "jpg", "jpeg", "webp"];
        let mut files = names
            .iter()
            .map(|end| folders::file(&base, &[&format!("{stem}.{end}")]));
        let missing = || Refused::not_found("there is no picture of this model");
        let path = files.find_map(Result::ok).ok_or_else(missing)?;
        let picture = load_picture(&path, &Limits::default()).map_err(|_| missing())?;
        pictures::encode(&picture, "webp", 90).map_err(|_| missing())
    });
    Ok(([(CONTENT_TYPE, "image/webp")], webp.await?).into_response())
}

#[derive(Deserialize)]
pub(crate) struct Named {
    #[serde(default)]
    filename: String,
}

/// What a safetensors file says of itself.
pub(crate) async fn metadata(
    State(app): State<Arc<App>>,
    Path(folder): Path<String>,
    Query(named): Query<Named>,
) -> Result<Json<Value>, Refused> {
    let found = blocking(move || {
        let missing = || Refused::not_found("there is no such safetensors file");
        if !named.filename.ends_with(".safetensors") {
            return Err(missing());
        }
        let path = app
            .models
            .find(&folder, &named.filename)
            .map_err(|_| missing())?;
        let mut file = std::fs::File::open(path).map_err(|_| missing())?;
        let mut length = [0; 8];
        file.read_exact(&mut length).map_err(|_| missing())?;
        let length = u64::from_le_bytes(length);
        if length > LONGEST_HEADER {
            return Err(Refused::bad("the file's header is too long"));
        }
        let mut header = Vec::new();
        file.take(length)
            .read_to_end(&mut header)
            .map_err(|_| missing())?;
        let mut header: Map<String, Value> =
            serde_json::from_slice(&header).map_err(|_| Refused::bad("the header is no JSON"))?;
        header.remove("__metadata__").ok_or_else(missing)
    });
    Ok(Json(found.await?))
}

pub(crate) async fn folder_paths(State(app): State<Arc<App>>) -> Result<Json<Value>, Refused> {
    let all = blocking(move || {
        let each = Models::folders().into_iter();
        let each = each.map(|name| (name.to_owned(), json!(app.models.paths(name))));
        Ok(each.collect::<Map<_, _>>())
    });
    Ok(Json(Value::Object(all.await?)))
}

/// Files of the input, output or temp folder, newest first.
pub(crate) async fn in_folder(
    State(app): State<Arc<App>>,
    Path(kind): Path<String>,
) -> Result<Json<Value>, Refused> {
    let names = blocking(move || {
        let folder = app.folders.of_type(&kind);
        let folder = folder.ok_or_else(|| Refused::bad("Invalid directory type"))?;
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let files = entries.filter_map(|entry| {
            let about = entry.metadata().ok().filter(Metadata::is_file)?;
            Some((
                about.modified().ok()?,
                format!("{} [{kind}]", entry.file_name().to_str()?),
            ))
        });
        let mut files: Vec<(SystemTime, String)> = files.collect();
        files.sort_by(|a, b| b.cmp(a));
        Ok(files.into_iter().map(|(_, name)| name).collect::<Vec<_>>())
    });
    Ok(Json(json!(names.await?)))
}
