//! `--profile`: the engine's profiles as settings, in the words of the config file.

use crate::failure::Usage;
use nino_engine::Precision;
use nino_engine::device::{DEVICE_PROFILES, DeviceProfile};
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug)]
pub(crate) struct ProfileName(&'static DeviceProfile);

impl PartialEq for ProfileName {
    fn eq(&self, other: &ProfileName) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for ProfileName {}

impl ProfileName {
    /// What the profile says, by the name of the setting.
    pub(super) fn settings(self) -> Vec<(&'static str, String)> {
        let profile = self.0;
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

    pub(crate) fn max_batch(self) -> Option<usize> {
        self.0.max_batch
    }
}

impl FromStr for ProfileName {
    type Err = Usage;

    fn from_str(text: &str) -> Result<ProfileName, Usage> {
        let found = DeviceProfile::find(text);
        found.map(ProfileName).ok_or_else(|| {
            let names = DEVICE_PROFILES.map(|p| p.name);
            Usage(format!("a profile is one of {}", names.join(", ")))
        })
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.name)
    }
}
