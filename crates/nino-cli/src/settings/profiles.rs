//! Profiles: settings for a kind of card, under one name.
//!
//! The RX 580's are those of its tuning guide: of 8 GiB 7168 MiB are used and two pictures at 512 pixels
//! at a time, of 4 GiB 3584 MiB with 8-bit weights and one picture; tiles of 512. gfx1151 has tiles of
//! 768 with an overlap of 96. `safe` is where the guide begins: 6656 MiB, one picture, small tiles.

use crate::failure::Usage;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProfileName(&'static Profile);

#[derive(Debug, PartialEq, Eq)]
struct Profile {
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
    /// Pictures at a time that its memory is meant for.
    max_batch: Option<usize>,
}

const PROFILES: [Profile; 4] = [
    Profile {
        name: "rx580-4gb",
        settings: &[
            ("budget", "3584MiB"),
            ("quantize", "q8_0"),
            ("tile_size", "512"),
        ],
        max_batch: Some(1),
    },
    Profile {
        name: "rx580-8gb",
        settings: &[("budget", "7168MiB"), ("tile_size", "512")],
        max_batch: Some(2),
    },
    Profile {
        name: "gfx1151",
        settings: &[
            ("precision", "auto"),
            ("tile_size", "768"),
            ("overlap", "96"),
        ],
        max_batch: None,
    },
    Profile {
        name: "safe",
        settings: &[("budget", "6656MiB"), ("tile_size", "512")],
        max_batch: Some(1),
    },
];

impl ProfileName {
    pub(super) fn settings(self) -> &'static [(&'static str, &'static str)] {
        self.0.settings
    }

    pub(crate) fn max_batch(self) -> Option<usize> {
        self.0.max_batch
    }
}

impl FromStr for ProfileName {
    type Err = Usage;

    fn from_str(text: &str) -> Result<ProfileName, Usage> {
        let lower = text.to_lowercase();
        let found = PROFILES.iter().find(|p| p.name == lower);
        found.map(ProfileName).ok_or_else(|| {
            let names: Vec<&str> = PROFILES.iter().map(|p| p.name).collect();
            Usage(format!("a profile is one of {}", names.join(", ")))
        })
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.name)
    }
}
