//! The project's own text files, as the commands here look at them.

use anyhow::{Context, Result};
use std::fs;
use std::path::{Path, PathBuf};

const TEXT: [&str; 8] = ["rs", "wgsl", "md", "toml", "py", "sh", "json", "yml"];
const LARGEST_TEXT: u64 = 1 << 20;

/// One text file; `path` is relative to the root and uses `/`.
pub(crate) struct File {
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn is_rust(&self) -> bool {
        has_extension(&self.path, "rs")
    }

    pub(crate) fn is_shader(&self) -> bool {
        has_extension(&self.path, "wgsl")
    }

    /// Tests are neither counted nor held to the rules for the code that ships.
    pub(crate) fn is_test(&self) -> bool {
        self.path.ends_with("/tests.rs")
            || self.path.ends_with("/testing.rs")
            || self.path.split('/').any(|part| part == "tests")
    }

    /// The crate's folder name: `nino-graph` of `crates/nino-graph/src/op.rs`.
    pub(crate) fn krate(&self) -> Option<&str> {
        let mut parts = self.path.split('/');
        match parts.next()? {
            "crates" => parts.next(),
            "xtask" => Some("xtask"),
            "fuzz" => Some("fuzz"),
            _ => None,
        }
    }

    /// Below a crate's `src/`.
    pub(crate) fn is_source(&self) -> bool {
        let mut parts = self.path.split('/').skip_while(|&p| p == "crates");
        parts.next().is_some() && parts.next() == Some("src")
    }
}

/// The workspace's root folder. Cargo names it when it starts us; the path from the build can be
/// another checkout's where checkouts share a target folder.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var("CARGO_MANIFEST_DIR")
        .unwrap_or_else(|_| env!("CARGO_MANIFEST_DIR").to_owned());
    let here = PathBuf::from(here);
    here.parent()
        .map_or_else(|| here.clone(), Path::to_path_buf)
}

/// Every text file below `root`, sorted by path; build output and `.git` are left out.
pub(crate) fn files(root: &Path) -> Result<Vec<File>> {
    let mut found = Vec::new();
    walk(root, root, &mut found)?;
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn walk(root: &Path, dir: &Path, found: &mut Vec<File>) -> Result<()> {
    let entries = fs::read_dir(dir).with_context(|| format!("listing {}", dir.display()))?;
    for entry in entries {
        let entry = entry?;
        let (path, kind) = (entry.path(), entry.file_type()?);
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if kind.is_dir() {
            let ours = !name.starts_with('.') || [".ci", ".config", ".cargo"].contains(&&*name);
            if ours && name != "target" && name != "corpus" {
                walk(root, &path, found)?;
            }
        } else if kind.is_file() && is_text(&path) && entry.metadata()?.len() <= LARGEST_TEXT {
            let relative = path.strip_prefix(root).unwrap_or(&path);
            let path_text = relative.to_string_lossy().replace('\\', "/");
            let text = fs::read_to_string(&path)
                .with_context(|| format!("reading {path_text} as UTF-8 text"))?;
            found.push(File {
                path: path_text,
                text,
            });
        }
    }
    Ok(())
}

fn is_text(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str());
    extension.map_or(path.ends_with(".ci/run"), |e| TEXT.contains(&e))
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|e| e == extension)
}
