//! Sentencepiece's compiled normalization: a map of short strings to their normal forms (NFKC, and
//! what is white space), found by a double-array trie.
//!
//! Behaviour: Hugging Face tokenizers' `Precompiled`. The file is the trie's size in bytes (u32),
//! its units (u32 each), then the normal forms, each ended by a zero byte.

use crate::error::Error;
use unicode_segmentation::UnicodeSegmentation;

#[derive(Default)]
pub(super) struct Charsmap {
    units: Vec<u32>,
    /// Normal forms, one after the other, each ended by a zero byte.
    normal: Vec<u8>,
}

/// Clusters of more bytes are looked up by characters only.
const LONGEST: usize = 6;

impl Charsmap {
    pub(super) fn new(file: &[u8]) -> Result<Charsmap, Error> {
        if file.is_empty() {
            return Ok(Charsmap::default());
        }
        let damaged = || Error::Charsmap { bytes: file.len() };
        let (size, rest) = file.split_first_chunk::<4>().ok_or_else(damaged)?;
        let size = u32::from_le_bytes(*size) as usize;
        if size > rest.len() || !size.is_multiple_of(4) {
            return Err(damaged());
        }
        let (units, normal) = rest.split_at(size);
        let units = units.as_chunks::<4>().0.iter();
        Ok(Charsmap {
            units: units.map(|u| u32::from_le_bytes(*u)).collect(),
            normal: normal.to_vec(),
        })
    }

    /// The normal form of a text.
    pub(super) fn apply(&self, text: &str) -> String {
        let mut out = String::with_capacity(text.len());
        for cluster in text.graphemes(true) {
            let whole = (cluster.len() < LONGEST).then(|| self.find(cluster));
            if let Some(normal) = whole.flatten() {
                out.push_str(normal);
                continue;
            }
            for (at, char) in cluster.char_indices() {
                match self.find(&cluster[at..at + char.len_utf8()]) {
                    Some(normal) => out.push_str(normal),
                    None => out.push(char),
                }
            }
        }
        out
    }

    /// The normal form of the shortest known string that `text` begins with. What follows it in
    /// `text` is lost, as in the libraries that models were trained with.
    fn find(&self, text: &str) -> Option<&str> {
        let unit = |at: u32| self.units.get(at as usize).copied();
        let mut at = offset(unit(0)?);
        for &byte in text.as_bytes() {
            if byte == 0 {
                return None;
            }
            at ^= u32::from(byte);
            let here = unit(at)?;
            if label(here) != u32::from(byte) {
                return None;
            }
            at ^= offset(here);
            if has_leaf(here) {
                let start = value(unit(at)?) as usize;
                let normal = self.normal.get(start..)?;
                let len = normal.iter().position(|&b| b == 0)?;
                return std::str::from_utf8(&normal[..len]).ok();
            }
        }
        None
    }
}

/// Whether a string ends at the unit.
fn has_leaf(unit: u32) -> bool {
    unit & (1 << 8) != 0
}

/// What a leaf holds.
fn value(unit: u32) -> u32 {
    unit & 0x7FFF_FFFF
}

/// The byte that leads to the unit; never a byte for leaves.
fn label(unit: u32) -> u32 {
    unit & 0x8000_00FF
}

/// Where the units that follow are.
fn offset(unit: u32) -> u32 {
    (unit >> 10) << ((unit & (1 << 9)) >> 6)
}
