//! Pictures and masks that clients bring.

use super::{blocking, unpacking};
use crate::app::App;
use crate::error::Refused;
use crate::folders::{self, Folders};
use crate::names::Taken;
use crate::pictures;
use axum::Json;
use axum::body::Bytes;
use axum::extract::{Multipart, State};
use axum::http::StatusCode;
use nino_engine::media::{Limits, PictureOptions, load_with_alpha, read_text};
use nino_files::AtomicFile;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The longest text of a form.
const LONGEST_TEXT: usize = 64 << 10;
/// Names that are tried for a file before it is refused.
const NAMES: usize = 10_000;

/// A form with a file in it.
#[derive(Default)]
struct Form {
    name: String,
    bytes: Bytes,
    kind: Option<String>,
    subfolder: String,
    overwrite: bool,
    original: Option<String>,
}

async fn form(mut parts: Multipart) -> Result<Form, Refused> {
    let mut form = Form::default();
    let broken = |e: axum::extract::multipart::MultipartError| {
        let status = e.status();
        Refused::new(
            status,
            format!("the form cannot be read: {}", e.body_text()),
        )
    };
    while let Some(part) = parts.next_field().await.map_err(broken)? {
        let field = part.name().unwrap_or_default().to_owned();
        if field == "image" {
            form.name = part.file_name().unwrap_or_default().to_owned();
            form.bytes = part.bytes().await.map_err(broken)?;
            continue;
        }
        let text = part.text().await.map_err(broken)?;
        if text.len() > LONGEST_TEXT {
            return Err(Refused::new(
                StatusCode::PAYLOAD_TOO_LARGE,
                "a field is too long",
            ));
        }
        match &*field {
            "type" => form.kind = Some(text),
            "subfolder" => form.subfolder = text,
            "overwrite" => form.overwrite = text == "true" || text == "1",
            "original_ref" => form.original = Some(text),
            _ => {}
        }
    }
    if form.name.is_empty() {
        return Err(Refused::bad("the form has no file in its field image"));
    }
    Ok(form)
}

pub(crate) async fn image(
    State(app): State<Arc<App>>,
    parts: Multipart,
) -> Result<Json<Value>, Refused> {
    let form = form(parts).await?;
    let saved = blocking(move || {
        let bytes = form.bytes.clone();
        save(&app, &form, &bytes)
    });
    Ok(Json(saved.await?))
}

/// A mask is the transparency of a picture that is here already.
pub(crate) async fn mask(
    State(app): State<Arc<App>>,
    parts: Multipart,
) -> Result<Json<Value>, Refused> {
    let form = form(parts).await?;
    let saved = unpacking(&app, move |app| {
        let bytes = masked(app, &form)?;
        save(app, &form, &bytes)
    });
    Ok(Json(saved.await?))
}

/// Writes a file under its name, or one like it where that is taken by other bytes.
fn save(app: &App, form: &Form, bytes: &[u8]) -> Result<Value, Refused> {
    let kind = form.kind.as_deref().unwrap_or("input");
    let base = app.folders.of_type(kind);
    let base = base.ok_or_else(|| Refused::bad("the type is input, output or temp"))?;
    // A name has no folders in it: those are the subfolder's.
    if form.name.contains('/') {
        return Err(Refused::bad("the name of a file has no folders in it"));
    }
    let (name, place) = free_name(app, base, form, bytes)?;
    let failed = |e: &dyn std::fmt::Display| {
        let text = format!("the file cannot be written: {e}");
        Refused::new(StatusCode::INTERNAL_SERVER_ERROR, text)
    };
    if let Some(Place { path, .. }) = &place {
        let folder = path.parent().unwrap_or(base);
        std::fs::create_dir_all(folder).map_err(|e| failed(&e))?;
        AtomicFile::replace(path, bytes).map_err(|e| failed(&e))?;
    }
    Ok(json!({ "name": name, "subfolder": form.subfolder, "type": kind }))
}

/// Where a file is written.
struct Place<'a> {
    path: PathBuf,
    /// Its name is nobody else's meanwhile; `None` where it may replace another file.
    _taken: Option<Taken<'a>>,
}

/// The name that a file gets, and its place; no place where the same bytes are there already.
fn free_name<'a>(
    app: &'a App,
    base: &Path,
    form: &Form,
    bytes: &[u8],
) -> Result<(String, Option<Place<'a>>), Refused> {
    let (stem, extension) = match form.name.rsplit_once('.') {
        Some((stem, extension)) => (stem, format!(".{extension}")),
        None => (&*form.name, String::new()),
    };
    for i in 0..NAMES {
        let name = match i {
            0 => form.name.clone(),
            i => format!("{stem} ({i}){extension}"),
        };
        let path = folders::below(base, &[&form.subfolder, &name])?;
        let taken = app.names.take(&path);
        if form.overwrite || taken.is_some() {
            let place = Place {
                path,
                _taken: taken,
            };
            return Ok((name, Some(place)));
        }
        let size = std::fs::metadata(&path).map_or(0, |about| about.len());
        if size == bytes.len() as u64 && std::fs::read(&path).is_ok_and(|found| found == bytes) {
            return Ok((name, None));
        }
    }
    Err(Refused::new(
        StatusCode::CONFLICT,
        "too many files have this name",
    ))
}

/// The picture that a form refers to, with the transparency of the one that it brings.
fn masked(app: &App, form: &Form) -> Result<Vec<u8>, Refused> {
    let bad = || Refused::bad("original_ref does not name a picture");
    let original = form.original.as_deref().ok_or_else(bad)?;
    let original: Value = serde_json::from_str(original).map_err(|_| bad())?;
    let text = |key: &str| original[key].as_str();
    let (name, annotated) = Folders::annotated(text("filename").unwrap_or_default());
    let kind = annotated.or(text("type")).unwrap_or("output");
    let base = app.folders.of_type(kind).ok_or_else(bad)?;
    let path = folders::file(base, &[text("subfolder").unwrap_or_default(), name])?;
    let unreadable = |e: &dyn std::fmt::Display| Refused::bad(e.to_string());
    let limits = Limits::default();
    let (picture, _) = load_with_alpha(&path, &limits).map_err(|e| unreadable(&e))?;
    let mask = pictures::unpacked(&app.folders, &form.bytes);
    let (_, mask) = mask.map_err(|e| unreadable(&e))?;
    let mask = mask.ok_or_else(|| Refused::bad("the mask has no transparency"))?;
    let keywords = ["prompt", "workflow", "parameters"];
    let texts = read_text(&path, &keywords, &limits).map_or(Vec::new(), |text| text.found);
    let texts: Vec<(&str, String)> = texts.iter().map(|(k, v)| (&**k, v.clone())).collect();
    let options = PictureOptions {
        text: &texts,
        opacity: Some(&pictures::opacity(&picture, &mask)),
        ..PictureOptions::default()
    };
    pictures::encode_with(&picture, "png", &options).map_err(|e| unreadable(&e))
}
