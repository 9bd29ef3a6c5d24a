//! The model in the box: carried inside the program, unpacked once into the user's cache.

use crate::EngineError;
use crate::media::MediaError;
use nino_files::{AtomicFile, Opened};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

/// What `--model` calls it.
pub const BUILTIN: &str = "nino-emoji";

static BYTES: &[u8] = include_bytes!("../../../models/nino-emoji.gguf");

/// Whether a name means the built-in model: its own, or that of the file it is unpacked to, which
/// pictures of other builds carry.
pub fn is_builtin(name: &str) -> bool {
    let unpacked = name
        .strip_prefix(BUILTIN)
        .and_then(|rest| rest.strip_prefix('-'));
    let hash = unpacked.and_then(|rest| rest.strip_suffix(".gguf"));
    name == BUILTIN || hash.is_some_and(|h| h.chars().all(|c| c.is_ascii_hexdigit()))
}

/// The file of the built-in model below `cache`, written there if it is not yet, or is not what it
/// has to be: a damaged file, or one that somebody else put there, is replaced. Where the cache
/// cannot be written, the system's temporary folder serves.
pub fn builtin_model(cache: &Path) -> Result<PathBuf, EngineError> {
    let found = find_or_write(cache);
    // Comparing has read all of it, which no plan counts on.
    nino_files::let_go(BYTES);
    found
}

fn find_or_write(cache: &Path) -> Result<PathBuf, EngineError> {
    let name = format!("{BUILTIN}-{:x}.gguf", checksum());
    let folders = [cache.join("models"), std::env::temp_dir()];
    let mut last = None;
    for folder in folders {
        let path = folder.join(&name);
        if is_whole(&path) {
            return Ok(path);
        }
        match write(&folder, &path) {
            Ok(()) => return Ok(path),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or(EngineError::Cancelled, EngineError::Media))
}

/// Whether a file holds the model, byte for byte. That takes a few milliseconds, and a header that
/// looks right may have other weights behind it.
fn is_whole(path: &Path) -> bool {
    const PIECE: usize = 1 << 20;
    // Somebody else could change it after it was compared.
    if !nino_files::is_ours(path) {
        return false;
    }
    let Ok(file) = Opened::open(path) else {
        return false;
    };
    if file.size() != BYTES.len() as u64 {
        return false;
    }
    let mut read = vec![0; PIECE];
    let mut pieces = BYTES.chunks(PIECE).enumerate();
    pieces.all(|(i, expected)| {
        let found = &mut read[..expected.len()];
        let got = file.read_exact_at(found, (i * PIECE) as u64);
        got.is_ok() && *found == *expected
    })
}

fn write(folder: &Path, path: &Path) -> Result<(), MediaError> {
    std::fs::create_dir_all(folder).map_err(|source| MediaError::Io {
        path: path.to_owned(),
        action: "unpack the built-in model",
        source,
    })?;
    // Programs that start at once write it once: replacing it again would take it from under the
    // one that has opened it. Where a system has no locks, that can happen.
    let lock = own_lock(folder, path);
    if lock.is_some() && is_whole(path) {
        return Ok(());
    }
    Ok(AtomicFile::replace(path, BYTES)?)
}

/// Held until it is dropped; nothing where files are not locked, or others can write the folder.
fn own_lock(folder: &Path, path: &Path) -> Option<File> {
    if !nino_files::is_ours(folder) {
        return None;
    }
    let file = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path.with_extension("lock"))
        .ok()?;
    file.lock().ok()?;
    Some(file)
}

/// FNV-1a over a sample of the bytes: names the build's model, nothing more.
fn checksum() -> u64 {
    let sampled = BYTES.iter().step_by(997).chain(&BYTES[BYTES.len() - 64..]);
    sampled.fold(0xcbf2_9ce4_8422_2325, |hash, &b| {
        (hash ^ u64::from(b)).wrapping_mul(0x100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::{BYTES, builtin_model, is_builtin};

    #[test]
    fn names_of_other_builds_mean_the_model_too() {
        assert!(is_builtin("nino-emoji") && is_builtin("nino-emoji-10e95b0c8db39f88.gguf"));
        assert!(!is_builtin("nino-emoji-large.gguf") && !is_builtin("emoji"));
    }

    #[test]
    fn a_damaged_copy_is_written_anew() {
        let cache = tempfile::tempdir().unwrap();
        let path = builtin_model(cache.path()).unwrap();
        assert!(path.starts_with(cache.path()));
        let mut bytes = std::fs::read(&path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(&path, &bytes).unwrap();
        assert_eq!(builtin_model(cache.path()).unwrap(), path);
        assert!(std::fs::read(&path).unwrap() == BYTES);
    }

    #[cfg(unix)]
    #[test]
    fn many_who_start_at_once_get_one_and_the_same_file() {
        use std::os::unix::fs::MetadataExt;
        let cache = tempfile::tempdir().unwrap();
        let start = std::sync::Barrier::new(6);
        let found: Vec<u64> = std::thread::scope(|scope| {
            let one = || {
                start.wait();
                let path = builtin_model(cache.path()).unwrap();
                std::fs::metadata(path).unwrap().ino()
            };
            let all: Vec<_> = (0..6).map(|_| scope.spawn(one)).collect();
            all.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(found.iter().all(|ino| *ino == found[0]), "{found:?}");
    }
}
