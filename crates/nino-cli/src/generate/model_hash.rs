//! A1111's short name of a model: the first ten digits of its file's SHA-256. Computed on a thread
//! of its own while the picture is made, and remembered until the file changes.

use nino_files::{AtomicFile, Opened};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::{Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::UNIX_EPOCH;

const DIGITS: usize = 10;

/// Bytes of the list of hashes; each takes some two hundred.
const MAX_LIST: u64 = 16 << 20;

pub(super) struct ModelHash {
    work: Mutex<Option<JoinHandle<Option<String>>>>,
    done: OnceLock<Option<String>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Known {
    bytes: u64,
    modified: u64,
    sha256: String,
}

impl ModelHash {
    /// A folder has none. `cache` is where hashes are remembered.
    pub(super) fn start(model: &Path, cache: Option<&Path>) -> ModelHash {
        let new = |work| ModelHash {
            work: Mutex::new(work),
            done: OnceLock::new(),
        };
        if !model.is_file() {
            return new(None);
        }
        let model = fs::canonicalize(model).unwrap_or_else(|_| model.to_owned());
        let list = cache.map(|c| c.join("model_hashes.json"));
        let work = move || hash(&model, list.as_deref());
        let thread = std::thread::Builder::new().name("model hash".to_owned());
        new(thread.spawn(work).ok())
    }

    /// Waits for it; a file that could not be read has none.
    pub(super) fn wait(&self) -> Option<&str> {
        let join = || {
            let work = self.work.lock().ok()?.take();
            work?.join().ok()?
        };
        self.done.get_or_init(join).as_deref()
    }
}

fn hash(model: &Path, list: Option<&Path>) -> Option<String> {
    let meta = fs::metadata(model).ok()?;
    let modified = meta.modified().ok()?.duration_since(UNIX_EPOCH).ok()?;
    let mut known = read(list);
    let name = model.to_string_lossy().into_owned();
    if let Some(found) = known.get(&name)
        && (found.bytes, found.modified) == (meta.len(), modified.as_secs())
    {
        return Some(found.sha256[..DIGITS].to_owned());
    }
    let sha256 = sha256(model)?;
    let short = sha256[..DIGITS].to_owned();
    known.insert(
        name,
        Known {
            bytes: meta.len(),
            modified: modified.as_secs(),
            sha256,
        },
    );
    write(list, &known);
    Some(short)
}

fn sha256(path: &Path) -> Option<String> {
    let mut file = Opened::open(path).ok()?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer).ok()? {
            0 => break,
            n => hasher.update(&buffer[..n]),
        }
    }
    Some(format!("{:x}", hasher.finalize()))
}

/// A list that is missing or of another version is an empty one.
fn read(list: Option<&Path>) -> BTreeMap<String, Known> {
    let text = list.and_then(|l| nino_files::read_own(l, MAX_LIST));
    let known: Option<BTreeMap<String, Known>> = text.and_then(|t| serde_json::from_slice(&t).ok());
    let whole = |k: &Known| k.sha256.len() == 64 && k.sha256.is_ascii();
    known
        .unwrap_or_default()
        .into_iter()
        .filter(|(_, k)| whole(k))
        .collect()
}

/// Remembering is a convenience: where it fails the file is hashed again.
fn write(list: Option<&Path>, known: &BTreeMap<String, Known>) {
    let (Some(list), Ok(text)) = (list, serde_json::to_string_pretty(known)) else {
        return;
    };
    let folder = list.parent().unwrap_or(Path::new("."));
    if fs::create_dir_all(folder).is_ok() {
        let _ = AtomicFile::replace(list, text.as_bytes());
    }
}

#[cfg(test)]
mod tests;
