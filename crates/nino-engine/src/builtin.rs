//! The model in the box: carried inside the program, unpacked once into the user's cache.

use crate::EngineError;
use crate::media::MediaError;
use nino_files::{AtomicFile, Identity, Opened};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock, PoisonError};

/// What `--model` calls it.
pub const BUILTIN: &str = "nino-emoji";

static BYTES: &[u8] = include_bytes!("../../../models/nino-emoji.gguf");
/// Bytes that are looked at before their memory is given back: no plan counts on it.
const PIECE: usize = 1 << 20;

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

/// Whether a file holds the model, byte for byte: a header that looks right may have other weights
/// behind it. That takes a few milliseconds, so a file that was compared is known until it changes.
fn is_whole(path: &Path) -> bool {
    static KNOWN: Mutex<Option<Identity>> = Mutex::new(None);
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
    let known = || KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known().as_ref() == Some(file.identity()) {
        return true;
    }
    let mut read = vec![0; PIECE];
    let mut pieces = BYTES.chunks(PIECE).enumerate();
    let whole = pieces.all(|(i, expected)| {
        let found = &mut read[..expected.len()];
        let got = file.read_exact_at(found, (i * PIECE) as u64);
        let same = got.is_ok() && *found == *expected;
        nino_files::let_go(expected);
        same
    });
    if whole && file.check_unchanged().is_ok() {
        *known() = Some(file.identity().clone());
    }
    whole
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
    static SUM: OnceLock<u64> = OnceLock::new();
    *SUM.get_or_init(|| {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |byte: u8| hash = (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        for (i, piece) in BYTES.chunks(PIECE).enumerate() {
            // Every 997th byte of the whole.
            let first = (i * PIECE).next_multiple_of(997) - i * PIECE;
            piece.iter().skip(first).step_by(997).for_each(|&b| add(b));
            nino_files::let_go(piece);
        }
        BYTES[BYTES.len() - 64..].iter().for_each(|&b| add(b));
        hash
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
