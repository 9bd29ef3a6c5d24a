//! Values outside the arena, in a temporary file without a name: it is gone when the session is.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use nino_graph::ExecError;

pub(crate) struct Spill {
    file: File,
}

impl Spill {
    /// Takes all of the disk that it will need, or none: a full disk half-way would cost the whole run.
    pub(crate) fn new(bytes: u64) -> Result<Spill, ExecError> {
        let (file, folder) = nino_files::scratch().map_err(failed("create"))?;
        Spill::of(file, &folder, bytes)
    }

    fn of(file: File, folder: &Path, bytes: u64) -> Result<Spill, ExecError> {
        nino_files::reserve(&file, bytes).map_err(|e| match e.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => ExecError::Disk {
                folder: folder.display().to_string(),
                wanted: bytes,
                free: nino_files::free_bytes_of(&file),
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

fn failed(what: &'static str) -> impl Fn(std::io::Error) -> ExecError {
    move |e| ExecError::Device {
        message: format!("could not {what} the temporary file for values outside the arena: {e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::{ExecError, Spill};

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
