//! Runs cases, one after the other, in a process of its own. The case at hand lies in a file, whose
//! name says which it is; the parent looks there when the process ends.

use crate::mutate::{Random, mutate};
use crate::seeds::Seed;
use crate::targets::{TARGETS, Target};
use crate::{Options, allocations, waits};
use anyhow::{Context, Result, bail};
use std::panic;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Longer than this is a failure; time in which other processes had the cores does not count.
pub(crate) const SLOWEST: Duration = Duration::from_secs(10);

/// Bytes that are cut off at least.
const LEAST_CUT: usize = 64;

/// The file in the worker's folder that holds the number of the case at hand.
pub(crate) const AT: &str = "at";

/// The file in the worker's folder that holds its process id.
pub(crate) const PID: &str = "pid";

pub(crate) fn run(options: &Options, folder: &Path) -> Result<()> {
    let name = options
        .target
        .as_deref()
        .context("a worker has one target")?;
    let target = TARGETS.iter().find(|t| t.name == name);
    let target = target.with_context(|| format!("there is no target {name}"))?;
    let seeds = (target.seeds)(folder);
    if seeds.is_empty() {
        bail!("{name} has no seeds");
    }
    let started = Instant::now();
    std::fs::write(folder.join(PID), std::process::id().to_string())?;
    let mut case = options.case.unwrap_or(0);
    while options.case.is_some() || started.elapsed() < options.time {
        std::fs::write(folder.join(AT), case.to_string())?;
        one(target, &seeds, options.seed, case, folder)?;
        case += 1;
        if options.case.is_some() {
            break;
        }
    }
    Ok(())
}

/// The file of a case, which lies in a folder for itself: a shard list has its shards beside it.
pub(crate) fn write_case(
    target: &Target,
    seeds: &[Seed],
    seed: u64,
    case: u64,
    folder: &Path,
) -> Result<(PathBuf, usize)> {
    let mut random = Random::of(seed, target.name, case);
    let chosen = &seeds[random.below(seeds.len())];
    let mut bytes = chosen.bytes.clone();
    if target.cut {
        // What padding and an end mark take may be missing without a loss.
        let most = bytes.len().saturating_sub(LEAST_CUT);
        bytes.truncate(random.below(most.max(1)));
    } else {
        mutate(&mut bytes, seeds, &mut random);
    }
    let path = folder.join(format!("case.{}", chosen.extension));
    std::fs::write(&path, &bytes)?;
    Ok((path, bytes.len()))
}

fn one(target: &Target, seeds: &[Seed], seed: u64, case: u64, folder: &Path) -> Result<()> {
    let (path, len) = write_case(target, seeds, seed, case, folder)?;
    let before = allocations::restart();
    let (started, waited) = (Instant::now(), waits::for_a_core("thread-self"));
    let panicked = panic::catch_unwind(|| (target.run)(&path)).is_err();
    let peak = allocations::peak() - before;
    let waited = waits::for_a_core("thread-self").saturating_sub(waited);
    let took = started.elapsed().saturating_sub(waited);
    if panicked {
        bail!("it panicked");
    }
    let most = target.memory + len * target.for_each_byte;
    if peak > most {
        bail!("a file of {len} bytes took {peak} bytes of memory; {most} are allowed");
    }
    if took > SLOWEST {
        bail!("a file of {len} bytes took {} seconds", took.as_secs());
    }
    Ok(())
}

#[cfg(test)]
mod tests;
