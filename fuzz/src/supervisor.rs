//! Starts a worker for every target, and keeps the case at which one failed, ended or hung.

use crate::Options;
use crate::targets::TARGETS;
use crate::waits;
use crate::worker::{AT, PID, SLOWEST};
use anyhow::{Context, Result, bail};
use nino_files::{Child, Pipes, Stop};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

pub(crate) fn run(options: &Options) -> Result<()> {
    let wanted = |name: &str| options.target.as_deref().is_none_or(|t| t == name);
    let names: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
    let chosen: Vec<&str> = names.iter().copied().filter(|n| wanted(n)).collect();
    if chosen.is_empty() {
        bail!("the targets are {}", names.join(", "));
    }
    let share = options.time / chosen.len() as u32;
    println!("seed {}, {} s a target", options.seed, share.as_secs());
    let mut failed = Vec::new();
    for name in chosen {
        let folder = folder().context("no temporary folder")?;
        let outcome = work(name, share, options, folder.path());
        let case = last_case(folder.path());
        match outcome {
            Ok(()) => println!("{name:<12} {:>8} cases", case + 1),
            Err(why) => {
                let kept = keep(name, options.seed, case, folder.path())?;
                println!("{name:<12} FAILED at case {case}: {why:#}");
                println!(
                    "  again: cargo xtask fuzz --target {name} --seed {} --case {case}",
                    options.seed
                );
                println!("  file:  {}", kept.display());
                failed.push(name);
            }
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    bail!("failed: {}", failed.join(", "))
}

/// In memory where the system has such a folder: on a disk, writing cases takes most of the time.
fn folder() -> std::io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

/// One worker from its start to its end; hanging is an end.
fn work(name: &str, time: Duration, options: &Options, folder: &Path) -> Result<()> {
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args(["--target", name, "--seed", &options.seed.to_string()])
        .args(["--seconds", &time.as_secs().to_string()])
        .arg("--worker")
        .arg(folder);
    if let Some(case) = options.case {
        command.args(["--case", &case.to_string()]);
    }
    let hung = Arc::new(AtomicBool::new(false));
    let stop = {
        let hung = Arc::clone(&hung);
        Stop::when(move || hung.load(Ordering::SeqCst))
    };
    let mut worker = Child::start(command, Pipes::default(), stop)?;
    let done = Arc::new(AtomicBool::new(false));
    let watcher = {
        let (done, folder) = (Arc::clone(&done), folder.to_owned());
        std::thread::spawn(move || watch(&folder, &done, &hung))
    };
    let ended = worker.finish();
    done.store(true, Ordering::SeqCst);
    if watcher.join().unwrap_or(false) {
        bail!("it did not end in {} seconds", 2 * SLOWEST.as_secs());
    }
    Ok(ended?)
}

/// Sets `hung` when the worker stays at one case for too long; whether it did.
fn watch(folder: &Path, done: &AtomicBool, hung: &AtomicBool) -> bool {
    let waited = || {
        let pid = std::fs::read_to_string(folder.join(PID));
        pid.map_or(Duration::ZERO, |pid| waits::for_a_core(&pid))
    };
    let mut last = (u64::MAX, Instant::now(), waited());
    while !done.load(Ordering::SeqCst) {
        std::thread::sleep(Duration::from_millis(200));
        let case = last_case(folder);
        if case != last.0 {
            last = (case, Instant::now(), waited());
        }
        let waits = waited().saturating_sub(last.2);
        if last.1.elapsed().saturating_sub(waits) > 2 * SLOWEST {
            hung.store(true, Ordering::SeqCst);
            return true;
        }
    }
    false
}

fn last_case(folder: &Path) -> u64 {
    let text = std::fs::read_to_string(folder.join(AT));
    text.ok().and_then(|t| t.parse().ok()).unwrap_or(0)
}

/// Moves the case's file to where it can be looked at.
fn keep(name: &str, seed: u64, case: u64, folder: &Path) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder)?.flatten().map(|e| e.path());
    let found = entries
        .filter(|p| p.file_stem().is_some_and(|s| s == "case"))
        .max_by_key(|p| p.metadata().and_then(|m| m.modified()).ok());
    let from = found.context("the worker wrote no case")?;
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("found");
    std::fs::create_dir_all(&kept)?;
    let extension = from.extension().unwrap_or_default().to_string_lossy();
    let to = kept.join(format!("{name}-{seed}-{case}.{extension}"));
    std::fs::copy(&from, &to)?;
    Ok(to)
}
