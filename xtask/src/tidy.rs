//! `cargo xtask tidy`: the habits of CONTRIBUTING.md that neither rustfmt nor clippy checks.
//!
//! Each rule looks at one file and names the line and the way to mend it. The same check is a test,
//! so `cargo test` alone shows a breach.

mod coverage;
mod edges;
mod prose;
mod rules;
#[cfg(test)]
mod tests;

use crate::tree::{self, File};
use anyhow::{Result, bail};
use std::fmt;

/// A breach of one rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: String,
    /// 1-based; 0 when the whole file is meant.
    line: usize,
    what: String,
    mend: &'static str,
    /// Reported, but does not fail.
    warning: bool,
}

impl Finding {
    fn error(file: &File, line: usize, what: impl Into<String>, mend: &'static str) -> Finding {
        Finding {
            path: file.path.clone(),
            line,
            what: what.into(),
            mend,
            warning: false,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "warning" } else { "error" };
        let line = if self.line > 0 {
            format!(":{}", self.line)
        } else {
            String::new()
        };
        write!(
            f,
            "{kind}: {}{line}: {}\n  mend: {}",
            self.path, self.what, self.mend
        )
    }
}

pub(crate) fn run() -> Result<()> {
    let files = tree::files(&tree::root())?;
    let findings = check(&files);
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|f| !f.warning).count();
    if errors > 0 {
        bail!("tidy found {errors} breaches of the house rules");
    }
    println!("tidy: {} files looked at, all in order", files.len());
    Ok(())
}

fn check(files: &[File]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        rules::check(file, &mut findings);
        edges::check(file, &mut findings);
        prose::check(file, &mut findings);
    }
    coverage::check(files, &mut findings);
    findings
}
