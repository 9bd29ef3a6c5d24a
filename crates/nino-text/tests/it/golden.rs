//! Reading `goldens/text`.

use serde_json::Value;
use std::path::PathBuf;

pub(crate) fn bytes(name: &str) -> Vec<u8> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("../../goldens/text").join(name);
    std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub(crate) fn rows(name: &str) -> Vec<Value> {
    serde_json::from_slice(&bytes(name)).unwrap()
}

/// The rows of a file of [text, ids].
pub(crate) fn tokens(name: &str) -> Vec<(String, Vec<u32>)> {
    serde_json::from_slice(&bytes(name)).unwrap()
}
