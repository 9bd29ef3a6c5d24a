//! Settings that are not flags: variables, the config file and the profile. Flags win over
//! variables, those over the file, and the file over the profile.

mod file;
mod profiles;
mod seeds;
#[cfg(test)]
mod tests;

use crate::failure::Usage;
pub(crate) use file::config_path;
pub(crate) use profiles::ProfileName;
pub(crate) use seeds::{OLD_KEYS, OldKey};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// What can be set, by its name in the file, and what it is. The variable is `NINO_` and the name
/// in capitals.
pub(crate) const KEYS: [(&str, &str); 20] = [
    ("model", "default of --model"),
    ("steps", "default of --steps"),
    ("sampler", "default of --sampler"),
    ("scheduler", "default of --scheduler"),
    (
        "size",
        "default of --size, for images without an input image",
    ),
    ("output_dir", "folder for images without -o"),
    (
        "output_name",
        "file names of those images: {prompt}-{seed}, or with {model} and {n}",
    ),
    ("profile", "default of --profile"),
    ("device", "default of --device"),
    ("gpu_tier", "default of --gpu-tier"),
    ("text_device", "default of --text-device"),
    ("budget", "default of --budget"),
    ("threads", "default of --threads"),
    ("precision", "default of --precision"),
    ("tile", "default of --tile"),
    ("tile_size", "default of --tile-size"),
    ("overlap", "default of --overlap"),
    ("quantize", "default of --quantize"),
    ("models", "folders where models are looked up by name"),
    (
        "comfyui",
        "ComfyUI's folder, where models are looked up by name too",
    ),
];

/// A value, and who says so.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Said {
    pub(crate) value: String,
    pub(crate) by: String,
}

/// Everything said outside the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    said: BTreeMap<&'static str, Said>,
    /// The config file, if there is one.
    pub(crate) file: Option<PathBuf>,
    profile: Option<ProfileName>,
}

impl Settings {
    /// From variables and the file at `path`, which need not be there unless `named`.
    pub(crate) fn read(
        var: impl Fn(&str) -> Option<String>,
        path: Option<&Path>,
        named: bool,
    ) -> Result<Settings, Usage> {
        let mut settings = Settings::default();
        if let Some(path) = path.filter(|p| named || p.exists()) {
            settings.said = file::read(path, named)?;
            settings.file = Some(path.to_owned());
        }
        settings.said.extend(Settings::of_variables(var).said);
        Ok(settings)
    }

    /// From variables alone.
    pub(crate) fn of_variables(var: impl Fn(&str) -> Option<String>) -> Settings {
        let mut settings = Settings::default();
        for (key, _) in KEYS {
            let name = variable(key);
            if let Some(value) = var(&name) {
                let by = format!("the variable {name}");
                settings.said.insert(key, Said { value, by });
            }
        }
        settings
    }

    /// With what the profile says where nothing else does; `flag` is the profile of the command
    /// line.
    pub(crate) fn with_profile(&self, flag: Option<ProfileName>) -> Result<Settings, Usage> {
        let mut all = self.clone();
        let Some(profile) = self.pick("profile", flag, str::parse::<ProfileName>)? else {
            return Ok(all);
        };
        for (key, value) in profile.settings()? {
            let said = Said {
                value,
                by: format!("{key} of the profile {profile}"),
            };
            all.said.entry(key).or_insert(said);
        }
        all.profile = Some(profile);
        Ok(all)
    }

    /// Whether what was measured on this machine is to be used.
    pub(crate) fn wants_measured(&self) -> bool {
        self.profile == Some(ProfileName::Measured)
    }

    /// Says something where nothing else does; whether that is so.
    pub(crate) fn suggest(&mut self, key: &str, value: &str, by: &str) -> bool {
        let Some((key, _)) = KEYS.iter().find(|(known, _)| *known == key) else {
            return false;
        };
        let is_new = !self.said.contains_key(key);
        self.said.entry(key).or_insert_with(|| Said {
            value: value.to_owned(),
            by: by.to_owned(),
        });
        is_new
    }

    /// The flag, or what is said elsewhere.
    pub(crate) fn pick<T, E: fmt::Display>(
        &self,
        key: &str,
        flag: Option<T>,
        parse: impl Fn(&str) -> Result<T, E>,
    ) -> Result<Option<T>, Usage> {
        if flag.is_some() {
            return Ok(flag);
        }
        let Some(said) = self.said.get(key) else {
            return Ok(None);
        };
        match parse(&said.value) {
            Ok(value) => Ok(Some(value)),
            Err(e) => Err(Usage(format!("{} is {:?}: {e}", said.by, said.value))),
        }
    }

    /// The same for flags that are one of a few words.
    pub(crate) fn choose<T: clap::ValueEnum>(
        &self,
        key: &str,
        flag: Option<T>,
    ) -> Result<Option<T>, Usage> {
        self.pick(key, flag, |text| {
            T::from_str(text, true).map_err(|_| {
                let known = T::value_variants().iter();
                let names: Vec<String> = known
                    .filter_map(|v| Some(v.to_possible_value()?.get_name().to_owned()))
                    .collect();
                format!("one of {} is wanted", names.join(", "))
            })
        })
    }

    /// Said when more pictures at a time are asked for than the profile is meant for.
    pub(crate) fn batch_tip(&self, batch: usize) -> Option<String> {
        let profile = self.profile.as_ref()?;
        let most = profile.max_batch().filter(|&most| batch > most)?;
        Some(format!(
            "the profile {profile} is meant for --batch {most}; a batch of {batch} may be slower \
             than images one after the other"
        ))
    }

    /// What is said of a key, as it is.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        self.said.get(key).map(|said| said.value.as_str())
    }

    /// All of it, for `nino doctor` and `nino config`.
    pub(crate) fn all(&self) -> &BTreeMap<&'static str, Said> {
        &self.said
    }

    #[cfg(test)]
    pub(crate) fn of(pairs: &[(&str, &str)]) -> Settings {
        let var = |name: &str| {
            let found = pairs.iter().find(|(key, _)| variable(key) == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        Settings::read(var, None, false).expect("variables alone cannot fail")
    }
}

/// `budget` -> `NINO_BUDGET`
pub(crate) fn variable(key: &str) -> String {
    format!("NINO_{}", key.to_uppercase())
}
