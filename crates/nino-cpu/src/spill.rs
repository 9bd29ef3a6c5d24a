//! Values outside the arena, in a temporary file without a name, which goes when the session does.

use std::fs::File;
use std::io::ErrorKind;
use std::path::Path;

use nino_graph::ExecError;

pub(crate) struct Spill {
    file: File,
}

impl Spill {
    /// Takes all of the disk that it will need, or none: a full disk half-way would cost the whole
    /// run. The file is in `folder`, or where that is not given or cannot be written, in the
    /// system's folders for temporary files.
    pub(crate) fn new(folder: Option<&Path>, bytes: u64) -> Result<Spill, ExecError> {
        let (file, folder) = nino_files::scratch(folder).map_err(failed("create"))?;
        Spill::of(file, &folder, bytes)
    }

    /// Bytes that are free where [`Spill::new`] would put its file, if the system tells.
    pub(crate) fn free_bytes(folder: Option<&Path>) -> Option<u64> {
        let (file, _) = nino_files::scratch(folder).ok()?;
        nino_files::free_bytes_of(&file)
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
