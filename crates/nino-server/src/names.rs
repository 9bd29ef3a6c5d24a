//! Names of files that are being written. A file appears when it is whole, which may take minutes:
//! until then its name is taken here, and nobody waits for it.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The largest number that a file's name is read to have. Names come from anybody, and numbers go
/// on from here.
const MOST: u64 = 1_000_000_000_000_000;

#[derive(Default)]
pub(crate) struct Names(Mutex<HashSet<PathBuf>>);

/// A name that nobody else is given until this is dropped.
pub(crate) struct Taken<'a> {
    names: &'a Names,
    path: PathBuf,
}

impl Names {
    /// Takes a path for a file; `None` where one is there, or is being written.
    pub(crate) fn take(&self, path: &Path) -> Option<Taken<'_>> {
        let mut taken = self.taken();
        // Looked for while nobody gives a name back, which is done when the file is there.
        let is_new = !path.exists() && taken.insert(path.to_owned());
        drop(taken);
        is_new.then(|| Taken {
            names: self,
            path: path.to_owned(),
        })
    }

    /// Takes the next number for a file of this stem, such as the 7 of `stem_00007_.png`, and gives
    /// the file's name with it.
    pub(crate) fn take_number(
        &self,
        folder: &Path,
        stem: &str,
        extension: &str,
    ) -> io::Result<(String, Taken<'_>)> {
        let first = highest(folder, stem)? + 1;
        for number in first..=first + MOST {
            let file = format!("{stem}_{number:05}_.{extension}");
            // A number belongs to all files of a stem, whatever their extension.
            let key = folder.join(format!("{stem}_{number:05}_"));
            let taken = self.take(&key);
            if let Some(taken) = taken.filter(|_| !folder.join(&file).exists()) {
                return Ok((file, taken));
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    fn taken(&self) -> MutexGuard<'_, HashSet<PathBuf>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.names.taken().remove(&self.path);
    }
}

/// The highest number that a file of this stem has.
fn highest(folder: &Path, stem: &str) -> io::Result<u64> {
    let mut highest = 0;
    for entry in std::fs::read_dir(folder)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        let rest = name
            .strip_prefix(stem)
            .and_then(|rest| rest.strip_prefix('_'));
        let digits = rest.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        let number = digits.and_then(|digits| digits.parse().ok());
        highest = highest.max(number.filter(|n| *n <= MOST).unwrap_or(0));
    }
    Ok(highest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let names = Names::default();
        let next = || names.take_number(folder.path(), "a", "png").unwrap();
        assert_eq!(next().0, "a_00001_.png");
        for name in ["a_00007_.png", "a_b_00009_.png", "ab_00011_.png", "a_x.png"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let (file, held) = next();
        assert_eq!(file, "a_00008_.png");
        // While that one is written, the next one has another number.
        assert_eq!(next().0, "a_00009_.png");
        drop(held);
        assert_eq!(next().0, "a_00008_.png");
    }

    /// A name that anybody may have uploaded does not make the numbers begin anew.
    #[test]
    fn numbers_beyond_all_measure_are_none() {
        let folder = tempfile::tempdir().unwrap();
        let names = Names::default();
        for number in [u64::MAX, u64::MAX - 1, MOST + 1] {
            let name = format!("r_{number}_.png");
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        let next = || names.take_number(folder.path(), "r", "png").unwrap().0;
        assert_eq!(next(), "r_00001_.png");
        std::fs::write(folder.path().join("r_00001_.png"), "").unwrap();
        assert_eq!(next(), "r_00002_.png");
    }
}
