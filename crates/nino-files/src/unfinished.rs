//! The files and folders of this process that are not finished yet, for a process that ends at
//! once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Removes all that is only half written. For a signal handler's thread that is about to end the
/// process; outputs that are still being written fail afterwards.
pub fn remove_all_unfinished() {
    with(|all| all.iter().for_each(|path| remove(path)));
}

pub(crate) fn register(path: &Path) {
    with(|all| all.insert(path.to_owned()));
}

pub(crate) fn unregister(path: &Path) {
    with(|all| all.remove(path));
}

pub(crate) fn contains(path: &Path) -> bool {
    with(|all| all.contains(path))
}

/// Removes a file or a folder with all that is in it. One that cannot be removed stays; one that
/// was never made, or has been renamed, is not there.
pub(crate) fn remove(path: &Path) {
    let _ = std::fs::remove_file(path).or_else(|_| std::fs::remove_dir_all(path));
}

fn with<T>(f: impl FnOnce(&mut BTreeSet<PathBuf>) -> T) -> T {
    f(&mut UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner))
}
