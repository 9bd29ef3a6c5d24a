//! The config file: TOML with the keys of the flags it sets.

use super::{KEYS, Said};
use crate::failure::Usage;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Where the file is looked for, and whether someone named that place.
pub(crate) fn config_path(var: impl Fn(&str) -> Option<String>) -> (Option<PathBuf>, bool) {
    if let Some(path) = var("NINO_CONFIG") {
        return (Some(PathBuf::from(path)), true);
    }
    let dir = var("XDG_CONFIG_HOME")
        .or_else(|| var("APPDATA"))
        .map(PathBuf::from)
        .or_else(|| var("HOME").map(|home| PathBuf::from(home).join(".config")));
    (dir.map(|d| d.join("nino").join("config.toml")), false)
}

pub(super) fn read(path: &Path) -> Result<BTreeMap<&'static str, Said>, Usage> {
    /// A config file has a line for each of a few settings.
    const MOST: u64 = 1 << 20;
    let shown = path.display();
    let text = nino_files::read_text(path, "the config file", MOST)
        .map_err(|e| Usage(format!("could not read the config file: {e}")))?;
    let table: toml::Table = text
        .parse()
        .map_err(|e| Usage(format!("{shown} is not TOML: {e}").trim_end().to_owned()))?;
    let mut said = BTreeMap::new();
    for (name, value) in table {
        let known = KEYS.iter().find(|(key, _)| *key == name);
        let (key, _) = known.ok_or_else(|| unknown(path, &name))?;
        let value = match value {
            toml::Value::String(text) => text,
            toml::Value::Integer(n) => n.to_string(),
            toml::Value::Array(folders) if name == "models" => {
                joined(&folders).ok_or_else(|| {
                    Usage(format!("{shown}: models is a folder, or a list of folders"))
                })?
            }
            other => {
                let kind = other.type_str();
                return Err(Usage(format!(
                    "{shown}: {name} is a word or a number, not {kind}"
                )));
            }
        };
        let by = format!("{key} in {shown}");
        said.insert(*key, Said { value, by });
    }
    Ok(said)
}

/// A list of folders as a variable has it.
fn joined(folders: &[toml::Value]) -> Option<String> {
    let folders: Option<Vec<&str>> = folders.iter().map(toml::Value::as_str).collect();
    let joined = std::env::join_paths(folders?).ok()?;
    joined.into_string().ok()
}

fn unknown(path: &Path, name: &str) -> Usage {
    let keys = || KEYS.iter().map(|(key, _)| *key);
    let near = nino_engine::nearest(name, keys());
    let offered = if near.is_empty() {
        format!("known are {}", keys().collect::<Vec<_>>().join(", "))
    } else {
        format!("did you mean {}?", near.join(" or "))
    };
    Usage(format!(
        "{}: no setting is called {name:?}; {offered}",
        path.display()
    ))
}
