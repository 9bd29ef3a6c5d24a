//! The text a PNG carries: prompts and graphs, where ComfyUI, A1111 and this program leave them.

use super::{MediaError, io_error};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Keywords and their texts, in any of PNG's three kinds of text chunk.
pub fn read_text(path: &Path) -> Result<Vec<(String, String)>, MediaError> {
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
