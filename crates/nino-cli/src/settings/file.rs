//! The config file: TOML with the keys of the flags it sets, or of earlier programs.

use super::{KEYS, OLD_KEYS, OldKey, Said};
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
    let ours = KEYS.iter().map(|(key, _)| *key);
    let all: Vec<&str> = ours.chain(OLD_KEYS.iter().map(|key| key.name)).collect();
    let keys = SettingsKeys {
        all: &all,
        folders: &["models"],
    };
    let read = read_settings(path, keys, !named).map_err(|error| match error {
        SettingsError::NotOurs { .. } => Usage(format!(
            "{error}; remove write access for others (`chmod o-w`), or set the file with \
             NINO_CONFIG"
        )),
        error => Usage(error.to_string()),
    })?;
    let mut said = BTreeMap::new();
    // Keys of earlier programs first, in the order of their table: ours win over them.
    for key in OLD_KEYS {
        let Some(value) = read.get(key.name) else {
            continue;
        };
        let bits_alone = key.name == "quantization_bits"
            && read.get("use_quantization").is_none_or(|on| on != "true");
        if let Some((setting, value)) = key.setting(value).filter(|_| !bits_alone) {
            let by = format!("{} in {}", key.name, path.display());
            said.insert(setting, Said { value, by });
        }
    }
    for (key, value) in read {
        if OldKey::find(key).is_none() {
            let by = format!("{key} in {}", path.display());
            said.insert(key, Said { value, by });
        }
    }
    Ok(said)
}
