//! Names and sizes.

use super::request::rounded;
use crate::naming::numbered;
use std::path::Path;

#[test]
fn sizes_become_multiples_of_eight() {
    assert_eq!(rounded("width", 513), 512);
    assert_eq!(rounded("width", 5), 8);
    assert_eq!(rounded("width", 768), 768);
}

#[test]
fn a_batch_is_numbered() {
    assert_eq!(
        numbered(Path::new("a/fox.png"), 2),
        Path::new("a/fox_00002.png")
    );
}
