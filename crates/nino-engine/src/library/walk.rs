//! Model files below a folder. The walk is bounded: in depth, in the entries it looks at, and by
//! not following links back to where it came from.

use std::collections::VecDeque;
use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};

pub(super) const EXTENSIONS: [&str; 7] = ["safetensors", "sft", "gguf", "ckpt", "pt", "pth", "bin"];
/// Folders below folders that are looked into.
const DEPTH: usize = 6;
/// Folders in which the system shows itself: no models, and far too many entries.
const SYSTEM: [&str; 3] = ["/proc", "/sys", "/dev"];

/// A model file or folder.
pub(super) struct Entry {
    /// Its path below the folder, with `/` between the parts.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// It lies in a folder that is a model as a whole.
    pub(super) is_part: bool,
}

/// What a walk found.
#[derive(Default)]
pub(super) struct Walk {
    pub(super) entries: Vec<Entry>,
    /// The walk ended at its limit, so there may be more.
    pub(super) cut: bool,
}

/// A folder still to look into.
struct Folder {
    path: PathBuf,
    /// The same without links.
    real: PathBuf,
    name: String,
    depth: usize,
    is_part: bool,
    /// Where the links on the way here were, without links.
    trail: Vec<PathBuf>,
}

/// Looks at `most` entries below `root` at most, those that are nearest to it first. A folder that
/// cannot be read has no models for us.
pub(super) fn walk(root: &Path, most: usize) -> Walk {
    let mut walk = Walk::default();
    let Ok(real) = fs::canonicalize(root) else {
        return walk;
    };
    let mut folders = VecDeque::new();
    if !is_system(&real) {
        folders.push_back(Folder {
            path: root.to_owned(),
            real,
            name: String::new(),
            depth: 0,
            is_part: false,
            trail: Vec::new(),
        });
    }
    let mut looked_at = 0;
    while let Some(mut folder) = folders.pop_front() {
        let is_root = folder.depth == 0;
        if !is_root && is_model_folder(&folder.path) {
            walk.entries.push(Entry {
                name: folder.name.clone(),
                path: folder.path.clone(),
                is_part: folder.is_part,
            });
            folder.is_part = true;
        }
        for entry in fs::read_dir(&folder.path).into_iter().flatten().flatten() {
            looked_at += 1;
            if looked_at > most {
                walk.cut = true;
                return walk;
            }
            match folder.look_at(&entry) {
                Some(Look::File(entry)) => walk.entries.push(entry),
                Some(Look::Folder(below)) if below.depth <= DEPTH => folders.push_back(below),
                _ => {}
            }
        }
    }
    walk
}

enum Look {
    File(Entry),
    Folder(Folder),
}

impl Folder {
    fn look_at(&self, entry: &DirEntry) -> Option<Look> {
        let file = entry.file_name().to_string_lossy().into_owned();
        if file.starts_with('.') {
            return None;
        }
        let path = entry.path();
        let name = match self.name.as_str() {
            "" => file,
            above => format!("{above}/{file}"),
        };
        let kind = entry.file_type().ok()?;
        let (is_dir, is_file) = if kind.is_symlink() {
            let target = fs::metadata(&path).ok()?;
            (target.is_dir(), target.is_file())
        } else {
            (kind.is_dir(), kind.is_file())
        };
        if is_file && is_model_file(&path) {
            let is_part = self.is_part;
            return Some(Look::File(Entry {
                name,
                path,
                is_part,
            }));
        }
        if !is_dir {
            return None;
        }
        let mut trail = self.trail.clone();
        let real = if kind.is_symlink() {
            trail.push(self.real.clone());
            fs::canonicalize(&path).ok()?
        } else {
            self.real.join(entry.file_name())
        };
        let goes_back = kind.is_symlink() && trail.iter().any(|t| t.starts_with(&real));
        (!goes_back && !is_system(&real)).then(|| {
            Look::Folder(Folder {
                path,
                real,
                name,
                depth: self.depth + 1,
                is_part: self.is_part,
                trail,
            })
        })
    }
}

/// Bytes of a file, or of the model files below a folder, of which `most` entries are looked at.
pub(super) fn size(path: &Path, most: usize) -> u64 {
    let bytes = |path: &Path| fs::metadata(path).map_or(0, |m| m.len());
    if !path.is_dir() {
        return bytes(path);
    }
    let parts = walk(path, most).entries;
    parts
        .iter()
        .filter(|p| !p.path.is_dir())
        .map(|p| bytes(&p.path))
        .sum()
}

pub(super) fn is_model_folder(path: &Path) -> bool {
    path.join("model_index.json").is_file()
}

fn is_model_file(path: &Path) -> bool {
    let end = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    end.is_some_and(|e| EXTENSIONS.contains(&e.as_str()))
}

fn is_system(real: &Path) -> bool {
    let shows_itself = SYSTEM.iter().any(|folder| real.starts_with(folder));
    // A disk in memory, where people put models.
    cfg!(unix) && shows_itself && !real.starts_with("/dev/shm")
}
