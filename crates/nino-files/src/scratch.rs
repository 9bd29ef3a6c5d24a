//! Room on a disk: how much is free, and large temporary files without a name.

use std::env;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// The folder for large files: unlike `/tmp`, it is never in memory.
const LARGE: &str = "/var/tmp";

/// A file without a name, gone when it is closed, and the folder whose disk it is on: the one
/// given, else `/var/tmp`, else the system's folder for temporary files.
pub fn scratch(folder: Option<&Path>) -> io::Result<(File, PathBuf)> {
    let named = folder.map(PathBuf::from);
    let mut folders = named.into_iter().chain([PathBuf::from(LARGE)]);
    match folders.find_map(|folder| Some((tempfile::tempfile_in(&folder).ok()?, folder))) {
        Some(found) => Ok(found),
        None => Ok((tempfile::tempfile()?, env::temp_dir())),
    }
}

/// Makes the file `bytes` long, with its place on the disk where the system can do that. An error
/// of kind [`ErrorKind::StorageFull`] if there is less room than that.
pub fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    if free_bytes_of(file).is_some_and(|free| free < bytes) {
        return Err(ErrorKind::StorageFull.into());
    }
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let length = libc::off_t::try_from(bytes).map_err(io::Error::other)?;
        // SAFETY: the descriptor is open as long as the file is.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, length) } == 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        if error.kind() != ErrorKind::Unsupported {
            return Err(error);
        }
    }
    file.set_len(bytes)
}

/// Bytes that this user may still write to the disk that a folder or file is on; `None` where the
/// system does not tell.
pub fn free_bytes(path: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::CString::new(path.as_os_str().as_bytes()).ok()?;
        // SAFETY: the path ends with a zero byte and outlives the call.
        free(|disk| unsafe { libc::statvfs(path.as_ptr(), disk) })
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// [`free_bytes`] of the disk that an open file is on.
pub fn free_bytes_of(file: &File) -> Option<u64> {
    #[cfg(unix)]
    {
        use std::os::fd::AsRawFd;
        // SAFETY: the descriptor is open as long as the file is.
        free(|disk| unsafe { libc::fstatvfs(file.as_raw_fd(), disk) })
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        None
    }
}

#[cfg(unix)]
fn free(ask: impl FnOnce(*mut libc::statvfs) -> i32) -> Option<u64> {
    let mut disk = std::mem::MaybeUninit::<libc::statvfs>::uninit();
    if ask(disk.as_mut_ptr()) != 0 {
        return None;
    }
    // SAFETY: the call succeeded, so it filled what it was given.
    let disk = unsafe { disk.assume_init() };
    #[allow(clippy::unnecessary_cast)] // not of one type on all systems
    Some(disk.f_bavail as u64 * disk.f_frsize as u64)
}
