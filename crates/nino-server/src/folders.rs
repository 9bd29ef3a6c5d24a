//! The folders that clients name files in. No name leads out of them: not by `..`, not by an
//! absolute path, not by a link.

use crate::error::{Refused, ServerError};
use serde_json::Value;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Component, Path, PathBuf};

/// The longest name of a file or folder, in bytes.
const LONGEST_NAME: usize = 240;
/// The most folders within each other.
const DEEPEST: usize = 16;

/// ComfyUI's folders.
#[derive(Clone, Debug)]
pub(crate) struct Folders {
    pub(crate) input: PathBuf,
    pub(crate) output: PathBuf,
    pub(crate) temp: PathBuf,
    pub(crate) user: PathBuf,
}

/// The one server of a data folder, until it is dropped.
///
/// A second one would remove the pictures of the first one's `temp` and run its jobs once more.
pub(crate) struct Claim {
    /// The lock is the system's, so that it ends with the process, however that ends.
    _lock: File,
}

impl Claim {
    /// Claims `data`. An error where another server has it.
    pub(crate) fn of(data: &Path) -> Result<Claim, ServerError> {
        let folder = data.join("user");
        let failed = |path: PathBuf| move |source| ServerError::Folder { path, source };
        fs::create_dir_all(&folder).map_err(failed(folder.clone()))?;
        let path = folder.join("nino.lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .map_err(failed(path.clone()))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(ServerError::InUse {
                    path: data.to_owned(),
                });
            }
            // Some file systems of a network have no locks.
            Err(TryLockError::Error(e)) => {
                tracing::warn!("{} cannot be locked: {e}", path.display());
            }
        }
        Ok(Claim { _lock: lock })
    }
}

impl Folders {
    /// Makes the folders below `data`. Pictures that were only to be looked at are removed.
    pub(crate) fn make(data: &Path) -> Result<Folders, (PathBuf, io::Error)> {
        let temp = data.join("temp");
        if let Err(e) = fs::remove_dir_all(&temp)
            && e.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!("{} cannot be emptied: {e}", temp.display());
        }
        let make = |path: PathBuf| -> Result<PathBuf, (PathBuf, io::Error)> {
            let made = fs::create_dir_all(&path).and_then(|()| fs::canonicalize(&path));
            made.map_err(|e| (path, e))
        };
        Ok(Folders {
            input: make(data.join("input"))?,
            output: make(data.join("output"))?,
            temp: make(temp)?,
            user: make(data.join("user/default"))?,
        })
    }

    /// The folder that ComfyUI calls by this type.
    pub(crate) fn of_type(&self, kind: &str) -> Option<&Path> {
        match kind {
            "input" => Some(&self.input),
            "output" => Some(&self.output),
            "temp" => Some(&self.temp),
            _ => None,
        }
    }

    /// A name as ComfyUI's pages write it, `name [output]`, and the type it says.
    pub(crate) fn annotated(name: &str) -> (&str, Option<&'static str>) {
        for kind in ["input", "output", "temp"] {
            let stripped = name.strip_suffix(']').and_then(|n| n.strip_suffix(kind));
            if let Some(name) = stripped.and_then(|n| n.strip_suffix('[')) {
                return (name.trim_end(), Some(kind));
            }
        }
        (name, None)
    }
}

/// The place below `base` that a name means, whether or not something is there. Parts are joined
/// by `/`; empty ones and `.` mean nothing.
pub(crate) fn below(base: &Path, names: &[&str]) -> Result<PathBuf, Refused> {
    let mut path = base.to_owned();
    let mut depth = 0;
    for name in names {
        if name.contains(['\\', '\0', ':']) || name.chars().any(char::is_control) {
            return Err(Refused::bad(
                "a name has characters that names of files cannot have",
            ));
        }
        for part in Path::new(name).components() {
            match part {
                Component::Normal(part) if part.len() <= LONGEST_NAME => {
                    path.push(part);
                    depth += 1;
                }
                Component::Normal(_) => return Err(Refused::bad("a name is too long")),
                Component::CurDir => {}
                _ => return Err(Refused::bad("a name leads out of its folder")),
            }
        }
    }
    if depth > DEEPEST {
        return Err(Refused::bad(
            "a name has too many folders within each other",
        ));
    }
    stays(base, &path)?;
    Ok(path)
}

/// The file below `base` that a name means. An error where there is none.
pub(crate) fn file(base: &Path, names: &[&str]) -> Result<PathBuf, Refused> {
    let path = below(base, names)?;
    if path.is_file() {
        return Ok(path);
    }
    Err(Refused::not_found("there is no such file"))
}

/// The file that an entry of the history names.
pub(crate) fn find_made(folders: &Folders, entry: &Value) -> Result<PathBuf, Refused> {
    let text = |key: &str| entry[key].as_str().unwrap_or_default();
    let gone = || Refused::not_found("the picture is not there any more");
    let base = folders.of_type(text("type")).ok_or_else(gone)?;
    file(base, &[text("subfolder"), text("filename")]).map_err(|_| gone())
}

/// An error where a link on the way leads out of `base`, which has no links in it.
fn stays(base: &Path, path: &Path) -> Result<(), Refused> {
    let mut part = path;
    loop {
        match fs::canonicalize(part) {
            Ok(real) if real.starts_with(base) => return Ok(()),
            Ok(_) => return Err(Refused::forbidden("a link leads out of its folder")),
            // A link to nothing would be followed by whoever writes there.
            Err(_) if part.is_symlink() => {
                return Err(Refused::forbidden("a link leads to nothing"));
            }
            Err(_) => match part.parent() {
                Some(parent) if parent.starts_with(base) => part = parent,
                _ => return Ok(()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_do_not_lead_out() {
        let folder = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        fs::create_dir(base.join("in")).unwrap();
        fs::write(base.join("secret"), "x").unwrap();
        let input = base.join("in");
        let wrong: [&[&str]; 10] = [
            &["../secret"],
            &["a/../../secret"],
            &["/etc/passwd"],
            &["..", "secret"],
            &["a\\..\\..\\secret"],
            &["C:secret"],
            &["a\0b"],
            &["line\nbreak"],
            &[&"n".repeat(300)],
            &["a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q"],
        ];
        for names in wrong {
            assert!(below(&input, names).is_err(), "{names:?}");
        }
        for names in [&["", "a.png"][..], &["sub/dir", "b.png"], &["./c.png"]] {
            assert!(
                below(&input, names).unwrap().starts_with(&input),
                "{names:?}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_lead_out() {
        let folder = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(folder.path()).unwrap();
        let input = base.join("in");
        fs::create_dir(&input).unwrap();
        fs::write(base.join("secret"), "x").unwrap();
        fs::write(input.join("own"), "x").unwrap();
        std::os::unix::fs::symlink(&base, input.join("up")).unwrap();
        std::os::unix::fs::symlink(base.join("secret"), input.join("direct")).unwrap();
        std::os::unix::fs::symlink(base.join("none"), input.join("dangling")).unwrap();
        std::os::unix::fs::symlink(input.join("own"), input.join("inside")).unwrap();
        for name in ["up/secret", "up/new", "direct", "dangling"] {
            assert!(below(&input, &[name]).is_err(), "{name}");
        }
        assert!(file(&input, &["inside"]).is_ok());
    }

    #[test]
    fn annotations_say_the_folder() {
        assert_eq!(
            Folders::annotated("a.png [output]"),
            ("a.png", Some("output"))
        );
        assert_eq!(Folders::annotated("a.png[temp]"), ("a.png", Some("temp")));
        assert_eq!(Folders::annotated("a [x].png"), ("a [x].png", None));
    }
}
