//! Opening files to read. Only regular files are opened: a pipe would block for ever, a device may
//! have no end, and opening some devices has effects.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::FileError;

/// What tells one state of a file from another. Writing to the file changes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Identity {
    /// Device and inode, on systems that have them.
    pub place: Option<(u64, u64)>,
    pub size: u64,
    pub modified: Option<SystemTime>,
}

impl Identity {
    /// The file that a name stands for now; `None` where the system does not tell.
    pub fn at(path: &Path) -> Option<Identity> {
        std::fs::metadata(path).ok().as_ref().map(Identity::of)
    }

    fn of(meta: &Metadata) -> Identity {
        #[cfg(unix)]
        let place = {
            use std::os::unix::fs::MetadataExt;
            Some((meta.dev(), meta.ino()))
        };
        #[cfg(not(unix))]
        let place = None;
        Identity {
            place,
            size: meta.len(),
            modified: meta.modified().ok(),
        }
    }
}

/// A regular file that is open for reading, and how it was when it was opened.
#[derive(Debug)]
pub struct Opened {
    path: PathBuf,
    file: File,
    identity: Identity,
}

impl Opened {
    pub fn open(path: &Path) -> Result<Opened, FileError> {
        // Asked by name first, because opening a device can have effects; asked again below,
        // because the name may by then stand for something else.
        let meta = std::fs::metadata(path).map_err(FileError::io(path, "open"))?;
        check_regular(path, meta.file_type(), "read")?;
        let mut options = OpenOptions::new();
        options.read(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            // A pipe that took the file's place must not block.
            options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY);
        }
        let file = options.open(path).map_err(FileError::io(path, "open"))?;
        let meta = file
            .metadata()
            .map_err(FileError::io(path, "read the size"))?;
        check_regular(path, meta.file_type(), "read")?;
        Ok(Opened {
            path: path.to_owned(),
            identity: Identity::of(&meta),
            file,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of the file when it was opened.
    pub fn size(&self) -> u64 {
        self.identity.size
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// An error if the file was written to since it was opened. What was read before this call is
    /// of one state of the file if there is none. A file that was replaced by another of the same
    /// name is not changed: what is open is still the old one.
    pub fn check_unchanged(&self) -> Result<(), FileError> {
        let meta = self
            .file
            .metadata()
            .map_err(FileError::io(&self.path, "read the size"))?;
        let now = Identity::of(&meta);
        if now == self.identity {
            return Ok(());
        }
        let how = if now.size == self.identity.size {
            "it was written to".to_owned()
        } else {
            format!("it had {} bytes and has {}", self.identity.size, now.size)
        };
        Err(FileError::Changed {
            path: self.path.clone(),
            how,
        })
    }

    /// Fills `buf` from the file's bytes at `offset`; a short read is an error.
    #[cfg(unix)]
    pub fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        std::os::unix::fs::FileExt::read_exact_at(&self.file, buf, offset)
    }

    /// Fills `buf` from the file's bytes at `offset`; a short read is an error.
    #[cfg(windows)]
    pub fn read_exact_at(&self, mut buf: &mut [u8], mut offset: u64) -> io::Result<()> {
        use std::os::windows::fs::FileExt;
        while !buf.is_empty() {
            match self.file.seek_read(buf, offset) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => {
                    buf = &mut buf[n..];
                    offset += n as u64;
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }
}

impl Read for Opened {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.file.read(buf)
    }
}

impl Seek for Opened {
    fn seek(&mut self, pos: SeekFrom) -> io::Result<u64> {
        self.file.seek(pos)
    }
}

/// All bytes of a file that is read as `what` (such as "a shard list") and may have `most`. The
/// bound also holds for files that do not know their size, as those of `/proc`.
pub fn read_small(path: &Path, what: &'static str, most: u64) -> Result<Vec<u8>, FileError> {
    let opened = Opened::open(path)?;
    let too_long = |found| FileError::TooLong {
        path: path.to_owned(),
        what,
        found,
        most,
    };
    if opened.size() > most {
        return Err(too_long(Some(opened.size())));
    }
    let mut bytes = Vec::new();
    (&opened.file)
        .take(most + 1)
        .read_to_end(&mut bytes)
        .map_err(FileError::io(path, "read"))?;
    if bytes.len() as u64 > most {
        return Err(too_long(None));
    }
    // A file of `/proc` has no size before it is read.
    if opened.size() > 0 {
        opened.check_unchanged()?;
    }
    Ok(bytes)
}

/// [`read_small`] for UTF-8 text.
pub fn read_text(path: &Path, what: &'static str, most: u64) -> Result<String, FileError> {
    String::from_utf8(read_small(path, what, most)?).map_err(|_| FileError::NotText {
        path: path.to_owned(),
        what,
    })
}

/// Opens a file to go on writing it where an earlier process stopped, and creates it if it is not
/// there. A link is refused, not followed: what it leads to would be written over.
pub fn open_to_resume(path: &Path) -> Result<File, FileError> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).read(true).write(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY);
    }
    if let Ok(meta) = std::fs::symlink_metadata(path) {
        check_regular(path, meta.file_type(), "written")?;
    }
    let file = options.open(path).map_err(FileError::io(path, "open"))?;
    let meta = file.metadata().map_err(FileError::io(path, "open"))?;
    check_regular(path, meta.file_type(), "written")?;
    Ok(file)
}

/// `used` is what was to be done with it: "read" or "written".
pub(crate) fn check_regular(
    path: &Path,
    kind: FileType,
    used: &'static str,
) -> Result<(), FileError> {
    if kind.is_file() {
        return Ok(());
    }
    Err(FileError::NotRegular {
        path: path.to_owned(),
        found: name(kind),
        used,
    })
}

fn name(kind: FileType) -> &'static str {
    if kind.is_dir() {
        return "a folder";
    }
    if kind.is_symlink() {
        return "a link";
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        if kind.is_fifo() {
            return "a pipe";
        }
        if kind.is_socket() {
            return "a socket";
        }
        if kind.is_char_device() || kind.is_block_device() {
            return "a device";
        }
    }
    "something special"
}
