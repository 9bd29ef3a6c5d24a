//! Values outside the arena, in a temporary file without a name, which goes when the session does.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use nino_graph::ExecError;

pub(crate) struct Spill {
    file: File,
}

impl Spill {
    /// Takes all of the disk that it will need, or none: a full disk half-way would cost the whole
    /// run. The file is in `folder`, or where that is not given or cannot be written, in the
    /// system's folders for temporary files.
    pub(crate) fn new(folder: Option<&Path>, bytes: u64) -> Result<Spill, ExecError> {
        let (file, folder) = temporary_file(folder).map_err(failed("create"))?;
        Spill::of(file, &folder, bytes)
    }

    /// Bytes that are free where [`Spill::new`] would put its file, if the system tells.
    pub(crate) fn free_bytes(folder: Option<&Path>) -> Option<u64> {
        let (file, _) = temporary_file(folder).ok()?;
        free_bytes(&file)
    }

    fn of(file: File, folder: &Path, bytes: u64) -> Result<Spill, ExecError> {
        let free = free_bytes(&file);
        let taken = match free {
            Some(free) if free < bytes => Err(ErrorKind::StorageFull.into()),
            _ => take(&file, bytes),
        };
        taken.map_err(|e: io::Error| match e.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ExecError::Disk {
                folder: folder.display().to_string(),
                wanted: bytes,
                free,
            },
            _ => failed("size")(e),
        })?;
        Ok(Spill { file })
    }

    #[cfg(unix)]
    pub(crate) fn read(&self, at: u64, dst: &mut [u8]) -> Result<(), ExecError> {
        use std::os::unix::fs::FileExt;
        self.file.read_exact_at(dst, at).map_err(failed("read"))
    }

    #[cfg(unix)]
    pub(crate) fn write(&self, at: u64, src: &[u8]) -> Result<(), ExecError> {
        use std::os::unix::fs::FileExt;
        self.file.write_all_at(src, at).map_err(failed("write"))
    }

    #[cfg(not(unix))]
    pub(crate) fn read(&self, at: u64, dst: &mut [u8]) -> Result<(), ExecError> {
        use std::io::{Read, Seek, SeekFrom};
        let mut file = &self.file;
        file.seek(SeekFrom::Start(at)).map_err(failed("read"))?;
        file.read_exact(dst).map_err(failed("read"))
    }

    #[cfg(not(unix))]
    pub(crate) fn write(&self, at: u64, src: &[u8]) -> Result<(), ExecError> {
        use std::io::{Seek, SeekFrom, Write};
        let mut file = &self.file;
        file.seek(SeekFrom::Start(at)).map_err(failed("write"))?;
        file.write_all(src).map_err(failed("write"))
    }
}

/// A file without a name and the folder it is in: the one given, else the first of the system's.
fn temporary_file(folder: Option<&Path>) -> io::Result<(File, PathBuf)> {
    let mut error = ErrorKind::NotFound.into();
    for folder in folder
        .map(PathBuf::from)
        .into_iter()
        .chain(system_folders())
    {
        match tempfile::tempfile_in(&folder) {
            Ok(file) => return Ok((file, folder)),
            Err(e) => error = e,
        }
    }
    Err(error)
}

/// Where files go when nobody named a folder, best first. `/var/tmp` is for large ones: unlike `/tmp`
/// it is never in memory.
fn system_folders() -> [PathBuf; 2] {
    let last = if cfg!(unix) {
        PathBuf::from("/tmp")
    } else {
        std::env::temp_dir()
    };
    [PathBuf::from("/var/tmp"), last]
}

/// Makes the file `bytes` long, and reserves them on the disk where the system can.
fn take(file: &File, bytes: u64) -> io::Result<()> {
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

/// Gives the free bytes of the disk that a file is on, where the system tells.
fn free_bytes(file: &File) -> Option<u64> {
    #[cfg(unix)]
    {
        use std::os::fd::AsRawFd;
        let mut disk = std::mem::MaybeUninit::<libc::statvfs>::uninit();
        // SAFETY: the descriptor is open as long as the file is, and the call fills what it is
        // given.
        let disk = unsafe {
            if libc::fstatvfs(file.as_raw_fd(), disk.as_mut_ptr()) != 0 {
                return None;
            }
            disk.assume_init()
        };
        #[allow(clippy::unnecessary_cast)] // not of one type on all systems
        Some(disk.f_bavail as u64 * disk.f_frsize as u64)
    }
    #[cfg(not(unix))]
    {
        let _ = file;
        None
    }
}

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> ExecError {
    move |e| ExecError::Device {
        message: format!("could not {what} the temporary file for values outside the arena: {e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{ExecError, Spill};
    use std::path::Path;

    #[test]
    fn the_folder_that_is_given_is_used_and_one_that_is_not_there_is_passed_over() {
        let folder = tempfile::tempdir().unwrap();
        let Err(error) = Spill::new(Some(folder.path()), 1 << 60) else {
            panic!("no disk has an exbibyte");
        };
        let named = folder.path().display().to_string();
        assert!(error.to_string().contains(&named), "{error}");
        let missing = folder.path().join("missing");
        assert!(Spill::new(Some(&missing), 1 << 20).is_ok());
        assert!(Spill::new(None::<&Path>, 1 << 20).is_ok());
    }

    #[test]
    fn a_disk_without_the_room_is_told_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let within = |bytes| {
            let file = tempfile::tempfile_in(&folder).unwrap();
            Spill::of(file, folder.path(), bytes)
        };
        let small = within(1 << 20).unwrap();
        small.write((1 << 20) - 4, &[1, 2, 3, 4]).unwrap();
        let mut read = [0; 4];
        small.read((1 << 20) - 4, &mut read).unwrap();
        assert_eq!(read, [1, 2, 3, 4]);
        let Err(error) = within(1 << 60) else {
            panic!("no disk has an exbibyte");
        };
        assert!(matches!(error, ExecError::Disk { .. }), "{error}");
        let folder = folder.path().display().to_string();
        assert!(error.to_string().contains(&folder), "{error}");
    }
}
