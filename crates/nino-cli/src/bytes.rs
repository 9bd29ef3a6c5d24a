//! Sizes of memory as people write and read them.

#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

/// A number of bytes; reads `3.5GiB`, prints the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Bytes(pub(crate) u64);

/// Short and binary units are powers of 1024, as memory is counted; `GB` is the disk maker's.
const UNITS: [(&str, u64); 13] = [
    ("b", 1),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
];

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BytesError {
    #[error("a size is a number and a unit, such as 3.5GiB or 800MiB")]
    NoNumber,
    #[error("a unit is missing: write {0}GiB or {0}MiB")]
    NoUnit(String),
    #[error("there is no unit {0:?}: use MiB or GiB")]
    UnknownUnit(String),
    #[error("a size must be more than zero")]
    Zero,
    #[error("that is more than any machine has")]
    TooLarge,
}

impl FromStr for Bytes {
    type Err = BytesError;

    fn from_str(text: &str) -> Result<Bytes, BytesError> {
        let text = text.trim();
        if text.starts_with('-') {
            return Err(BytesError::Zero);
        }
        let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.');
        let (number, unit) = text.split_at(digits.unwrap_or(text.len()));
        let value: f64 = number.parse().map_err(|_| BytesError::NoNumber)?;
        let unit = unit.trim();
        if unit.is_empty() {
            return Err(BytesError::NoUnit(number.to_owned()));
        }
        let lower = unit.to_lowercase();
        let (_, factor) = UNITS
            .iter()
            .find(|(name, _)| *name == lower)
            .ok_or_else(|| BytesError::UnknownUnit(unit.to_owned()))?;
        let bytes = value * *factor as f64;
        if bytes < 1.0 {
            return Err(BytesError::Zero);
        }
        if bytes > (1_u64 << 50) as f64 {
            return Err(BytesError::TooLarge);
        }
        Ok(Bytes(bytes as u64))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let b = self.0;
        let scaled = |shift: u32| b as f64 / (1_u64 << shift) as f64;
        let text = match b {
            0..1024 => format!("{b} B"),
            1024..1_048_576 => format!("{} KiB", trimmed(scaled(10))),
            1_048_576..1_073_741_824 => format!("{} MiB", trimmed(scaled(20))),
            _ => format!("{} GiB", trimmed(scaled(30))),
        };
        f.pad(&text)
    }
}

/// One decimal, none where it would be zero.
fn trimmed(value: f64) -> String {
    let text = format!("{value:.1}");
    text.strip_suffix(".0").map_or(text.clone(), str::to_owned)
}
