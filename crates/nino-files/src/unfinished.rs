//! The files and folders of this process that are not finished yet, for a process that ends at
//! once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Times that [`end_at_once`] tries to get the list of unfinished files, and the pause between.
const TRIES: usize = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Removes all that is only half written, ends child processes, and ends the process with this exit
/// code, whatever its other threads are doing.
///
/// It waits for nothing that could wait for the calling thread, so an allocator and the thread of a
/// signal handler may call it. Exit handlers do not run: those of graphics drivers are known to
/// crash while other threads still use the driver.
pub fn end_at_once(code: i32) -> ! {
    crate::child::end_all();
    remove_all();
    end_without_cleaning(code)
}

/// The same without removing anything: for a process in which even that has failed.
pub fn end_without_cleaning(code: i32) -> ! {
    #[cfg(unix)]
    // SAFETY: ends the process; there is nothing to keep valid.
    unsafe {
        libc::_exit(code)
    }
    #[cfg(not(unix))]
    std::process::exit(code)
}

/// Removes all that is only half written; outputs that are still being written fail afterwards.
pub(crate) fn remove_all() {
    if let Some(all) = soon() {
        all.iter().for_each(|path| remove(path));
    }
}

/// The list, unless somebody keeps it for long: that may be the calling thread itself.
fn soon() -> Option<MutexGuard<'static, BTreeSet<PathBuf>>> {
    for _ in 0..TRIES {
        match UNFINISHED.try_lock() {
            Ok(all) => return Some(all),
            Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => std::thread::sleep(PAUSE),
        }
    }
    None
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
