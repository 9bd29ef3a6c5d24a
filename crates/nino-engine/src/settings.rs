//! A settings file: TOML with a word, a number, true or false for each key. Which keys there are,
//! and what they mean, is the caller's.

use nino_files::FileError;
use nino_sample::nearest;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// A settings file has a line for each of a few keys.
const MOST: u64 = 1 << 20;

/// The most brackets of lists and tables. The parser goes into each of them, also where they are
/// never closed, and tens of thousands end its stack.
const MOST_BRACKETS: usize = 256;

/// Why a settings file was not read.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("could not read the config file: {0}")]
    File(#[from] FileError),
    #[error("{}: not read, because other users can write to it or its folder", path.display())]
    NotOurs { path: PathBuf },
    #[error("{}: has {found} opening brackets; the limit is {MOST_BRACKETS}", path.display())]
    Brackets { path: PathBuf, found: usize },
    #[error("{} is not TOML: {reason}", path.display())]
    NotToml { path: PathBuf, reason: String },
    #[error("{}: no setting is called {name:?}; {offered}", path.display())]
    Unknown {
        path: PathBuf,
        name: String,
        /// The nearest keys, or all.
        offered: String,
    },
    #[error("{}: {name} must be a string, a number, true or false, not {found}", path.display())]
    Kind {
        path: PathBuf,
        name: &'static str,
        found: &'static str,
    },
    #[error("{}: {name} must be a folder or a list of folders", path.display())]
    Folders { path: PathBuf, name: &'static str },
}

/// What a settings file may say.
#[derive(Clone, Copy, Debug)]
pub struct SettingsKeys<'a> {
    pub all: &'a [&'static str],
    /// Those of them that may be a list of folders.
    pub folders: &'a [&'static str],
}

/// Reads a settings file: the keys it has, with their values as text. A list of folders is joined
/// as in a variable such as `PATH`. With `only_ours`, a file that another user can have written is
/// an error.
pub fn read_settings(
    path: &Path,
    keys: SettingsKeys<'_>,
    only_ours: bool,
) -> Result<BTreeMap<&'static str, String>, SettingsError> {
    let text = nino_files::read_text(path, "the config file", MOST)?;
    if only_ours && !nino_files::is_ours(path) {
        let path = path.to_owned();
        return Err(SettingsError::NotOurs { path });
    }
    let found = text.matches(['[', '{']).count();
    if found > MOST_BRACKETS {
        let path = path.to_owned();
        return Err(SettingsError::Brackets { path, found });
    }
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let reason = e.to_string().trim_end().to_owned();
        let path = path.to_owned();
        SettingsError::NotToml { path, reason }
    })?;
    let mut settings = BTreeMap::new();
    for (name, value) in table {
        let known = keys.all.iter().find(|key| **key == name);
        let Some(&key) = known else {
            return Err(unknown(path, name, keys.all));
        };
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(n) => n.to_string(),
            toml::Value::Float(n) => n.to_string(),
            toml::Value::Boolean(on) => on.to_string(),
            toml::Value::Array(folders) if keys.folders.contains(&key) => joined(&folders)
                .ok_or_else(|| SettingsError::Folders {
                    path: path.to_owned(),
                    name: key,
                })?,
            other => {
                return Err(SettingsError::Kind {
                    path: path.to_owned(),
                    name: key,
                    found: other.type_str(),
                });
            }
        };
        settings.insert(key, value);
    }
    Ok(settings)
}

/// A list of folders as a variable has it.
fn joined(folders: &[toml::Value]) -> Option<String> {
    let folders: Option<Vec<&str>> = folders.iter().map(toml::Value::as_str).collect();
    let joined = std::env::join_paths(folders?).ok()?;
    joined.into_string().ok()
}

fn unknown(path: &Path, name: String, keys: &[&'static str]) -> SettingsError {
    let near = nearest(&name, keys.iter().copied());
    let offered = if near.is_empty() {
        format!("known are {}", keys.join(", "))
    } else {
        format!("did you mean {}?", near.join(" or "))
    };
    SettingsError::Unknown {
        path: path.to_owned(),
        name,
        offered,
    }
}

#[cfg(test)]
mod tests {
    use super::{SettingsError, SettingsKeys, read_settings};

    /// Found by `cargo xtask fuzz --target toml`: the parser's stack ended, and so did the process.
    #[test]
    fn brackets_without_end_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.toml");
        std::fs::write(&path, "c = { [[1[3.5e3]] }\n".repeat(20_000)).unwrap();
        let keys = SettingsKeys {
            all: &["c"],
            folders: &[],
        };
        let read = read_settings(&path, keys, false);
        assert!(
            matches!(read, Err(SettingsError::Brackets { .. })),
            "{read:?}"
        );
    }
}
