//! A file that appears complete or not at all.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use crate::{FileError, Pending};

/// Buffered writing into a [`Pending`] file.
#[derive(Debug)]
pub struct AtomicFile {
    writer: BufWriter<File>,
    pending: Pending,
}

impl AtomicFile {
    pub fn create(target: &Path) -> Result<AtomicFile, FileError> {
        let (pending, file) = Pending::file(target)?;
        Ok(AtomicFile {
            writer: BufWriter::with_capacity(1 << 20, file),
            pending,
        })
    }

    /// Writes all of `bytes` as the whole of `target`.
    pub fn replace(target: &Path, bytes: &[u8]) -> Result<(), FileError> {
        let mut file = AtomicFile::create(target)?;
        file.write_all(bytes)
            .map_err(FileError::io(target, "write"))?;
        file.commit()
    }

    pub fn target(&self) -> &Path {
        self.pending.target()
    }

    /// Puts it in place.
    pub fn commit(mut self) -> Result<(), FileError> {
        self.flushed()?;
        self.pending.keep()
    }

    /// [`AtomicFile::commit`] for what is expensive to make again: first waits until the bytes are
    /// on the disk, so that they survive a loss of power.
    pub fn commit_to_disk(mut self) -> Result<(), FileError> {
        self.flushed()?;
        self.writer
            .get_ref()
            .sync_all()
            .map_err(FileError::io(self.pending.target(), "flush"))?;
        self.pending.keep()
    }

    fn flushed(&mut self) -> Result<(), FileError> {
        self.writer
            .flush()
            .map_err(FileError::io(self.pending.target(), "write"))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.writer.write(buf)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

impl Seek for AtomicFile {
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        self.writer.seek(pos)
    }
}
