//! The config file: TOML with the keys of the flags it sets.

use super::{KEYS, Said};
use crate::failure::Usage;
use nino_engine::{SettingsError, SettingsKeys, read_settings};
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

/// Reads the file; one at its usual place, which nobody named, only where no other user can have
/// written it.
pub(super) fn read(path: &Path, named: bool) -> Result<BTreeMap<&'static str, Said>, Usage> {
    let all = KEYS.map(|(key, _)| key);
    let keys = SettingsKeys {
        all: &all,
        folders: &["models"],
    };
    let read = read_settings(path, keys, !named).map_err(|error| match error {
        SettingsError::NotOurs { .. } => Usage(format!(
            "{error}; take that right away (`chmod o-w`), or name the file with NINO_CONFIG"
        )),
        error => Usage(error.to_string()),
    })?;
    let said = read.into_iter().map(|(key, value)| {
        let by = format!("{key} in {}", path.display());
        (key, Said { value, by })
    });
    Ok(said.collect())
}
