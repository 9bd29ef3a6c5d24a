//! Developer commands: `ci`, `tidy`, `size`, `goldens`, `fuzz`, `soak`, `kills`, `amd`,
//! `python`, `wheel`. Run as `cargo xtask <command>`.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a command-line tool

mod ci;
mod goldens;
mod python;
#[cfg(unix)]
mod reliability;
mod size;
mod tidy;
mod tree;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask <command>

  ci                             everything a change must pass
  ci <step>...                   only these steps, in that order
  tidy                           the rules of CONTRIBUTING.md that no other tool checks
  size                           lines of Rust and WGSL per crate, tests apart
  goldens <area> [--python PY]   rewrites goldens/<area> by its make.py (PY: python3)
  fuzz [--minutes N] [--target T] [--seed S]   mutated files against every reader
  soak [--runs N] [--seed S] [--nino FILE]     random runs against their plans and budgets
  kills [--runs N] [--seed S] [--nino FILE]    runs that are killed: outputs whole, nothing left
  amd [--family A,B] [--workload A,B] ...      kernels as AMD's compiler sees them (amd --help)
  python [--if-there | --python PY]            builds the Python package and runs its tests
  wheel [ARGS]                                 builds the wheel into target/wheels by maturin";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args.as_slice() {
        ["ci", steps @ ..] => ci::run(steps),
        ["tidy"] => tidy::run(),
        ["size"] => size::run(),
        ["goldens", rest @ ..] => goldens::run(rest),
        ["fuzz", rest @ ..] => ci::fuzz(rest),
        #[cfg(unix)]
        ["soak", rest @ ..] => reliability::soak(rest),
        #[cfg(unix)]
        ["kills", rest @ ..] => reliability::kills(rest),
        ["amd", rest @ ..] => ci::amd(rest),
        ["python", rest @ ..] => python::tests(rest),
        ["wheel", rest @ ..] => python::wheel(rest),
        ["help" | "-h" | "--help"] => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        [] => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
        [other, ..] => {
            eprintln!("error: unknown command or arguments: {other}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::FAILURE
        }
    }
}
