//! The rules that look at several files: an op without a problem, a crate without a page.

use super::Finding;
use crate::tree::File;

const OPS: &str = "crates/nino-graph/src/op.rs";
const PROBLEMS: &str = "crates/nino-suite/src/problems.rs";

pub(super) fn check(files: &[File], findings: &mut Vec<Finding>) {
    let find = |path: &str| files.iter().find(|f| f.path == path);
    if let (Some(ops), Some(problems)) = (find(OPS), find(PROBLEMS)) {
        for (line, name) in op_names(&ops.text) {
            if !problems.text.contains(&format!("\"{name}\"")) {
                let what = format!("the op {name} has no problem in nino-suite");
                let mend = "write its reference and cases, and name it in problems.rs";
                findings.push(Finding::error(ops, line, what, mend));
            }
        }
    }
    for manifest in files {
        let Some(folder) = manifest.path.strip_suffix("/Cargo.toml") else {
            continue;
        };
        let member = folder
            .strip_prefix("crates/")
            .is_some_and(|f| !f.contains('/'));
        if member && find(&format!("{folder}/README.md")).is_none() {
            let mend = "add a README.md of one to three sentences";
            findings.push(Finding::error(
                manifest,
                0,
                "the crate has no README.md",
                mend,
            ));
        }
    }
}

/// `Op::Linear(_) => "linear",`
fn op_names(text: &str) -> Vec<(usize, &str)> {
    let arm = |line: &'_ str| -> Option<std::ops::Range<usize>> {
        let start = line
            .trim_start()
            .starts_with("Op::")
            .then(|| line.find("=> \""))??
            + 4;
        Some(start..start + line[start..].find('"')?)
    };
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(i, line)| Some((i + 1, &line[arm(line)?])))
        .collect()
}
