//! Positioned reads from a file or from bytes in memory, so that every parser runs on both.

use std::io;
use std::path::Path;

use nino_files::Opened;

use crate::Result;

/// Bytes at known positions; reading past the end is an error, never a short read.
pub trait Source {
    fn size(&self) -> u64;
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
}

/// A regular file. Whoever reads from it asks [`FileSource::check_unchanged`] afterwards.
#[derive(Debug)]
pub struct FileSource {
    file: Opened,
}

impl FileSource {
    pub fn open(path: &Path) -> Result<FileSource> {
        Ok(FileSource {
            file: Opened::open(path)?,
        })
    }

    /// An error if the file was written to since it was opened: what was read may then be a
    /// mixture.
    pub fn check_unchanged(&self) -> Result<()> {
        Ok(self.file.check_unchanged()?)
    }
}

impl Source for FileSource {
    fn size(&self) -> u64 {
        self.file.size()
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }
}

impl Source for [u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let bytes = usize::try_from(offset)
            .ok()
            .and_then(|start| self.get(start..start.checked_add(buf.len())?))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        buf.copy_from_slice(bytes);
        Ok(())
    }
}
