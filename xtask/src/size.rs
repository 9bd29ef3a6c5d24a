//! `cargo xtask size`: lines per crate, so that growth is seen when it happens.

use crate::tree::{self, File};
use anyhow::Result;
use std::collections::BTreeMap;

/// A crate beyond this is split, or argued for in ARCHITECTURE.md.
const CRATE_LINES: usize = 8000;

#[derive(Default, Clone, Copy)]
struct Lines {
    files: usize,
    rust: usize,
    shaders: usize,
    tests: usize,
}

pub(crate) fn run() -> Result<()> {
    let files = tree::files(&tree::root())?;
    let crates = count(&files);
    let row = |name: &str, l: &Lines, note: &str| {
        let Lines {
            files,
            rust,
            shaders,
            tests,
        } = l;
        println!("{name:<14} {files:>5} {rust:>7} {shaders:>7} {tests:>7}{note}");
    };
    println!(
        "{:<14} {:>5} {:>7} {:>7} {:>7}",
        "crate", "files", "rust", "wgsl", "tests"
    );
    let mut total = Lines::default();
    for (name, lines) in &crates {
        let large = lines.rust + lines.shaders > CRATE_LINES;
        row(
            name,
            lines,
            if large {
                "  over 8000: split it or argue for it"
            } else {
                ""
            },
        );
        total.files += lines.files;
        total.rust += lines.rust;
        total.shaders += lines.shaders;
        total.tests += lines.tests;
    }
    row("total", &total, "");
    Ok(())
}

fn count(files: &[File]) -> BTreeMap<&str, Lines> {
    let mut crates: BTreeMap<&str, Lines> = BTreeMap::new();
    for file in files.iter().filter(|f| f.is_rust() || f.is_shader()) {
        let Some(name) = file.krate() else { continue };
        let lines = crates.entry(name).or_default();
        let n = file.text.lines().count();
        lines.files += 1;
        match file {
            f if f.is_test() => lines.tests += n,
            f if f.is_shader() => lines.shaders += n,
            _ => lines.rust += n,
        }
    }
    crates
}
