//! Which crate may depend on which: the code map of ARCHITECTURE.md as a table.
//!
//! Dev-dependencies are free: a test may use anything.

use super::Finding;
use crate::tree::File;

/// Every crate with the crates of ours it may name.
const EDGES: [(&str, &[&str]); 20] = [
    ("nino-dtype", &[]),
    ("nino-files", &[]),
    ("nino-hub", &["nino-files"]),
    ("nino-media", &["nino-files"]),
    ("nino-ptx", &[]),
    ("nino-sample", &[]),
    ("nino-testing", &[]),
    ("nino-text", &[]),
    ("nino-graph", &["nino-dtype"]),
    ("nino-weights", &["nino-dtype", "nino-files"]),
    ("nino-cpu", &["nino-dtype", "nino-files", "nino-graph"]),
    (
        "nino-gpu",
        &["nino-dtype", "nino-files", "nino-graph", "nino-ptx"],
    ),
    ("nino-models", &["nino-dtype", "nino-graph", "nino-weights"]),
    (
        "nino-suite",
        &["nino-dtype", "nino-graph", "nino-cpu", "nino-gpu"],
    ),
    (
        "nino-engine",
        &[
            "nino-dtype",
            "nino-files",
            "nino-graph",
            "nino-weights",
            "nino-cpu",
            "nino-gpu",
            "nino-media",
            "nino-models",
            "nino-sample",
            "nino-text",
        ],
    ),
    ("nino-workflow", &["nino-engine"]),
    (
        "nino-server",
        &["nino-engine", "nino-files", "nino-hub", "nino-workflow"],
    ),
    (
        "nino-python",
        &["nino-engine", "nino-models", "nino-weights"],
    ),
    (
        "nino-cli",
        &[
            "nino-dtype",
            "nino-files",
            "nino-graph",
            "nino-weights",
            "nino-cpu",
            "nino-gpu",
            "nino-models",
            "nino-sample",
            "nino-text",
            "nino-suite",
            "nino-engine",
            "nino-hub",
            "nino-workflow",
            "nino-server",
        ],
    ),
    ("xtask", &[]),
];

/// Outside crates that only one of ours may name.
const ONLY_IN: [(&str, &str); 7] = [
    ("wgpu", "nino-gpu"),
    ("naga", "nino-gpu"),
    ("clap", "nino-cli"),
    ("indicatif", "nino-cli"),
    ("axum", "nino-server"),
    ("pyo3", "nino-python"),
    ("ureq", "nino-hub"),
];

pub(super) fn check(file: &File, findings: &mut Vec<Finding>) {
    let Some(krate) = manifest_of(&file.path) else {
        return;
    };
    let Some((_, allowed)) = EDGES.iter().find(|(name, _)| *name == krate) else {
        let mend = "add it to EDGES in xtask/src/tidy/edges.rs and to the map in ARCHITECTURE.md";
        findings.push(Finding::error(
            file,
            0,
            format!("the map has no crate {krate}"),
            mend,
        ));
        return;
    };
    for (line, dependency) in dependencies(&file.text) {
        let ours = dependency.starts_with("nino-") || dependency == "xtask";
        if ours && !allowed.contains(&dependency) {
            let what = format!("{krate} may not depend on {dependency}");
            let mend = "move the code to the crate the map in ARCHITECTURE.md names for it";
            findings.push(Finding::error(file, line, what, mend));
        }
        if let Some((_, home)) = ONLY_IN
            .iter()
            .find(|(d, home)| *d == dependency && *home != krate)
        {
            let what = format!("only {home} may depend on {dependency}");
            let mend = "pass values over the crate's border instead";
            findings.push(Finding::error(file, line, what, mend));
        }
    }
}

fn manifest_of(path: &str) -> Option<&str> {
    let folder = path.strip_suffix("/Cargo.toml")?;
    if folder == "xtask" {
        return Some(folder);
    }
    folder
        .strip_prefix("crates/")
        .filter(|name| !name.contains('/'))
}

/// (line, name) of every entry under `[dependencies]`, `[build-dependencies]` and target sections.
fn dependencies(manifest: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (i, line) in manifest.lines().enumerate() {
        let line = line.trim();
        if let Some(section) = line.strip_prefix('[') {
            let section = section.trim_end_matches(']');
            let (head, tail) = section.rsplit_once('.').unwrap_or(("", section));
            inside = is_dependencies(tail);
            if is_dependencies(head) {
                found.push((i + 1, tail));
            }
        } else if inside && !line.is_empty() && !line.starts_with('#') {
            let end = line.find(['.', '=', ' ']).unwrap_or(line.len());
            found.push((i + 1, line[..end].trim_matches('"')));
        }
    }
    found
}

fn is_dependencies(section: &str) -> bool {
    let last = section.rsplit('.').next().unwrap_or(section);
    last == "dependencies" || last == "build-dependencies"
}
