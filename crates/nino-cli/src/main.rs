//! The `nino` binary: one file per verb.
//!
//! `args.rs` is the grammar. Here a parsed command line is dispatched, and whatever becomes of it
//! ends as an exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.

mod allocator;
mod args;
mod bench;
mod bytes;
mod convert;
mod decode;
mod device;
mod doctor;
mod env;
mod failure;
mod generate;
mod hints;
mod inspect;
mod interrupt;
mod log;
mod plan;
mod printer;
mod pull;
mod resident;
mod settings;
mod size;
mod span;
mod table;
mod verdict;
mod visible;

use anyhow::Result;
use args::{BenchVerb, Cli, PlanVerb, Verb};
use clap::Parser;
use env::Env;
use printer::Printer;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::panic;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// Where and why the first panic happened.
static PANIC: OnceLock<String> = OnceLock::new();

fn main() -> ExitCode {
    env::hush_mesa();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        // Help and version come here too, with exit code 0; a reader that left is no error.
        Err(e) => {
            let _ = e.print();
            // Nothing was understood, so whether JSON is wanted has to be looked for.
            if e.use_stderr() && std::env::args_os().any(|arg| arg == "--json") {
                printer::failure_document(&failure::usage(&e.to_string()), &[]);
            }
            return ExitCode::from(u8::try_from(e.exit_code()).unwrap_or(2));
        }
    };
    let json = cli.output.json;
    allocator::AS_JSON.store(json, Ordering::Relaxed);
    panic::set_hook(Box::new(|info| {
        let _ = PANIC.set(info.to_string().replace('\n', " "));
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            printer::note(&trace.to_string());
        }
    }));
    match panic::catch_unwind(|| run(&cli)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            if !failure::is_broken_pipe(&error) && !error.is::<failure::Told>() {
                printer::failure(json, &failure::sentence(&error), &failure::hints(&error));
            }
            ExitCode::from(failure::exit_code(&error))
        }
        Err(_) => {
            let what = PANIC.get().map_or("unknown", String::as_str);
            let hint = "please report this line with the output of `nino doctor --json`".to_owned();
            printer::failure(json, &format!("this is a bug in nino: {what}"), &[hint]);
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let env = Env::read()?;
    log::install(cli.output.verbose, &env)?;
    interrupt::install();
    allocator::install();
    let printer = Printer::new(&cli.output);
    match &cli.verb {
        Verb::Doctor(args) => doctor::run(args, &env, printer),
        Verb::Inspect(args) => inspect::run(args, &env, printer),
        Verb::Convert(args) => convert::run(args, &env, printer),
        Verb::Pull(args) => pull::run(args, &env, printer),
        Verb::Generate(args) => generate::run(args, &env, printer),
        Verb::Decode(args) => decode::decode(args, &env, printer),
        Verb::Encode(args) => decode::encode(args, &env, printer),
        Verb::Plan(PlanVerb::Decode(args)) => decode::plan(args, &env, printer),
        Verb::Plan(PlanVerb::Generate(args)) => plan::generate(args, &env, printer),
        Verb::Bench(BenchVerb::Ops(args)) => bench::ops(args, &env, printer),
        Verb::Bench(BenchVerb::Decode(args)) => bench::decode(args, &env, printer),
        Verb::Bench(BenchVerb::Generate(args)) => bench::generate(args, &env, printer),
    }
}
