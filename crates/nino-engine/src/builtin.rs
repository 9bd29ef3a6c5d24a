//! The model in the box: carried inside the program, unpacked once into the user's cache.

use crate::EngineError;
use crate::media::MediaError;
use nino_files::AtomicFile;
use std::path::{Path, PathBuf};

/// What `--model` calls it.
pub const BUILTIN: &str = "nino-emoji";

const BYTES: &[u8] = include_bytes!("../../../models/nino-emoji.gguf");

/// The file of the built-in model below `cache`, written there if it is not yet. Where the cache
/// cannot be written, the system's temporary folder serves.
pub fn builtin_model(cache: &Path) -> Result<PathBuf, EngineError> {
    // The size tells versions apart: a file half-written or of another build is replaced.
    let name = format!("{BUILTIN}-{:x}.gguf", checksum());
    let folders = [cache.join("models"), std::env::temp_dir()];
    let mut last = None;
    for folder in folders {
        let path = folder.join(&name);
        if std::fs::metadata(&path).is_ok_and(|m| m.len() == BYTES.len() as u64) {
            return Ok(path);
        }
        match write(&folder, &path) {
            Ok(()) => return Ok(path),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or(EngineError::Cancelled, EngineError::Media))
}

fn write(folder: &Path, path: &Path) -> Result<(), MediaError> {
    std::fs::create_dir_all(folder).map_err(|source| MediaError::Io {
        path: path.to_owned(),
        action: "unpack the built-in model",
        source,
    })?;
    Ok(AtomicFile::replace(path, BYTES)?)
}

/// FNV-1a over a sample of the bytes: names the build's model, nothing more.
fn checksum() -> u64 {
    let sampled = BYTES.iter().step_by(997).chain(&BYTES[BYTES.len() - 64..]);
    sampled.fold(0xcbf2_9ce4_8422_2325, |hash, &b| {
        (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    })
}
