//! The text a picture carries: prompts and graphs, where ComfyUI, A1111 and this program leave them.

use super::{MediaError, exif, extension, io_error};
use image::{ImageDecoder, ImageReader};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Keywords and their texts: in any of PNG's three kinds of text chunk, or A1111's `parameters` in the
/// EXIF of a JPEG or WebP.
pub fn read_text(path: &Path) -> Result<Vec<(String, String)>, MediaError> {
    if matches!(extension(path).as_str(), "jpg" | "jpeg" | "webp") {
        return read_comment(path);
    }
    let fail = |what: String| MediaError::Encode {
        path: path.to_owned(),
        what,
    };
    let file = BufReader::new(File::open(path).map_err(io_error(path, "open"))?);
    let mut reader = png::Decoder::new(file)
        .read_info()
        .map_err(|e| fail(format!("not a PNG that can be read: {e}")))?;
    // Some programs write their text after the picture.
    reader
        .finish()
        .map_err(|e| fail(format!("the PNG is damaged: {e}")))?;
    let info = reader.info();
    let mut found = Vec::new();
    for chunk in &info.uncompressed_latin1_text {
        found.push((chunk.keyword.clone(), chunk.text.clone()));
    }
    for chunk in &info.compressed_latin1_text {
        let text = chunk.get_text().map_err(|e| fail(e.to_string()))?;
        found.push((chunk.keyword.clone(), text));
    }
    for chunk in &info.utf8_text {
        let text = chunk.get_text().map_err(|e| fail(e.to_string()))?;
        found.push((chunk.keyword.clone(), text));
    }
    Ok(found)
}

fn read_comment(path: &Path) -> Result<Vec<(String, String)>, MediaError> {
    let fail = |source| MediaError::Image {
        path: path.to_owned(),
        source,
    };
    let reader = ImageReader::open(path).map_err(io_error(path, "open"))?;
    let mut decoder = reader.into_decoder().map_err(fail)?;
    let comment = decoder.exif_metadata().map_err(fail)?;
    let comment = comment.and_then(|exif| exif::read(&exif));
    Ok(comment
        .map(|text| ("parameters".to_owned(), text))
        .into_iter()
        .collect())
}
