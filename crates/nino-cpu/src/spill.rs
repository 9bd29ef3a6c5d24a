//! Values outside the arena, in a temporary file without a name: it is gone when the session is.

use std::fs::File;

use nino_graph::ExecError;

pub(crate) struct Spill {
    file: File,
}

impl Spill {
    pub(crate) fn new(bytes: u64) -> Result<Spill, ExecError> {
        let file = tempfile::tempfile().map_err(failed("create"))?;
        file.set_len(bytes).map_err(failed("size"))?;
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
