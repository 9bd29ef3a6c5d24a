//! `nino doctor --verify`: runs the op suite on each device and says which op differs, and by how
//! much.

use crate::interrupt;
use crate::plural::count;
use crate::printer::Printer;
use anyhow::Result;
use nino_engine::device::{DeviceChoice, Target, open_target};
use nino_graph::Device;
use nino_suite::{Class, PROBLEMS, Problem, Report, verify_problem};
use serde::{Serialize, Serializer};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The most lines printed about one problem; more of them tell nothing new.
const MOST_LINES: usize = 4;

/// The suite's result on one device at one tier.
#[derive(Debug, Serialize)]
pub(crate) struct Verdict {
    pub(crate) device: String,
    pub(crate) model: String,
    pub(crate) tier: Option<String>,
    /// True when every problem passed at least once and none failed.
    pub(crate) ok: bool,
    /// Why the suite could not run; `None` when it ran.
    pub(crate) error: Option<String>,
    pub(crate) problems: Vec<Outcome>,
}

/// The result of one problem.
#[derive(Debug, Serialize)]
pub(crate) struct Outcome {
    pub(crate) problem: &'static str,
    pub(crate) passed: usize,
    pub(crate) unsupported: Vec<String>,
    pub(crate) failures: Vec<String>,
    /// The largest normalized mean squared error that passed, for each tolerance class.
    #[serde(serialize_with = "by_name")]
    pub(crate) worst_nmse: BTreeMap<Class, f64>,
}

fn by_name<S: Serializer>(
    worst: &BTreeMap<Class, f64>,
    s: S,
) -> std::result::Result<S::Ok, S::Error> {
    s.collect_map(
        worst
            .iter()
            .map(|(class, nmse)| (format!("{class:?}"), nmse)),
    )
}

impl Outcome {
    /// True when no run failed and at least one passed: a device that supports no case of a problem
    /// has not been verified.
    pub(super) fn ok(&self) -> bool {
        self.failures.is_empty() && self.passed > 0
    }
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
            "no test case matches --filter {filter:?}; there are: {}",
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
    verdict.ok = verdict.problems.iter().all(Outcome::ok);
    Ok(verdict)
}

/// Runs one problem. A panic in an executor counts as a failure of the problem.
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
        let worst = report.worst.iter().map(|(class, d)| (*class, d.nmse));
        let mut unsupported = report.unsupported;
        // Every variant of a case gives the same reason.
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
            .map(|(class, nmse)| format!("{class:?} {nmse:.0e}"))
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
    classes(&mut out, &v.problems);
    let runs: usize = v.problems.iter().map(|o| o.passed).sum();
    let failed: Vec<&str> = v
        .problems
        .iter()
        .filter(|o| !o.ok())
        .map(|o| o.problem)
        .collect();
    let _ = match &v.error {
        Some(error) => write!(out, "  could not run: {error}"),
        None if v.ok => write!(
            out,
            "  pass: {} of {}{}",
            count(runs, "run"),
            count(v.problems.len(), "problem"),
            not_supported(&v.problems)
        ),
        None => write!(
            out,
            "  FAILED: {} of {}: {}",
            failed.len(),
            count(v.problems.len(), "problem"),
            failed.join(", ")
        ),
    };
    out
}

/// Explains the classes that the lines above name: the worst error and the limit of each.
fn classes(out: &mut String, problems: &[Outcome]) {
    let mut worst: BTreeMap<Class, f64> = BTreeMap::new();
    for (&class, &nmse) in problems.iter().flat_map(|o| &o.worst_nmse) {
        let most = worst.entry(class).or_default();
        *most = most.max(nmse);
    }
    if worst.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "  worst error by class, as normalized mean squared error (NMSE):"
    );
    for (class, nmse) in worst {
        let (limit, _) = class.limits();
        let _ = writeln!(
            out,
            "    {:<6} {nmse:>5.0e}, limit {limit:>5.0e}: {}",
            format!("{class:?}"),
            class.meaning()
        );
    }
}

fn not_supported(outcomes: &[Outcome]) -> String {
    match outcomes.iter().map(|o| o.unsupported.len()).sum::<usize>() {
        0 => String::new(),
        n => format!(", {} not supported", count(n, "case")),
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
