//! A file that appears complete or not at all: written beside its target, renamed when finished,
//! removed when dropped.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use tempfile::NamedTempFile;

use crate::{Error, Result};

pub struct AtomicFile {
    target: PathBuf,
    writer: BufWriter<NamedTempFile>,
}

impl AtomicFile {
    pub fn create(target: &Path) -> Result<AtomicFile> {
        let folder = match target.parent() {
            Some(p) if !p.as_os_str().is_empty() => p,
            _ => Path::new("."),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".nino-").suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // tempfile's default is 0600; the umask still applies to this.
            builder.permissions(std::fs::Permissions::from_mode(0o666));
        }
        let file = builder
            .tempfile_in(folder)
            .map_err(Error::io(target, "create"))?;
        Ok(AtomicFile {
            target: target.to_owned(),
            writer: BufWriter::with_capacity(1 << 20, file),
        })
    }

    /// Flushes to disk and renames to the target.
    pub fn commit(self) -> Result<()> {
        let AtomicFile { target, writer } = self;
        let file = writer
            .into_inner()
            .map_err(|e| Error::io(&target, "write")(e.into_error()))?;
        file.as_file()
            .sync_all()
            .map_err(Error::io(&target, "flush"))?;
        file.persist(&target)
            .map_err(|e| Error::io(&target, "rename to")(e.error))?;
        Ok(())
    }

    pub fn target(&self) -> &Path {
        &self.target
    }

    pub fn as_file(&self) -> &File {
        self.writer.get_ref().as_file()
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
