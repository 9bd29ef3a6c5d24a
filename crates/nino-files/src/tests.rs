//! Pipes, devices, links, kills and full pipes: what must never hang, overwrite or stay behind.

mod child;
mod open;
mod output;

use std::path::{Path, PathBuf};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Names in a folder, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[cfg(unix)]
fn fifo(folder: &Path) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    let path = folder.join("pipe");
    let name = std::ffi::CString::new(path.as_os_str().as_bytes()).unwrap();
    // SAFETY: the name ends with a zero byte.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    path
}

/// What `work` gives; a panic if it takes longer than `limit`.
#[track_caller]
fn within<T: Send + 'static>(limit: Duration, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (give, done) = channel();
    std::thread::spawn(move || give.send(work()));
    done.recv_timeout(limit).expect("it ends in time")
}
