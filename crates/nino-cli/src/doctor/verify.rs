//! `nino doctor --verify`: the op suite on each device, told as pass or which op differs by how much.

use crate::interrupt;
use crate::printer::Printer;
use anyhow::Result;
use nino_engine::device::{DeviceChoice, Target, open_target};
use nino_graph::Device;
use nino_suite::{PROBLEMS, Problem, Report, verify_problem};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// More lines than this about one problem tell nothing new.
const MOST_LINES: usize = 4;

/// What the suite found on one device at one tier.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) device: String,
    pub(crate) model: String,
    pub(crate) tier: Option<String>,
    pub(crate) ok: bool,
    /// Why the suite could not run, when it could not.
    pub(crate) error: Option<String>,
    pub(crate) problems: Vec<Outcome>,
}

#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) problem: &'static str,
    pub(crate) passed: usize,
    pub(crate) unsupported: Vec<String>,
    pub(crate) failures: Vec<String>,
    /// Largest normalized mean square error that passed, by tolerance class.
    pub(crate) worst_nmse: BTreeMap<String, f64>,
}

/// Runs the suite on every device the choice allows and prints each verdict as it comes.
pub(super) fn run(
    targets: &[Target],
    choice: &DeviceChoice,
    filter: &str,
    printer: Printer,
) -> Result<Vec<Verdict>> {
    let problems: Vec<&Problem> = PROBLEMS
        .iter()
        .filter(|p| p.name.contains(filter))
        .collect();
    if problems.is_empty() {
        let names: Vec<&str> = PROBLEMS.iter().map(|p| p.name).collect();
        let text = format!(
            "no problem matches --filter {filter:?}; there are: {}",
            names.join(", ")
        );
        return Err(crate::failure::Usage(text).into());
    }
    let mut verdicts = Vec::new();
    for target in targets {
        let verdict = on_device(target, choice, &problems, printer)?;
        printer.text(text(&verdict))?;
        verdicts.push(verdict);
    }
    Ok(verdicts)
}

fn on_device(
    target: &Target,
    choice: &DeviceChoice,
    problems: &[&Problem],
    printer: Printer,
) -> Result<Verdict> {
    let mut verdict = Verdict {
        device: target.name.to_string(),
        model: target.model.clone(),
        tier: target.tier.map(|t| t.to_string()),
        ok: false,
        error: None,
        problems: Vec::new(),
    };
    let opened = match open_target(target, choice) {
        Ok(opened) => opened,
        Err(e) => {
            verdict.error = Some(format!("{e:#}"));
            return Ok(verdict);
        }
    };
    let bar = printer.progress(problems.len() as u64);
    for problem in problems {
        interrupt::check()?;
        bar.set_message(format!("{}: {}", verdict.device, problem.name));
        verdict.problems.push(outcome(&*opened.device, problem));
        bar.inc(1);
    }
    bar.finish_and_clear();
    verdict.ok = verdict.problems.iter().all(|o| o.failures.is_empty());
    Ok(verdict)
}

/// A panic in an executor is a failure of its op, not of the doctor.
fn outcome(device: &dyn Device, problem: &Problem) -> Outcome {
    match catch_unwind(AssertUnwindSafe(|| verify_problem(device, problem))) {
        Ok(report) => Outcome::from(report),
        Err(cause) => {
            let text = cause.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| cause.downcast_ref::<&str>().copied());
            Outcome {
                problem: problem.name,
                passed: 0,
                unsupported: Vec::new(),
                failures: vec![format!("a bug in nino: {}", text.unwrap_or("unknown"))],
                worst_nmse: BTreeMap::new(),
            }
        }
    }
}

impl From<Report> for Outcome {
    fn from(report: Report) -> Outcome {
        let worst = report
            .worst
            .iter()
            .map(|(class, d)| (format!("{class:?}"), d.nmse));
        let mut unsupported = report.unsupported;
        // Each way of planning a case says the same.
        unsupported.dedup();
        Outcome {
            worst_nmse: worst.collect(),
            problem: report.problem,
            passed: report.passed,
            unsupported,
            failures: report.failures,
        }
    }
}

pub(super) fn text(v: &Verdict) -> String {
    let tier = v
        .tier
        .as_ref()
        .map(|t| format!(", tier {t}"))
        .unwrap_or_default();
    let mut out = format!("\nverify {}  {}{tier}\n", v.device, v.model);
    for o in &v.problems {
        let mark = match (o.failures.is_empty(), o.passed) {
            (false, _) => "FAIL",
            (true, 0) => "none",
            (true, _) => "ok",
        };
        let worst: Vec<String> = o
            .worst_nmse
            .iter()
            .map(|(class, nmse)| format!("{class} {nmse:.0e}"))
            .collect();
        let tried = o.passed + o.failures.len();
        let line = format!(
            "  {mark:<5} {:<20} {:>5} of {tried:<5} {}",
            o.problem,
            o.passed,
            worst.join(", ")
        );
        let _ = writeln!(out, "{}", line.trim_end());
        lines(&mut out, "differs", &o.failures);
        lines(&mut out, "unsupported", &o.unsupported);
    }
    let runs: usize = v.problems.iter().map(|o| o.passed).sum();
    let failed: Vec<&str> = v
        .problems
        .iter()
        .filter(|o| !o.failures.is_empty())
        .map(|o| o.problem)
        .collect();
    let _ = match &v.error {
        Some(error) => write!(out, "  could not run: {error}"),
        None if v.ok => write!(
            out,
            "  pass: {runs} runs of {} problems{}",
            v.problems.len(),
            not_supported(&v.problems)
        ),
        None => write!(
            out,
            "  FAILED: {} of {} problems: {}",
            failed.len(),
            v.problems.len(),
            failed.join(", ")
        ),
    };
    out
}

fn not_supported(outcomes: &[Outcome]) -> String {
    match outcomes.iter().map(|o| o.unsupported.len()).sum::<usize>() {
        0 => String::new(),
        n => format!(", {n} cases not supported"),
    }
}

fn lines(out: &mut String, word: &str, list: &[String]) {
    for line in list.iter().take(MOST_LINES) {
        let _ = writeln!(out, "        {word}: {line}");
    }
    if let Some(more) = list.len().checked_sub(MOST_LINES).filter(|&n| n > 0) {
        let _ = writeln!(out, "        and {more} more");
    }
}
