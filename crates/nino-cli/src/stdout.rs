//! `-o -`: a result goes to standard output instead of a file.

use crate::failure::Usage;
use nino_engine::Picture;
use nino_engine::media::{MediaError, PictureOptions, encode_picture};
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Whether an output is standard output.
pub(crate) fn is_meant(output: &Path) -> bool {
    output.as_os_str() == "-"
}

/// An error where `what`, such as `a picture`, cannot go there.
pub(crate) fn check(what: &str, json: bool) -> Result<(), Usage> {
    let text = if json {
        "--json and -o - both write to standard output: leave one out".to_owned()
    } else if io::stdout().is_terminal() {
        format!("-o - writes {what} to standard output, which is a terminal: redirect it")
    } else {
        return Ok(());
    };
    Err(Usage(text))
}

/// Writes a picture there, as PNG.
pub(crate) fn picture(picture: &Picture, options: &PictureOptions<'_>) -> Result<(), MediaError> {
    let mut out = io::stdout().lock();
    encode_picture(&mut out, Path::new("standard output.png"), picture, options)?;
    out.flush().map_err(|source| MediaError::Io {
        path: PathBuf::from("standard output"),
        action: "write",
        source,
    })
}
