//! The `nino` binary: one file per verb.
//!
//! `args.rs` is the grammar. Here a parsed command line is dispatched, and whatever becomes of it
//! ends as an exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted.

mod allocator;
mod args;
mod bench;
mod bytes;
mod config;
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
mod list;
mod log;
mod measured;
mod naming;
mod optimize;
mod overwrite;
mod plan;
mod plural;
mod printer;
mod profile;
mod pull;
mod replay;
mod resident;
mod rm;
mod samplers;
mod serve;
mod settings;
mod shell;
mod size;
mod span;
mod stack;
mod stdout;
mod table;
mod tune;
mod upscale;
mod verdict;
mod version;
mod video;
mod visible;

use anyhow::Result;
use args::{BenchVerb, Cli, Verb, VerbFlags};
use env::Env;
use failure::Failure;
use nino_engine::capture;
use nino_engine::device::Trial;
use printer::Printer;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::ffi::OsString;
use std::panic;
use std::process::ExitCode;
use std::sync::OnceLock;
use std::sync::atomic::Ordering;

/// Where and why the first panic happened.
static PANIC: OnceLock<String> = OnceLock::new();

fn main() -> ExitCode {
    stack::with_room(verb)
}

/// Does what the command line says.
fn verb() -> ExitCode {
    env::hush_mesa();
    let line: Vec<OsString> = std::env::args_os().collect();
    let cli = match args::parse(&line) {
        Ok(cli) => cli,
        // Help and version come here too, with exit code 0; a reader that left is no error.
        Err(e) => {
            let _ = e.print();
            // Nothing was understood, so whether JSON is wanted has to be looked for.
            if e.use_stderr() && line.iter().any(|arg| arg == "--json") {
                printer::failure_document(&Failure::usage(&e.to_string()));
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
            printer::say("trace", &trace.to_string());
        }
    }));
    match panic::catch_unwind(|| run(&cli)) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            if !failure::is_broken_pipe(&error) && !error.is::<failure::Told>() {
                printer::failure(json, &Failure::of(&error, &VerbFlags::of_line(&line)));
            }
            ExitCode::from(failure::exit_code(&error))
        }
        Err(_) => {
            let what = PANIC.get().map_or("unknown", String::as_str);
            printer::failure(json, &Failure::bug(what));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> Result<()> {
    let printer = Printer::new(&cli.output);
    // Verbs that do not call it work where the environment or the config file is broken.
    let prepared = |env: Env| {
        let as_json = cli.output.json && matches!(cli.verb, Verb::Serve(_));
        log::install(cli.output.verbose, as_json, &env)?;
        device::try_matrices(&env);
        interrupt::install();
        allocator::install();
        if let Some(folder) = &env.capture {
            capture::to(folder);
        }
        anyhow::Ok(env)
    };
    let env = || prepared(Env::read()?);
    // Doctor is the verb to find out what is wrong with them.
    let doctors_env = || prepared(Env::read_without_trust());
    match &cli.verb {
        Verb::Doctor(args) => doctor::run(args, &doctors_env()?, printer),
        Verb::Inspect(args) => inspect::run(args, &env()?, printer),
        Verb::Convert(args) => convert::run(args, &env()?, printer),
        Verb::Pull(args) => pull::run(args, &env()?, printer),
        Verb::List(args) => list::run(args, &env()?, printer),
        Verb::Rm(args) => rm::run(args, &env()?, printer),
        Verb::Generate(args) => generate::run(args, &env()?, printer),
        Verb::Video(args) => video::run(args, &env()?, printer),
        Verb::Serve(args) => serve::run(args, &env()?, printer),
        Verb::Decode(args) => decode::decode(args, &env()?, printer),
        Verb::Encode(args) => decode::encode(args, &env()?, printer),
        Verb::Upscale(args) => upscale::run(args, &env()?, printer),
        Verb::Plan(args) => plan::run(args, &env()?, printer),
        Verb::Bench(BenchVerb::Ops(args)) => bench::ops(args, &env()?, printer),
        Verb::Bench(BenchVerb::Decode(args)) => bench::decode(args, &env()?, printer),
        Verb::Bench(BenchVerb::Generate(args)) => bench::generate(args, &env()?, printer),
        Verb::Bench(BenchVerb::Suite(args)) => bench::suite(args, &env()?, printer),
        Verb::Bench(BenchVerb::Compare(args)) => bench::compare(args, printer),
        Verb::Profile(args) => profile::run(args, &env()?, printer),
        Verb::Optimize(args) => optimize::run(args, &env()?, printer),
        Verb::Tune(args) => tune::run(args, &env()?, printer),
        Verb::Replay(args) => replay::run(args, &env()?, printer),
        Verb::Samplers => samplers::run(printer),
        Verb::Config(args) => config::run(args, printer),
        Verb::Completions(args) => shell::completions(args, printer),
        Verb::Man(args) => shell::man(args, printer),
        Verb::TryGpu { index } => Ok(Trial::attempt(*index)?),
    }
}
