//! Which files of the cache were compared with their hash, so that each is read once and not at
//! every use. A file that was written to since has another identity and is read again.

use crate::names::Etag;
use nino_files::{AtomicFile, Identity, read_small};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// Beside `blobs/`; Hugging Face's tools look at folders only.
const NAME: &str = ".nino-checked.json";
const MOST_BYTES: u64 = 8 << 20;

/// The list of one repository.
pub(crate) struct Checked {
    path: PathBuf,
}

/// [`Identity`] as numbers.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    place: Option<(u64, u64)>,
    size: u64,
    /// Nanoseconds since 1970.
    modified: Option<u64>,
}

impl State {
    fn at(path: &Path) -> Option<State> {
        let Identity {
            place,
            size,
            modified,
        } = Identity::at(path)?;
        let modified = modified.and_then(|m| m.duration_since(UNIX_EPOCH).ok());
        Some(State {
            place,
            size,
            modified: modified.map(|m| m.as_nanos() as u64),
        })
    }
}

impl Checked {
    pub(crate) fn new(repo_folder: &Path) -> Checked {
        Checked {
            path: repo_folder.join(NAME),
        }
    }

    /// Whether the file is as it was when it was compared.
    pub(crate) fn knows(&self, etag: &Etag, path: &Path) -> bool {
        let known = self.read().get(etag.as_str()).copied();
        known.is_some() && known == State::at(path)
    }

    /// Remembers that the file was compared just now. A list that cannot be written costs time at
    /// the next use and nothing else.
    pub(crate) fn remember(&self, etag: &Etag, path: &Path) {
        let Some(state) = State::at(path) else {
            return;
        };
        let mut all = self.read();
        all.insert(etag.as_str().to_owned(), state);
        let json = serde_json::to_vec(&all).unwrap_or_default();
        if let Err(error) = AtomicFile::replace(&self.path, &json) {
            tracing::debug!("{error}");
        }
    }

    /// A list that is damaged or not there is empty.
    fn read(&self) -> BTreeMap<String, State> {
        let bytes = read_small(&self.path, "a list of checked files", MOST_BYTES);
        let bytes = bytes.unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }
}
