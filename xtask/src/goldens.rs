//! `cargo xtask goldens <area>`: rewrites the committed golden files of one area.
//!
//! Tests only read goldens, so nobody needs Python except to make new ones. Each `make.py` names
//! the package versions it was written with in its first lines.

use crate::tree;
use anyhow::{Context, Result, bail};
use std::path::Path;
use std::process::Command;

pub(crate) fn run(args: &[&str]) -> Result<()> {
    let root = tree::root();
    let (area, python) = match args {
        [area] => (*area, "python3"),
        [area, "--python", python] | ["--python", python, area] => (*area, *python),
        _ => bail!(
            "usage: cargo xtask goldens <area> [--python PY]; areas: {}",
            areas(&root)
        ),
    };
    let script = root.join("goldens").join(area).join("make.py");
    if area.contains(['/', '\\', '.']) || !script.is_file() {
        bail!(
            "there is no goldens/{area}/make.py; areas: {}",
            areas(&root)
        );
    }
    println!("==> {python} goldens/{area}/make.py");
    let status = Command::new(python)
        .arg(&script)
        .current_dir(&root)
        .status()
        .with_context(|| format!("starting {python}; name another with --python"))?;
    if !status.success() {
        bail!(
            "goldens/{area}/make.py failed ({status}); its first lines name the packages it needs"
        );
    }
    println!("written; `git diff --stat goldens/{area}` shows what changed");
    Ok(())
}

fn areas(root: &Path) -> String {
    let entries = std::fs::read_dir(root.join("goldens"));
    let mut names: Vec<String> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter(|e| e.path().join("make.py").is_file())
        .map(|e| e.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    if names.is_empty() {
        return "none yet".to_owned();
    }
    names.join(", ")
}
