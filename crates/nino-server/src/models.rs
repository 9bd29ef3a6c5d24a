//! Model files by the names of ComfyUI's folders. The built-in model is a checkpoint like others,
//! and each of its parts can be loaded by itself.

use nino_engine::{BUILTIN, EngineError, Found, Library, ModelKind, builtin_model};
use nino_workflow::{Folder, HostError};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a list of files is believed. Every node of a graph asks for one.
const FRESH: Duration = Duration::from_secs(1);

/// The folders of the parts that the built-in model has.
const PARTS: [Folder; 4] = [
    Folder::Checkpoints,
    Folder::DiffusionModels,
    Folder::TextEncoders,
    Folder::Vae,
];

pub(crate) struct Models {
    library: Library,
    cache: PathBuf,
    listed: Mutex<HashMap<Vec<ModelKind>, Listed>>,
}

/// What was found, and when.
struct Listed {
    at: Instant,
    found: Arc<Vec<Found>>,
}

impl Models {
    pub(crate) fn new(library: Library, cache: &Path) -> Models {
        Models {
            library,
            cache: cache.to_owned(),
            listed: Mutex::default(),
        }
    }

    /// ComfyUI's names of folders, as far as there is a use for them here.
    pub(crate) fn folders() -> Vec<&'static str> {
        let first = |kind: &ModelKind| kind.folders().first().copied();
        ModelKind::ALL.iter().filter_map(first).collect()
    }

    /// What lies in the folder that ComfyUI calls by this name; `None` where there is no such.
    pub(crate) fn in_folder(&self, name: &str) -> Option<Arc<Vec<Found>>> {
        let kinds = kinds(name);
        (!kinds.is_empty()).then(|| self.list(&kinds))
    }

    /// The names in a folder, the built-in model first.
    pub(crate) fn names(&self, folder: &str) -> Option<Vec<String>> {
        let builtin = PARTS.iter().any(|part| part.name() == folder);
        let builtin = builtin.then(|| BUILTIN.to_owned());
        let found = self.in_folder(folder)?;
        let mut names: Vec<String> = found.iter().map(|f| f.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        Some(builtin.into_iter().chain(names).collect())
    }

    /// The file of that name in a folder.
    pub(crate) fn find(&self, folder: &str, name: &str) -> Result<PathBuf, HostError> {
        if name == BUILTIN {
            return self.builtin().map_err(HostError::new);
        }
        let listed = self.in_folder(folder).unwrap_or_default();
        let found = listed.iter().find(|found| found.name == name);
        let path = found.map(|found| found.path.clone());
        path.ok_or_else(|| HostError::new(format!("there is no {name:?} in {folder}")))
    }

    pub(crate) fn builtin(&self) -> Result<PathBuf, EngineError> {
        builtin_model(&self.cache)
    }

    /// Folders with textual inversions.
    pub(crate) fn embeddings(&self) -> Vec<PathBuf> {
        self.library
            .folders(ModelKind::Embedding)
            .unwrap_or_default()
    }

    /// The folders on disk behind a name of ComfyUI's.
    pub(crate) fn paths(&self, folder: &str) -> Vec<PathBuf> {
        let each = kinds(folder).into_iter();
        each.flat_map(|kind| self.library.folders(kind).unwrap_or_default())
            .collect()
    }

    fn list(&self, kinds: &[ModelKind]) -> Arc<Vec<Found>> {
        let mut listed = self.listed.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = listed.get(kinds)
            && known.at.elapsed() < FRESH
        {
            return Arc::clone(&known.found);
        }
        let found = self.library.list(kinds).unwrap_or_else(|e| {
            tracing::warn!("{e}");
            Vec::new()
        });
        let found = Arc::new(found);
        listed.insert(
            kinds.to_vec(),
            Listed {
                at: Instant::now(),
                found: Arc::clone(&found),
            },
        );
        found
    }
}

/// The kinds of files in the folder of that name.
fn kinds(folder: &str) -> Vec<ModelKind> {
    let all = ModelKind::ALL.iter().copied();
    all.filter(|kind| kind.folders().contains(&folder))
        .collect()
}
