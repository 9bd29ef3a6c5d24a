//! Gives mutated files to every reader and holds each case to bounds on memory and time. Run as
//! `cargo xtask fuzz`; see `README.md`.
//!
//! The cases run in a child process (`worker.rs`), so that one that ends the process or never ends
//! is told like any other.

#![allow(clippy::print_stdout, clippy::print_stderr)] // a command-line tool

mod allocations;
mod answers;
mod mutate;
mod seeds;
mod supervisor;
mod targets;
mod texts;
mod waits;
mod worker;

use anyhow::{Context, Result, bail};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[global_allocator]
static ALLOCATIONS: allocations::Counting = allocations::Counting;

/// What to run.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    /// For all targets together.
    pub(crate) time: Duration,
    pub(crate) target: Option<String>,
    pub(crate) seed: u64,
    /// Only this case of one target.
    pub(crate) case: Option<u64>,
    /// Set in the child: where the case at hand is kept.
    pub(crate) worker: Option<std::path::PathBuf>,
}

fn main() -> ExitCode {
    let done = options().and_then(|options| match &options.worker {
        Some(folder) => worker::run(&options, folder),
        None => supervisor::run(&options),
    });
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn options() -> Result<Options> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut options = Options {
        time: Duration::from_mins(1),
        target: None,
        seed: now.map_or(0, |t| t.as_secs()),
        case: None,
        worker: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args
            .next()
            .with_context(|| format!("{flag} needs a value"))?;
        let number = || {
            value
                .parse::<u64>()
                .with_context(|| format!("{flag} {value}"))
        };
        match flag.as_str() {
            "--minutes" => options.time = Duration::from_secs(60 * number()?),
            "--seconds" => options.time = Duration::from_secs(number()?),
            "--target" => options.target = Some(value),
            "--seed" => options.seed = number()?,
            "--case" => options.case = Some(number()?),
            "--worker" => options.worker = Some(value.into()),
            _ => bail!(
                "unknown flag {flag}: there are --minutes, --seconds, --target, --seed and --case"
            ),
        }
    }
    if options.case.is_some() && options.target.is_none() {
        bail!("--case needs --target");
    }
    Ok(options)
}
