//! A file or folder that is written beside its target and moved there when it is whole.

use std::fs::{File, OpenOptions, Permissions};
use std::io;
use std::path::{Path, PathBuf};

use crate::open::check_regular;
use crate::orphans::{Claim, new_name, sweep_once};
use crate::resolve::{folder_of, resolve};
use crate::{FileError, unfinished};

/// Names that are tried before giving up; one is enough unless someone sweeps at the same moment.
const ATTEMPTS: usize = 16;

/// Something unfinished. Dropped before [`Pending::keep`], it is removed; so it is by
/// [`crate::end_at_once`], and after a kill by the next output in its folder.
#[derive(Debug)]
pub struct Pending {
    /// The path as the caller named it, for messages.
    target: PathBuf,
    /// Where the links of `target` lead.
    place: PathBuf,
    temporary: PathBuf,
    /// Open as long as someone is writing: it holds the lock that says so.
    lock: Option<File>,
}

impl Pending {
    /// A new file, and itself open for reading and writing. It gets the permission bits of the file
    /// that it will replace; where `target` is a link, that is the file the link leads to.
    pub fn file(target: &Path) -> Result<(Pending, File), FileError> {
        let place = resolve(target)?;
        let replaced = match std::fs::metadata(&place) {
            Ok(meta) => {
                check_regular(target, meta.file_type(), "written")?;
                Some(bits(&meta.permissions()))
            }
            Err(_) => None,
        };
        let make = |temporary: &Path| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true);
            #[cfg(unix)]
            if let Some(replaced) = &replaced {
                use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
                // From the first moment: what was private is never readable to others.
                options.mode(replaced.mode());
            }
            options.open(temporary).map(Some)
        };
        let (pending, file) = Pending::new(target, &place, make)?;
        let file = file.expect("a file was made and opened");
        if let Some(replaced) = replaced {
            // Exactly, whatever the umask left of it. A read-only file can be replaced as well.
            file.set_permissions(replaced)
                .map_err(FileError::io(target, "set the permissions"))?;
        }
        Ok((pending, file))
    }

    /// A new folder. Where there is one at `target` when it is finished, [`Pending::keep`] fails.
    pub fn folder(target: &Path) -> Result<Pending, FileError> {
        let place = resolve(target)?;
        let (pending, _) = Pending::new(target, &place, |temporary| {
            std::fs::create_dir(temporary)?;
            // Windows does not open folders as files, and has no need of the lock.
            Ok(File::open(temporary).ok())
        })?;
        Ok(pending)
    }

    /// Whether a file can be made where `target` says: one is made, and removed again.
    pub fn probe(target: &Path) -> Result<(), FileError> {
        Pending::file(target).map(drop)
    }

    /// What is being written.
    pub fn temporary(&self) -> &Path {
        &self.temporary
    }

    /// Where it will go, as the caller named it.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Moves it to its target, over what is there.
    pub fn keep(self) -> Result<(), FileError> {
        std::fs::rename(&self.temporary, &self.place)
            .map_err(FileError::io(&self.target, "put what is finished in place"))
    }

    fn new(
        target: &Path,
        place: &Path,
        create: impl Fn(&Path) -> io::Result<Option<File>>,
    ) -> Result<(Pending, Option<File>), FileError> {
        sweep_once(folder_of(place));
        let failed = FileError::io(target, "create the file");
        let mut last = io::Error::from(io::ErrorKind::AlreadyExists);
        for _ in 0..ATTEMPTS {
            let temporary = new_name(place);
            // Before it is made, so that a signal finds it at any moment.
            unfinished::register(&temporary);
            let file = match create(&temporary) {
                Ok(file) => file,
                Err(error) => {
                    unfinished::unregister(&temporary);
                    if error.kind() == io::ErrorKind::AlreadyExists {
                        last = error;
                        continue;
                    }
                    return Err(failed(error));
                }
            };
            // From here on dropping it removes what was made.
            let mut pending = Pending {
                target: target.to_owned(),
                place: place.to_owned(),
                temporary,
                lock: None,
            };
            match file.as_ref().map_or(Claim::Unsupported, Claim::of) {
                Claim::Taken => pending.lock = file.as_ref().and_then(|f| f.try_clone().ok()),
                Claim::Lost => continue,
                Claim::Unsupported => {}
            }
            return Ok((pending, file));
        }
        Err(failed(last))
    }
}

/// Who may read and write; not the bits that make a program run as its owner.
fn bits(permissions: &Permissions) -> Permissions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        Permissions::from_mode(permissions.mode() & 0o777)
    }
    #[cfg(not(unix))]
    permissions.clone()
}

impl Drop for Pending {
    fn drop(&mut self) {
        drop(self.lock.take());
        unfinished::remove(&self.temporary);
        unfinished::unregister(&self.temporary);
    }
}
