//! The rules that look at several files: an op without a problem, a crate without a page.

use super::Finding;
use crate::tree::File;

/// Holds the list of ops.
const OPS: &str = "crates/nino-graph/src/ops.rs";
/// A file of problems for each family of ops.
const PROBLEMS: &str = "crates/nino-suite/src/problems/";

pub(super) fn check(files: &[File], findings: &mut Vec<Finding>) {
    let find = |path: &str| files.iter().find(|f| f.path == path);
    if let Some(ops) = find(OPS) {
        let problems = files.iter().filter(|f| f.path.starts_with(PROBLEMS));
        let problems: Vec<&File> = problems.collect();
        for (line, name) in op_names(&ops.text) {
            let quoted = format!("\"{name}\"");
            if !problems.iter().any(|f| f.text.contains(&quoted)) {
                let what = format!("the op {name} has no problem in nino-suite");
                let mend = "write its reference and cases, and name it in its family's PROBLEMS";
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

/// Names in the lines `AvgPool avg_pool,` of the list that `for_each_op` passes on.
fn op_names(text: &str) -> Vec<(usize, &str)> {
    let lines = text.lines().enumerate();
    let list = lines
        .skip_while(|(_, line)| !line.contains("$callback! {"))
        .skip(1)
        .take_while(|(_, line)| line.trim() != "}");
    list.filter_map(|(i, line)| {
        let (_, name) = line.trim().strip_suffix(',')?.split_once(' ')?;
        Some((i + 1, name))
    })
    .collect()
}
