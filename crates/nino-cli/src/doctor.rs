//! `nino doctor`: what this machine can do, and whether anything is wrong with it.
//!
//! Facts are gathered first, then judged, then printed, so that every judgment can be tested with
//! made-up facts.

mod adapters;
mod arch;
mod budget;
mod cgroup;
mod facts;
mod print;
mod rules;
mod system;
#[cfg(test)]
mod tests;

use crate::args::DoctorArgs;
use crate::device::Choice;
use crate::env::{self, Env};
use crate::printer::Printer;
use anyhow::Result;
use facts::Facts;
use rules::Finding;
use serde::Serialize;

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    facts: &'a Facts,
    findings: &'a [Finding],
}

pub(crate) fn run(args: &DoctorArgs, env: &Env, printer: Printer) -> Result<()> {
    let choice = Choice::new(&args.device, env)?;
    let facts = gather(&choice);
    let findings = rules::findings(&facts);
    printer.text(print::report(&facts, &findings))?;
    printer.document(&Document {
        facts: &facts,
        findings: &findings,
    })
}

fn gather(choice: &Choice) -> Facts {
    let environment = env::listed();
    let driver_files: Vec<&str> = environment
        .iter()
        .filter(|v| ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].contains(&v.name.as_str()))
        .map(|v| v.value.as_str())
        .collect();
    let mut memory = system::memory();
    memory.budget = budget::host(&memory, choice.budget);
    let (mut adapters, no_adapter) = adapters::found();
    for adapter in &mut adapters {
        adapter.budget = budget::adapter(adapter, &memory, choice.budget);
    }
    Facts {
        version: env!("CARGO_PKG_VERSION"),
        system: system::system(&driver_files),
        cpu: system::cpu(),
        memory,
        adapters,
        no_adapter,
        environment,
    }
}
