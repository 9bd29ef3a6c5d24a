//! Files that clients look at. What is here may have been brought by anybody, so nothing is sent as
//! something that browsers run.

mod part;

use super::{blocking, unpacking};
use crate::app::App;
use crate::error::Refused;
use crate::folders::{self, Folders};
use crate::pictures;
use axum::body::Body;
use axum::extract::{Query, State};
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, HeaderMap, HeaderValue, IF_NONE_MATCH,
};
use axum::http::{Response, StatusCode};
use nino_engine::media::{Limits, PictureOptions, load_with_alpha};
use nino_engine::{Mask, Picture};
use part::Part;
use serde::Deserialize;
use std::io::SeekFrom;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncSeekExt};

/// Bytes of a file that are read at once.
const PIECE: usize = 256 << 10;

#[derive(Deserialize)]
pub(crate) struct Asked {
    filename: Option<String>,
    #[serde(rename = "type")]
    kind: Option<String>,
    subfolder: Option<String>,
    preview: Option<String>,
    channel: Option<String>,
}

impl Asked {
    /// Whether the file itself is not what is asked for.
    fn is_another_form(&self) -> bool {
        self.preview.is_some() || matches!(self.channel.as_deref(), Some("rgb" | "a"))
    }
}

pub(crate) async fn view(
    State(app): State<Arc<App>>,
    Query(asked): Query<Asked>,
    headers: HeaderMap,
) -> Result<Response<Body>, Refused> {
    let own = Arc::clone(&app);
    let (asked, path) = blocking(move || {
        let path = find(&own, &asked)?;
        Ok((asked, path))
    })
    .await?;
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    if asked.is_another_form() {
        let path = path.clone();
        let (kind, bytes) = unpacking(&app, move |_| made(&asked, &path)).await?;
        let length = bytes.len() as u64;
        return Ok(reply(&name, kind, length, Body::from(bytes)));
    }
    let missing = |_| Refused::not_found("there is no such file");
    let file = tokio::fs::File::open(&path).await.map_err(missing)?;
    let about = file.metadata().await.map_err(missing)?;
    let changed = super::files::modified(&about).to_bits();
    let tag = format!("\"{:x}-{changed:x}\"", about.len());
    let mut response = if headers
        .get(IF_NONE_MATCH)
        .is_some_and(|known| known == tag.as_str())
    {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        response
    } else {
        let part = Part::of(&headers, about.len(), &tag);
        let sent = sent(&name, file, about.len(), part).await;
        sent.map_err(missing)?
    };
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.extend(HeaderValue::from_str(&tag).ok().map(|tag| (ETAG, tag)));
    no_scripts(&mut response);
    Ok(response)
}

/// The file that is asked for.
fn find(app: &App, asked: &Asked) -> Result<PathBuf, Refused> {
    let name = asked.filename.as_deref().unwrap_or_default();
    let (name, annotated) = Folders::annotated(name);
    // Names by hash are those of assets, of which there are none.
    if asked.filename.is_none() || name.starts_with("blake3:") {
        return Err(Refused::not_found("there is no such file"));
    }
    if name.is_empty() || name.starts_with('/') || name.contains("..") {
        return Err(Refused::bad("no file is named"));
    }
    let kind = annotated.or(asked.kind.as_deref()).unwrap_or("output");
    let base = app.folders.of_type(kind);
    let base = base.ok_or_else(|| Refused::bad("the type is input, output or temp"))?;
    let subfolder = asked.subfolder.as_deref().unwrap_or_default();
    let outside = |refused: Refused| Refused {
        status: StatusCode::FORBIDDEN,
        ..refused
    };
    folders::below(base, &[subfolder]).map_err(outside)?;
    folders::file(base, &[subfolder, name])
}

/// The bytes of a file as history names it.
pub(crate) fn read_made(app: &App, file: &serde_json::Value) -> Result<Vec<u8>, Refused> {
    let path = folders::find_made(&app.folders, file)?;
    std::fs::read(path).map_err(|_| Refused::not_found("the picture is not there any more"))
}

/// A picture in the form that is asked for: a preview, or some of its channels.
fn made(asked: &Asked, path: &Path) -> Result<(&'static str, Vec<u8>), Refused> {
    let load = || -> Result<(Picture, Option<Mask>), Refused> {
        load_with_alpha(path, &Limits::default()).map_err(|e| Refused::bad(e.to_string()))
    };
    let failed = |_| Refused::bad("the picture cannot be written in this form");
    if let Some(preview) = &asked.preview {
        let (format, quality) = preview.split_once(';').unwrap_or((preview, "90"));
        let quality = quality.parse().unwrap_or(90);
        let (picture, clear) = load()?;
        let (kind, extension) = match format {
            "jpeg" | "jpg" => ("image/jpeg", "jpg"),
            _ => ("image/webp", "webp"),
        };
        let keeps = extension == "webp" && asked.channel.as_deref() != Some("rgb");
        let clear = clear.filter(|_| keeps);
        let opacity = clear.map(|clear| pictures::opacity(&picture, &clear));
        let options = PictureOptions {
            quality,
            opacity: opacity.as_deref(),
            ..PictureOptions::default()
        };
        let bytes = pictures::encode_with(&picture, extension, &options);
        return Ok((kind, bytes.map_err(failed)?));
    }
    let clear = |picture: &Picture| Mask {
        width: picture.width,
        height: picture.height,
        values: vec![0.0; picture.width * picture.height],
    };
    let (picture, alpha) = load()?;
    if asked.channel.as_deref() == Some("rgb") {
        return Ok(("image/png", nino_engine::media::png(&picture)));
    }
    let alpha = alpha.unwrap_or_else(|| clear(&picture));
    let black = Picture::new(picture.width, picture.height);
    let options = PictureOptions {
        opacity: Some(&pictures::opacity(&black, &alpha)),
        ..PictureOptions::default()
    };
    let png = pictures::encode_with(&black, "png", &options);
    Ok(("image/png", png.map_err(failed)?))
}

/// A file of `length` bytes, or a part of it.
async fn sent(
    name: &str,
    mut file: tokio::fs::File,
    length: u64,
    part: Part,
) -> std::io::Result<Response<Body>> {
    let (status, bytes, range) = match part {
        Part::Whole => (StatusCode::OK, 0..length, None),
        Part::Bytes(bytes) => {
            let range = format!("bytes {}-{}/{length}", bytes.start, bytes.end - 1);
            (StatusCode::PARTIAL_CONTENT, bytes, Some(range))
        }
        Part::Outside => {
            let range = format!("bytes */{length}");
            (StatusCode::RANGE_NOT_SATISFIABLE, 0..0, Some(range))
        }
    };
    file.seek(SeekFrom::Start(bytes.start)).await?;
    let size = bytes.end - bytes.start;
    let body = Body::from_stream(pieces(file.take(size)));
    let mut response = reply(name, pictures::content_type(name), size, body);
    *response.status_mut() = status;
    let range = range.and_then(|range| HeaderValue::from_str(&range).ok());
    let headers = response.headers_mut();
    headers.extend(range.map(|range| (CONTENT_RANGE, range)));
    Ok(response)
}

/// A file of a type that browsers may show; others they are to save.
fn reply(name: &str, kind: &'static str, length: u64, body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    // A file may be written again under its name.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    let shown = if kind == "application/octet-stream" {
        "attachment"
    } else {
        "inline"
    };
    let plain = |c: char| if is_plain(c) { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    let disposition = HeaderValue::from_str(&format!("{shown}; filename=\"{name}\""));
    headers.extend(disposition.ok().map(|value| (CONTENT_DISPOSITION, value)));
    response
}

fn is_plain(c: char) -> bool {
    c.is_ascii_graphic() && !matches!(c, '"' | '\\') || c == ' '
}

/// Whatever the file is, it runs nothing in the server's name.
pub(crate) fn no_scripts(response: &mut Response<Body>) {
    let headers = response.headers_mut();
    let is_video = |kind: &HeaderValue| kind.as_bytes().starts_with(b"video/");
    let policy = if headers.get(CONTENT_TYPE).is_some_and(is_video) {
        // A browser that is shown a video by itself makes a page of it, which loads it once more
        // and could not in a sandbox.
        "default-src 'none'; media-src 'self'; style-src 'unsafe-inline'"
    } else {
        "sandbox; default-src 'none'"
    };
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(policy));
}

/// A file in pieces, so that a slow client holds one of them and not the file.
pub(crate) fn pieces(
    file: impl AsyncRead + Unpin,
) -> impl futures_util::Stream<Item = std::io::Result<bytes::Bytes>> {
    futures_util::stream::try_unfold(file, |mut file| async move {
        let mut piece = vec![0; PIECE];
        let read = file.read(&mut piece).await?;
        piece.truncate(read);
        Ok((read > 0).then(|| (piece.into(), file)))
    })
}
