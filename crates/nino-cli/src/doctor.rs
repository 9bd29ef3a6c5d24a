//! `nino doctor`: what this machine can do, and whether anything is wrong with it.
//!
//! Facts are gathered first, then judged, then printed, so that every judgment can be tested with
//! made-up facts.

mod adapters;
mod arch;
mod budget;
mod facts;
mod print;
mod rules;
mod system;
#[cfg(test)]
mod tests;
mod verify;

use crate::args::DoctorArgs;
use crate::device::Choice;
use crate::env::{self, Env};
use crate::failure::{Told, Usage};
use crate::printer::Printer;
use anyhow::Result;
use facts::{Config, Facts, Memory};
use nino_engine::device::{self, Budget, HostMemory};
use rules::Finding;
use serde::Serialize;
use std::path::Path;
use verify::Verdict;

#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    facts: &'a Facts,
    findings: &'a [Finding],
    #[serde(skip_serializing_if = "Option::is_none")]
    verify: Option<&'a [Verdict]>,
}

pub(crate) fn run(args: &DoctorArgs, env: &Env, printer: Printer) -> Result<()> {
    let mut problems: Vec<String> = env.config_problem.iter().cloned().collect();
    let choice = match Choice::with_profile(&args.device, &args.profile, env) {
        Ok(choice) => choice,
        Err(Usage(problem)) => {
            // What variables and the config file say cannot be meant: flags alone have to do.
            problems.push(problem);
            Choice {
                settings: env.settings.clone(),
                ..Choice::with_profile(&args.device, &args.profile, &Env::default())?
            }
        }
    };
    // A device that was named must exist; when none was, no GPU is a finding and no failure.
    let named = choice.device.device.is_some() || choice.device.tier.is_some();
    let targets = if args.verify || named {
        device::targets(&choice.device)?
    } else {
        Vec::new()
    };
    let facts = gather(&choice, env, problems);
    let findings = rules::findings(&facts);
    printer.text(print::report(&facts, &findings))?;
    let filter = args.filter.as_deref().unwrap_or_default();
    let verdicts = if args.verify {
        Some(verify::run(&targets, &choice.device, filter, printer)?)
    } else {
        None
    };
    printer.document(&Document {
        facts: &facts,
        findings: &findings,
        verify: verdicts.as_deref(),
    })?;
    if verdicts.is_some_and(|list| list.iter().any(|v| !v.ok)) {
        return Err(Told(1).into());
    }
    Ok(())
}

/// The folders of models that are named, of which something holds.
fn folders(env: &Env, holds: impl Fn(&Path) -> bool) -> Vec<String> {
    let named = env.models.iter().chain(&env.comfyui);
    let found = named.filter(|folder| holds(folder));
    found.map(|folder| folder.display().to_string()).collect()
}

fn gather(choice: &Choice, env: &Env, problems: Vec<String>) -> Facts {
    let environment = env::listed();
    let driver_files: Vec<&str> = environment
        .iter()
        .filter(|v| ["VK_DRIVER_FILES", "VK_ICD_FILENAMES"].contains(&v.name.as_str()))
        .map(|v| v.value.as_str())
        .collect();
    let cap = choice.device.budget;
    let memory = HostMemory::read();
    let (adapters, no_adapter) = adapters::found(&memory, cap);
    Facts {
        version: env!("CARGO_PKG_VERSION"),
        system: system::system(&driver_files),
        cpu: system::cpu(),
        memory: Memory {
            budget: Budget::host(&memory, cap),
            total: memory.total,
            available: memory.available,
            limit: memory.limit.map(|l| (l.bytes, l.group)),
        },
        adapters,
        no_adapter,
        environment,
        config: Config {
            path: env.config.clone(),
            found: env.config.as_ref().is_some_and(|path| path.exists()),
            settings: choice.settings.all().clone(),
            problems,
            missing_folders: folders(env, |folder| !folder.is_dir()),
            open_folders: folders(env, nino_files::is_open_to_all),
        },
    }
}
