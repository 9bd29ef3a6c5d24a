//! `cargo xtask ci`: everything a change must pass, the same here and on the build machine.
//!
//! Every step runs even when one before it failed, so that one round shows all there is to mend.

use crate::{python, tidy, tree};
use anyhow::{Result, bail};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

struct Step {
    name: &'static str,
    /// What a person types to see only this step again.
    command: &'static str,
    mend: &'static str,
    run: fn() -> bool,
}

const STEPS: [Step; 9] = [
    Step {
        name: "fmt",
        command: "cargo fmt --all --check",
        mend: "run `cargo fmt --all`",
        run: || cargo(&["fmt", "--all", "--check"], &[]),
    },
    Step {
        name: "clippy",
        command: "cargo clippy --workspace --all-targets -- -D warnings",
        mend: "fix the code; an `#[allow]` needs a reason beside it",
        run: || {
            let args = ["clippy", "--workspace", "--all-targets", "--locked", "--"];
            cargo(&[&args[..], &["-D", "warnings"]].concat(), &[])
        },
    },
    Step {
        name: "tests",
        command: "cargo nextest run --workspace  (or: cargo test --workspace)",
        mend: "run the failed test alone by its name",
        run: tests,
    },
    Step {
        name: "fuzz",
        command: "cargo xtask fuzz --minutes 1 --seed 1",
        mend: "run the failed case alone, as its line says",
        run: || fuzz(&["--minutes", "1", "--seed", "1"]).is_ok(),
    },
    Step {
        name: "amd",
        command: "cargo xtask amd --check",
        mend: "a tile that fits the chip; `cargo xtask amd --update` where the loss is meant",
        run: || amd(&["--check", "--if-driver"]).is_ok(),
    },
    Step {
        name: "matrices",
        command: "cargo xtask amd --matrices",
        mend: "run the failed test alone by its name, on a device with matrix units",
        run: || amd(&["--matrices", "--if-driver"]).is_ok(),
    },
    Step {
        name: "python",
        command: "cargo xtask python",
        mend: "run the failed test alone by its name",
        run: || told(python::tests(&["--if-there"])),
    },
    Step {
        name: "doc",
        command: "RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps",
        mend: "mend the broken link or the code block it names",
        run: || {
            let args = ["doc", "--workspace", "--no-deps", "--locked"];
            cargo(&args, &[("RUSTDOCFLAGS", "-D warnings")])
        },
    },
    Step {
        name: "tidy",
        command: "cargo xtask tidy",
        mend: "each line above says how",
        run: || told(tidy::run()),
    },
];

pub(crate) fn run(only: &[&str]) -> Result<()> {
    let steps = chosen(only)?;
    let mut results: Vec<(&Step, bool, Duration)> = Vec::new();
    for step in steps {
        println!("==> {}: {}", step.name, step.command);
        let start = Instant::now();
        let passed = (step.run)();
        results.push((step, passed, start.elapsed()));
    }
    println!();
    for (step, passed, time) in &results {
        let word = if *passed { "ok" } else { "FAILED" };
        println!("{:<8} {word:<7} {:>6.1} s", step.name, time.as_secs_f64());
    }
    let failed: Vec<&Step> = results.iter().filter(|r| !r.1).map(|r| r.0).collect();
    if failed.is_empty() {
        return Ok(());
    }
    for step in &failed {
        println!("\n{} failed.", step.name);
        println!("  again: {}", step.command);
        println!("  mend:  {}", step.mend);
    }
    let names: Vec<&str> = failed.iter().map(|s| s.name).collect();
    bail!(
        "{} of {} steps failed: {}",
        failed.len(),
        results.len(),
        names.join(", ")
    )
}

fn chosen(only: &[&str]) -> Result<Vec<&'static Step>> {
    if only.is_empty() {
        return Ok(STEPS.iter().collect());
    }
    let mut steps = Vec::new();
    for name in only {
        let Some(step) = STEPS.iter().find(|s| s.name == *name) else {
            let known: Vec<&str> = STEPS.iter().map(|s| s.name).collect();
            bail!(
                "there is no step {name:?}: the steps are {}",
                known.join(", ")
            );
        };
        steps.push(step);
    }
    Ok(steps)
}

/// `cargo xtask fuzz`: mutated files against every reader; see `fuzz/README.md`.
pub(crate) fn fuzz(args: &[&str]) -> Result<()> {
    let run = ["run", "-q", "-p", "nino-fuzz", "--locked", "--"];
    if cargo(&[&run[..], args].concat(), &[]) {
        return Ok(());
    }
    bail!("a reader failed")
}

/// `cargo xtask amd`: kernels as AMD's compiler sees them; see `docs/amd.md`. A crate of its own,
/// so that other commands need not wait for what it is built from.
pub(crate) fn amd(args: &[&str]) -> Result<()> {
    let run = ["run", "-q", "-p", "xtask-amd", "--locked", "--"];
    if cargo(&[&run[..], args].concat(), &[]) {
        return Ok(());
    }
    bail!("the kernels for AMD's cards or for matrix units were not as they should be")
}

/// Whether a step went well; an error is printed.
fn told(done: Result<()>) -> bool {
    done.inspect_err(|e| eprintln!("error: {e:#}")).is_ok()
}

fn tests() -> bool {
    let nextest = Command::new(cargo_path())
        .args(["nextest", "--version"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    if nextest.is_ok_and(|s| s.success()) {
        cargo(&["nextest", "run", "--workspace", "--locked"], &[])
    } else {
        println!("cargo-nextest is not installed: using cargo test");
        cargo(&["test", "--workspace", "--locked"], &[])
    }
}

fn cargo(args: &[&str], env: &[(&str, &str)]) -> bool {
    let status = Command::new(cargo_path())
        .args(args)
        .envs(env.iter().copied())
        .current_dir(tree::root())
        .status();
    match status {
        Ok(status) => status.success(),
        Err(e) => {
            eprintln!("error: cargo {} could not be started: {e}", args.join(" "));
            false
        }
    }
}

/// The cargo that started us, so that the toolchain stays the same.
fn cargo_path() -> String {
    std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned())
}
