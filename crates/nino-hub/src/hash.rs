//! The hash that a content is known by: SHA-256 for large files, git's SHA-1 for small ones.

use crate::names::Etag;
use sha1::Sha1;
use sha2::{Digest, Sha256};
use std::fmt::Write as _;

/// Computed as bytes arrive.
pub(crate) enum Hasher {
    Sha256 {
        state: Sha256,
        expected: String,
    },
    Git {
        state: Sha1,
        expected: String,
    },
    /// Nothing is known of the content: its SHA-256 becomes its name.
    Naming(Sha256),
    /// The ETag is no hash, so there is nothing to compare with.
    Unknown,
}

/// A content that is not what its ETag says.
pub(crate) struct Mismatch {
    pub(crate) kind: &'static str,
    pub(crate) expected: String,
    pub(crate) found: String,
}

impl Hasher {
    /// For a content of `size` bytes, which git's hash begins with.
    pub(crate) fn new(etag: &Etag, size: u64) -> Hasher {
        let expected = etag.as_str().to_ascii_lowercase();
        let is_hex = expected.bytes().all(|b| b.is_ascii_hexdigit());
        match expected.len() {
            64 if is_hex => Hasher::Sha256 {
                state: Sha256::new(),
                expected,
            },
            40 if is_hex => Hasher::Git {
                state: Sha1::new_with_prefix(format!("blob {size}\0")),
                expected,
            },
            _ => Hasher::Unknown,
        }
    }

    /// For a content that gets its name when it is whole.
    pub(crate) fn naming() -> Hasher {
        Hasher::Naming(Sha256::new())
    }

    /// What it compares with.
    pub(crate) fn kind(&self) -> Option<&'static str> {
        match self {
            Hasher::Sha256 { .. } => Some("SHA-256"),
            Hasher::Git { .. } => Some("git SHA-1"),
            Hasher::Naming(_) | Hasher::Unknown => None,
        }
    }

    pub(crate) fn update(&mut self, bytes: &[u8]) {
        match self {
            Hasher::Sha256 { state, .. } => state.update(bytes),
            Hasher::Git { state, .. } => state.update(bytes),
            Hasher::Naming(state) => state.update(bytes),
            Hasher::Unknown => {}
        }
    }

    /// The name of a content that had none.
    pub(crate) fn finish(self) -> Result<Option<String>, Mismatch> {
        let kind = self.kind().unwrap_or_default();
        let (found, expected) = match self {
            Hasher::Sha256 { state, expected } => (hex(&state.finalize()), expected),
            Hasher::Git { state, expected } => (hex(&state.finalize()), expected),
            Hasher::Naming(state) => return Ok(Some(hex(&state.finalize()))),
            Hasher::Unknown => return Ok(None),
        };
        if found == expected {
            return Ok(None);
        }
        Err(Mismatch {
            kind,
            expected,
            found,
        })
    }
}

pub(crate) fn sha256_of(text: &str) -> String {
    hex(&Sha256::digest(text))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, b| {
        let _ = write!(text, "{b:02x}");
        text
    })
}
