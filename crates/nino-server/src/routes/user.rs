//! What a user keeps on the server: settings, workflows and other small files.

use super::files::modified;
use super::view::{no_scripts, pieces};
use super::{blocking, json};
use crate::app::App;
use crate::error::Refused;
use crate::folders;
use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use axum::http::{Response, StatusCode};
use nino_files::AtomicFile;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::io::ErrorKind;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, PoisonError};

const SETTINGS: &str = "comfy.settings.json";
/// Files that a list shows.
const MOST_FILES: usize = 10_000;
/// Folders within each other that a list goes into.
const DEEPEST: usize = 8;

fn failed(error: &dyn std::fmt::Display) -> Refused {
    Refused::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())
}

/// The user's settings. A file that cannot be read is an error: who wrote settings into an empty
/// one would lose all others.
pub(super) fn read_settings(app: &App) -> Result<Map<String, Value>, Refused> {
    let path = app.folders.user.join(SETTINGS);
    let unread = |e: &dyn std::fmt::Display| {
        let path = path.display();
        let text = format!("the settings in {path} cannot be read: {e}; mend or remove the file");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    };
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes).map_err(|e| unread(&e)),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(Map::new()),
        Err(e) => Err(unread(&e)),
    }
}

pub(crate) async fn settings(State(app): State<Arc<App>>) -> Result<Json<Value>, Refused> {
    let mut settings = blocking(move || read_settings(&app)).await?;
    // A new user of ComfyUI's page is shown its templates, of which there are none here.
    settings
        .entry("Comfy.TutorialCompleted")
        .or_insert(json!(true));
    Ok(Json(Value::Object(settings)))
}

pub(crate) async fn setting(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
) -> Result<Json<Value>, Refused> {
    let mut settings = blocking(move || read_settings(&app)).await?;
    Ok(Json(settings.remove(&id).unwrap_or_default()))
}

pub(crate) async fn set_settings(State(app): State<Arc<App>>, body: Bytes) -> Result<(), Refused> {
    let Value::Object(changes) = json(&body)? else {
        return Err(Refused::bad("settings are an object"));
    };
    change_settings(app, changes).await
}

pub(crate) async fn set_setting(
    State(app): State<Arc<App>>,
    Path(id): Path<String>,
    body: Bytes,
) -> Result<(), Refused> {
    let value = json(&body)?;
    change_settings(app, std::iter::once((id, value)).collect()).await
}

pub(super) async fn change_settings(
    app: Arc<App>,
    changes: Map<String, Value>,
) -> Result<(), Refused> {
    blocking(move || {
        let held = app.settings.lock();
        let _held = held.unwrap_or_else(PoisonError::into_inner);
        let mut settings = read_settings(&app)?;
        settings.extend(changes);
        let text = Value::Object(settings).to_string();
        let path = app.folders.user.join(SETTINGS);
        AtomicFile::replace(&path, text.as_bytes()).map_err(|e| failed(&e))
    })
    .await
}

pub(crate) async fn users() -> Json<Value> {
    Json(json!({ "storage": "server", "migrated": true }))
}

pub(crate) async fn add_user() -> Refused {
    Refused::bad("this server has one user")
}

#[derive(Deserialize)]
pub(crate) struct Listed {
    #[serde(default)]
    dir: String,
    #[serde(default)]
    recurse: String,
    #[serde(default)]
    full_info: String,
    #[serde(default)]
    split: String,
    #[serde(default)]
    path: String,
}

/// A file or folder below a folder.
struct Entry {
    path: PathBuf,
    name: String,
    is_folder: bool,
}

/// Everything below a folder, or only what lies in it.
fn entries(base: &FilePath, recurse: bool) -> Vec<Entry> {
    let mut found = Vec::new();
    let mut open = vec![(base.to_owned(), 0)];
    while let Some((folder, depth)) = open.pop() {
        for entry in std::fs::read_dir(&folder).into_iter().flatten().flatten() {
            // Links are not followed.
            let Ok(kind) = entry.file_type() else {
                continue;
            };
            let path = entry.path();
            let name = path.strip_prefix(base).ok().and_then(FilePath::to_str);
            let Some(name) = name.map(|name| name.replace('\\', "/")) else {
                continue;
            };
            if found.len() >= MOST_FILES || kind.is_symlink() {
                continue;
            }
            if kind.is_dir() && recurse && depth < DEEPEST {
                open.push((path.clone(), depth + 1));
            }
            let is_folder = kind.is_dir();
            found.push(Entry {
                path,
                name,
                is_folder,
            });
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn facts(path: &FilePath, name: &str) -> Value {
    let about = std::fs::metadata(path).ok();
    let time = about.as_ref().map_or(0.0, modified);
    let millis = (time * 1e3) as u64;
    let size = about.map_or(0, |about| about.len());
    json!({ "path": name, "size": size, "modified": millis, "created": millis })
}

pub(crate) async fn list(
    State(app): State<Arc<App>>,
    Query(listed): Query<Listed>,
) -> Result<Json<Value>, Refused> {
    if listed.dir.is_empty() {
        return Err(Refused::bad("Directory not provided"));
    }
    let files = blocking(move || {
        let base = folders::below(&app.folders.user, &[&listed.dir])?;
        if !base.is_dir() {
            return Err(Refused::not_found("Directory not found"));
        }
        let is = |text: &str| text.eq_ignore_ascii_case("true");
        let (full, split) = (is(&listed.full_info), is(&listed.split));
        let files = entries(&base, is(&listed.recurse)).into_iter();
        let files = files.filter(|entry| !entry.is_folder).map(|entry| {
            if full {
                return facts(&entry.path, &entry.name);
            }
            if split {
                let parts = std::iter::once(&*entry.name).chain(entry.name.split('/'));
                return json!(parts.collect::<Vec<_>>());
            }
            json!(entry.name)
        });
        Ok(files.collect::<Vec<_>>())
    });
    Ok(Json(json!(files.await?)))
}

pub(crate) async fn list_all(
    State(app): State<Arc<App>>,
    Query(listed): Query<Listed>,
) -> Result<Json<Value>, Refused> {
    let files = blocking(move || {
        let base = folders::below(&app.folders.user, &[&listed.path])?;
        if !base.is_dir() {
            return Err(Refused::not_found("Requested path not found"));
        }
        let mut all = entries(&base, true);
        all.sort_by_key(|entry| !entry.is_folder);
        let each = all.iter().map(|entry| {
            let path = entry.path.strip_prefix(&app.folders.user).ok();
            let path = path.and_then(FilePath::to_str).unwrap_or(&entry.name);
            let name = entry.name.rsplit('/').next();
            if entry.is_folder {
                return json!({ "name": name, "path": path, "type": "directory" });
            }
            let about = std::fs::metadata(&entry.path).ok();
            let size = about.as_ref().map(std::fs::Metadata::len);
            let modified = about.as_ref().map(modified);
            json!({
                "name": name, "path": path, "type": "file", "size": size, "modified": modified,
            })
        });
        Ok(each.collect::<Vec<_>>())
    });
    Ok(Json(json!(files.await?)))
}

/// Where a file of the user is.
fn place(app: &App, file: &str) -> Result<PathBuf, Refused> {
    if file.is_empty() {
        return Err(Refused::bad("no file is named"));
    }
    let path = folders::below(&app.folders.user, &[file]);
    path.map_err(|refused| Refused {
        status: StatusCode::FORBIDDEN,
        ..refused
    })
}

pub(crate) async fn read(
    State(app): State<Arc<App>>,
    Path(file): Path<String>,
) -> Result<Response<Body>, Refused> {
    let path = place(&app, &file)?;
    let missing = || Refused::not_found("there is no such file");
    if !path.is_file() {
        return Err(missing());
    }
    let opened = tokio::fs::File::open(&path).await.map_err(|_| missing())?;
    let mut response = Response::new(Body::from_stream(pieces(opened)));
    let headers = response.headers_mut();
    // Only a style sheet of the user is more than data.
    let (kind, shown) = match (&*file, file.rsplit('.').next()) {
        ("user.css", _) => ("text/css", "inline"),
        (_, Some("json")) => ("application/json", "attachment"),
        _ => ("application/octet-stream", "attachment"),
    };
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_DISPOSITION, HeaderValue::from_static(shown));
    no_scripts(&mut response);
    Ok(response)
}

#[derive(Deserialize)]
pub(crate) struct Written {
    overwrite: Option<String>,
    full_info: Option<String>,
}

impl Written {
    /// An error where a file is there that is to stay.
    fn check(&self, path: &FilePath) -> Result<(), Refused> {
        if self.overwrite.as_deref() == Some("false") && path.exists() {
            return Err(Refused::new(StatusCode::CONFLICT, "File already exists"));
        }
        Ok(())
    }

    fn answer(&self, app: &App, path: &FilePath) -> Value {
        let name = path.strip_prefix(&app.folders.user).unwrap_or(path);
        let name = name.to_string_lossy().replace('\\', "/");
        match self.full_info.as_deref() {
            Some(full) if full.eq_ignore_ascii_case("true") => facts(path, &name),
            _ => json!(name),
        }
    }
}

pub(crate) async fn write(
    State(app): State<Arc<App>>,
    Path(file): Path<String>,
    Query(how): Query<Written>,
    body: Bytes,
) -> Result<Json<Value>, Refused> {
    let answer = blocking(move || {
        let path = place(&app, &file)?;
        how.check(&path)?;
        make_folder(&path)?;
        AtomicFile::replace(&path, &body).map_err(|e| Refused::bad(e.to_string()))?;
        Ok(how.answer(&app, &path))
    });
    Ok(Json(answer.await?))
}

fn make_folder(path: &FilePath) -> Result<(), Refused> {
    let folder = path.parent().unwrap_or(path);
    std::fs::create_dir_all(folder).map_err(|e| Refused::bad(e.to_string()))
}

pub(crate) async fn remove(
    State(app): State<Arc<App>>,
    Path(file): Path<String>,
) -> Result<StatusCode, Refused> {
    blocking(move || {
        let path = place(&app, &file)?;
        if !path.is_file() {
            return Err(Refused::not_found("there is no such file"));
        }
        std::fs::remove_file(path).map_err(|e| failed(&e))?;
        Ok(StatusCode::NO_CONTENT)
    })
    .await
}

pub(crate) async fn rename(
    State(app): State<Arc<App>>,
    Path((file, dest)): Path<(String, String)>,
    Query(how): Query<Written>,
) -> Result<Json<Value>, Refused> {
    let answer = blocking(move || {
        let (from, to) = (place(&app, &file)?, place(&app, &dest)?);
        if !from.is_file() {
            return Err(Refused::not_found("there is no such file"));
        }
        how.check(&to)?;
        make_folder(&to)?;
        std::fs::rename(&from, &to).map_err(|e| Refused::bad(e.to_string()))?;
        Ok(how.answer(&app, &to))
    });
    Ok(Json(answer.await?))
}
