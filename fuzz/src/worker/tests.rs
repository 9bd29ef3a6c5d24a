//! What a case must not do is told.

use super::one;
use crate::seeds::Seed;
use crate::targets::Target;
use std::path::Path;

fn outcome(run: fn(&Path)) -> Result<(), String> {
    let target = Target {
        name: "made up",
        seeds: |_| Vec::new(),
        run,
        cut: false,
        memory: 1 << 20,
        for_each_byte: 0,
    };
    let seeds = [Seed {
        extension: "bin".to_owned(),
        bytes: vec![7; 100],
    }];
    let folder = tempfile::tempdir().unwrap();
    one(&target, &seeds, 1, 2, folder.path()).map_err(|e| e.to_string())
}

/// One test, because the counted bytes are those of the whole process.
#[test]
fn panics_and_bombs_are_failures() {
    outcome(|path| assert!(path.is_file())).unwrap();
    let error = outcome(|_| panic!("as a broken reader does")).unwrap_err();
    assert!(error.contains("panicked"), "{error}");
    let error = outcome(|_| drop(std::hint::black_box(vec![1u8; 8 << 20]))).unwrap_err();
    assert!(
        error.contains("bytes of memory; 1048576 are allowed"),
        "{error}"
    );
}

#[test]
fn a_case_follows_from_its_numbers() {
    let seeds = [Seed {
        extension: "bin".to_owned(),
        bytes: (0..200).collect(),
    }];
    let folder = tempfile::tempdir().unwrap();
    let bytes = |case| {
        let target = &crate::targets::TARGETS[0];
        let (path, _) = super::write_case(target, &seeds, 1, case, folder.path()).unwrap();
        std::fs::read(path).unwrap()
    };
    assert_eq!(bytes(5), bytes(5));
    assert_ne!(bytes(5), bytes(6));
}
