//! `--profile`: the engine's profiles, a file of settings or what was measured, as settings in the
//! words of the config file.

use super::file;
use crate::failure::Usage;
use nino_engine::Precision;
use nino_engine::device::{DEVICE_PROFILES, DeviceProfile};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// The profile that is what `nino optimize` found best.
const MEASURED: &str = "measured";

#[derive(Clone, Debug)]
pub(crate) enum ProfileName {
    /// For a kind of card.
    Card(&'static DeviceProfile),
    /// A file of settings, such as `nino optimize` writes.
    File(PathBuf),
    /// What `nino optimize` found best for the model on the device, which are not known yet.
    Measured,
}

impl PartialEq for ProfileName {
    fn eq(&self, other: &ProfileName) -> bool {
        self.to_string() == other.to_string()
    }
}

impl Eq for ProfileName {}

impl ProfileName {
    /// What the profile says, by the name of the setting.
    pub(super) fn settings(&self) -> Result<Vec<(&'static str, String)>, Usage> {
        match self {
            ProfileName::Card(profile) => Ok(of_card(profile)),
            ProfileName::File(path) => {
                let said = file::read(path, true)?.into_iter();
                Ok(said.map(|(key, said)| (key, said.value)).collect())
            }
            ProfileName::Measured => Ok(Vec::new()),
        }
    }

    pub(crate) fn max_batch(&self) -> Option<usize> {
        match self {
            ProfileName::Card(profile) => profile.max_batch,
            ProfileName::File(_) | ProfileName::Measured => None,
        }
    }
}

fn of_card(profile: &DeviceProfile) -> Vec<(&'static str, String)> {
    let precision = profile.precision.map(|precision| match precision {
        Precision::Auto => "auto",
        Precision::F32 => "fp32",
        Precision::F16 => "fp16",
        Precision::Bf16 => "bf16",
    });
    let said = [
        ("budget", profile.budget.map(|b| format!("{}MiB", b >> 20))),
        ("precision", precision.map(str::to_owned)),
        (
            "quantize",
            profile.quantize.map(|q| q.name().to_lowercase()),
        ),
        ("tile_size", profile.tile_size.map(|n| n.to_string())),
        ("overlap", profile.overlap.map(|n| n.to_string())),
    ];
    let said = said.into_iter();
    said.filter_map(|(key, value)| Some((key, value?)))
        .collect()
}

impl FromStr for ProfileName {
    type Err = Usage;

    fn from_str(text: &str) -> Result<ProfileName, Usage> {
        if text.eq_ignore_ascii_case(MEASURED) {
            return Ok(ProfileName::Measured);
        }
        let file = PathBuf::from(text);
        if file
            .extension()
            .is_some_and(|e| e.eq_ignore_ascii_case("toml"))
        {
            return Ok(ProfileName::File(file));
        }
        let found = DeviceProfile::find(text);
        found.map(ProfileName::Card).ok_or_else(|| {
            let names = DEVICE_PROFILES.map(|p| p.name);
            Usage(format!(
                "a profile is one of {}, {MEASURED}, or a file that ends in .toml",
                names.join(", ")
            ))
        })
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfileName::Card(profile) => f.pad(profile.name),
            ProfileName::File(path) => f.pad(&path.to_string_lossy()),
            ProfileName::Measured => f.pad(MEASURED),
        }
    }
}
