//! Files and folders that are being written.

use super::{MediaError, io_error};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// All that there are in this process.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A file or folder beside its place that moves there when it is whole, and is removed otherwise.
pub(super) struct Pending {
    pub(super) path: PathBuf,
    pub(super) temporary: PathBuf,
}

impl Pending {
    pub(super) fn new(path: &Path) -> Pending {
        let name = path
            .file_name()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        // The extension stays last: encoders look at it.
        let temporary = path.with_file_name(format!(".{}.{name}", std::process::id()));
        unfinished(|all| all.insert(temporary.clone()));
        Pending {
            path: path.to_owned(),
            temporary,
        }
    }

    pub(super) fn keep(self) -> Result<(), MediaError> {
        std::fs::rename(&self.temporary, &self.path)
            .map_err(io_error(&self.path, "put what is finished in place"))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        remove(&self.temporary);
        unfinished(|all| all.remove(&self.temporary));
    }
}

/// Removes what is only half there, for a program that ends at once.
pub fn discard_unfinished() {
    unfinished(|all| all.iter().for_each(|path| remove(path)));
}

fn unfinished<T>(f: impl FnOnce(&mut BTreeSet<PathBuf>) -> T) -> T {
    f(&mut UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Nothing to do about what cannot be removed; it may be in its place, or never have been made.
fn remove(temporary: &Path) {
    let _ = std::fs::remove_file(temporary).or_else(|_| std::fs::remove_dir_all(temporary));
}
