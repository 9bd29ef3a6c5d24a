//! The text a picture carries: prompts and graphs, where ComfyUI, A1111 and this program leave
//! them.

use crate::format::{Kind, PictureFile, jpeg, png, read_at, webp};
use crate::limits::Guard;
use crate::load::all_bytes;
use crate::{Limits, MediaError, exif, ffmpeg, io_error};
use std::io::{Read, Seek};
use std::path::Path;

/// Where A1111 leaves its text; of the formats beside PNG the only text.
const PARAMETERS: &str = "parameters";

/// Clips whose tags are looked at.
const CLIPS: [&str; 4] = ["mp4", "webm", "mov", "mkv"];

/// What a picture carries beside its pixels.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The texts asked for, by their keywords.
    pub found: Vec<(String, String)>,
    /// Keywords of texts that were not asked for, and not unpacked.
    pub others: Vec<String>,
}

/// Reads the texts with one of the `keywords`: in any of PNG's three kinds of text chunk, in the
/// EXIF of a JPEG or WebP, where A1111's `parameters` are too, or in the tags of a clip that
/// `ffmpeg` reads.
pub fn read_text(path: &Path, keywords: &[&str], limits: &Limits) -> Result<Text, MediaError> {
    let Some(mut file) = PictureFile::open(path)? else {
        if CLIPS.contains(&crate::extension(path).as_str()) {
            return ffmpeg::tags(path, keywords, limits);
        }
        return Err(MediaError::Decode {
            path: path.to_owned(),
            what: "not an image that can carry metadata: PNG, JPEG or WebP".to_owned(),
        });
    };
    let guard = file.guard(path, limits);
    let input = &mut file.input;
    let text = match file.kind {
        Kind::Png => from_png(input, keywords, guard),
        Kind::Jpeg => from_jpeg(input, keywords, guard),
        Kind::WebP => from_webp(input, keywords, guard),
        Kind::Gif => Ok(Text::default()),
    };
    file.input.get_ref().check_unchanged()?;
    text
}

fn from_png<R: Read + Seek>(
    input: &mut R,
    keywords: &[&str],
    guard: Guard<'_>,
) -> Result<Text, MediaError> {
    let most = guard.limits.text_bytes;
    let mut text = Text::default();
    let mut left = most;
    // Some programs write their text after the picture.
    for chunk in png::chunks(input, guard)? {
        if !matches!(&chunk.name, b"tEXt" | b"zTXt" | b"iTXt") {
            continue;
        }
        if chunk.len() > left {
            let what = format!("carries more than {most} bytes of text");
            return Err(guard.beyond(what, most, "bytes"));
        }
        let data = chunk.data(input, guard)?;
        left -= data.len() as u64;
        let damaged = || guard.damaged("one of its PNG text chunks is invalid");
        let end = data.iter().position(|&b| b == 0).ok_or_else(damaged)?;
        let (keyword, rest) = (latin1(&data[..end]), &data[end + 1..]);
        if !keywords.contains(&keyword.as_str()) {
            text.others.push(keyword);
            continue;
        }
        let mut unpacked = |packed: &[u8]| {
            let what = format!("its text {keyword:?}");
            let bytes = png::inflate(packed, png::Keep::All, left);
            let bytes = bytes.map_err(|problem| problem.told(guard, &what, most))?;
            left -= bytes.len() as u64;
            Ok::<_, MediaError>(bytes)
        };
        let value = match (&chunk.name, rest) {
            (b"tEXt", rest) => latin1(rest),
            (b"zTXt", [0, packed @ ..]) => latin1(&unpacked(packed)?),
            (b"iTXt", [packed @ (0 | 1), _method, rest @ ..]) => {
                // The language, and the keyword in it.
                let mut parts = rest.splitn(3, |&b| b == 0);
                let body = parts.nth(2).ok_or_else(damaged)?;
                let body = if *packed == 1 {
                    unpacked(body)?
                } else {
                    body.to_vec()
                };
                String::from_utf8(body).map_err(|_| damaged())?
            }
            _ => return Err(damaged()),
        };
        text.found.push((keyword, value));
    }
    Ok(text)
}

fn latin1(bytes: &[u8]) -> String {
    bytes.iter().map(|&b| char::from(b)).collect()
}

fn from_jpeg<R: Read + Seek>(
    input: &mut R,
    keywords: &[&str],
    guard: Guard<'_>,
) -> Result<Text, MediaError> {
    let bytes = all_bytes(input, guard)?;
    let found = jpeg::scan(&bytes).map_err(|what| guard.damaged(what))?;
    Ok(from_exif(found.exif.unwrap_or_default(), keywords))
}

fn from_webp<R: Read + Seek>(
    input: &mut R,
    keywords: &[&str],
    guard: Guard<'_>,
) -> Result<Text, MediaError> {
    let Some((offset, len)) = webp::check(input, guard, 0)?.exif else {
        return Ok(Text::default());
    };
    let most = guard.limits.text_bytes;
    if len > most {
        let what = format!("carries {len} bytes of EXIF");
        return Err(guard.beyond(what, most, "bytes"));
    }
    let exif = read_at(input, offset, len).map_err(io_error(guard.path, "read"))?;
    Ok(from_exif(&exif, keywords))
}

/// A1111's parameters, whoever asks for what, and texts by keyword.
fn from_exif(exif: &[u8], keywords: &[&str]) -> Text {
    let comment = exif::read(exif).map(|text| (PARAMETERS.to_owned(), text));
    let mut found: Vec<(String, String)> = comment.into_iter().collect();
    found.extend(exif::read_texts(exif, keywords));
    Text {
        found,
        others: Vec::new(),
    }
}
