//! Files of this user's caches, which are believed only where nobody else can have written them: a
//! driver runs what is in its cache of kernels.

use std::path::Path;

use crate::{read_small, resolve};

/// Reads a file of a cache; `None` where there is none, where it is larger than `most` bytes, or
/// where it is not [ours](is_ours).
pub fn read_own(path: &Path, most: u64) -> Option<Vec<u8>> {
    if !is_ours(path) {
        return None;
    }
    read_small(path, "a cache", most).ok()
}

/// Whether any user can put files into a folder, or others in the place of those there. Never so on
/// systems without such permissions.
pub fn is_open_to_all(folder: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let meta = std::fs::metadata(folder);
        meta.is_ok_and(|meta| meta.is_dir() && meta.mode() & OTHERS_WRITE != 0)
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        false
    }
}

/// The right of everybody to write.
#[cfg(unix)]
const OTHERS_WRITE: u32 = 0o002;

/// Whether only this user and root can have written the file at `path`, or can put another in its
/// place. On systems without such permissions, whether there is a file.
pub fn is_ours(path: &Path) -> bool {
    let folder = resolve::folder_of(path);
    let (Ok(file), Ok(folder)) = (std::fs::metadata(path), std::fs::metadata(folder)) else {
        return false;
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        const STICKY: u32 = 0o1000;
        // SAFETY: the call has no arguments and cannot fail.
        let me = unsafe { libc::geteuid() };
        let trusted = |uid: u32| uid == me || uid == 0;
        // In a sticky folder, such as /tmp, nobody replaces another user's file.
        let replaceable = folder.mode() & OTHERS_WRITE != 0 && folder.mode() & STICKY == 0;
        trusted(file.uid())
            && trusted(folder.uid())
            && file.mode() & OTHERS_WRITE == 0
            && !replaceable
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        file.is_file()
    }
}
