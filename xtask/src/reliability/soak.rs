//! `cargo xtask soak`: random requests, planned and run. What a run takes of memory must be at most
//! 5 % more than its plan and the program say, and never more than its budget. A budget that is
//! refused is raised to the least that the refusal tells, which must be enough.

mod requests;

use super::{Folder, Options, Random, nino};
use anyhow::{Context, Result, bail};
use requests::{Models, Request};
use std::path::Path;
use std::process::{Child, Stdio};

/// How much a run may take, as a share of what was planned.
const MOST: f64 = 1.05;

pub(crate) fn run(words: &[&str]) -> Result<()> {
    let options = Options::new(words, 300)?;
    let folder = Folder::new("soak")?;
    let models = Models::new(&options, &folder)?;
    println!("seed {}, {} runs", options.seed, options.runs);
    let (mut within, mut raised) = (0, 0);
    let mut worst: Vec<(String, f64, usize)> = Vec::new();
    for i in 0..options.runs {
        let mut random = Random(options.seed.wrapping_mul(1_000_003).wrapping_add(i as u64));
        let request = models.request(&mut random)?;
        let outcome = match outcome(&options, &folder.0, &request, &mut random) {
            Ok(outcome) => outcome,
            Err(why) => {
                println!("run {i}: {why:#}: nino {}", request.run.join(" "));
                continue;
            }
        };
        raised += usize::from(outcome.is_raised);
        let ratio = outcome.taken as f64 / outcome.promised as f64;
        match worst.iter_mut().find(|(kind, ..)| *kind == request.kind) {
            Some((_, most, runs)) => (*most, *runs) = (most.max(ratio), *runs + 1),
            None => worst.push((request.kind, ratio, 1)),
        }
        let over = outcome.budget.is_some_and(|budget| outcome.taken > budget);
        if ratio <= MOST && !over {
            within += 1;
            continue;
        }
        println!(
            "run {i}: {:.1} MiB taken, {:.1} promised, budget {}: nino {}",
            mib(outcome.taken),
            mib(outcome.promised),
            outcome
                .budget
                .map_or("none".to_owned(), |b| format!("{:.1}", mib(b))),
            request.run.join(" ")
        );
    }
    worst.sort_by(|a, b| a.0.cmp(&b.0));
    for (kind, ratio, runs) in &worst {
        println!("{kind:<20} {runs:>3} runs, at most {ratio:.3} of what was promised");
    }
    println!(
        "{within} of {} runs within plan and budget, {raised} of them in the least budget told",
        options.runs
    );
    if within < options.runs {
        bail!("{} runs broke a promise", options.runs - within);
    }
    Ok(())
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

struct Outcome {
    /// Bytes of the plan and the program.
    promised: u64,
    /// Bytes that were resident at most.
    taken: u64,
    budget: Option<u64>,
    /// The budget is the least that a refusal told.
    is_raised: bool,
}

/// Plans and runs a request, in two of three cases within a budget that is less than it would
/// take.
fn outcome(
    options: &Options,
    folder: &Path,
    request: &Request,
    random: &mut Random,
) -> Result<Outcome> {
    let fits = |answer| match answer {
        Answer::Fits(bytes) => Ok(bytes),
        Answer::GiveAtLeast(bytes) => bail!("refused below {:.1} MiB", mib(bytes)),
    };
    let mut promised = fits(ask(options, folder, &request.plan, None)?)?;
    let share = 0.4 + 0.6 * random.share();
    let mut budget = (random.below(3) > 0).then_some((promised as f64 * share) as u64);
    let mut is_raised = false;
    if budget.is_some() {
        promised = match ask(options, folder, &request.plan, budget)? {
            Answer::Fits(bytes) => bytes,
            Answer::GiveAtLeast(least) => {
                (budget, is_raised) = (Some(least), true);
                fits(ask(options, folder, &request.plan, budget)?).context("the told least")?
            }
        };
    }
    let mut command = nino(options, folder, &request.run);
    with_budget(&mut command, budget);
    let child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
    Ok(Outcome {
        promised,
        taken: resident(child.context("nino does not start")?)?,
        budget,
        is_raised,
    })
}

/// What a plan answers.
enum Answer {
    /// Bytes that it takes with the program.
    Fits(u64),
    /// It is refused; so many bytes are enough.
    GiveAtLeast(u64),
}

fn ask(options: &Options, folder: &Path, plan: &[String], budget: Option<u64>) -> Result<Answer> {
    let mut command = nino(options, folder, plan);
    with_budget(command.arg("--json"), budget);
    let said = command.output().context("nino does not start")?;
    let document = String::from_utf8_lossy(&said.stdout);
    if !said.status.success() {
        let told = number(&document, "\"give --budget ");
        let least = told.filter(|_| document.contains("\"over-budget\""));
        return match least {
            Some(mib) => Ok(Answer::GiveAtLeast(mib << 20)),
            None => bail!("no plan: {}", document.trim()),
        };
    }
    let bytes =
        number(&document, "\"predicted_peak_bytes\":").zip(number(&document, "\"program_bytes\":"));
    let (peak, program) = bytes.context("the plan has no such numbers")?;
    Ok(Answer::Fits(peak + program))
}

fn with_budget(command: &mut std::process::Command, budget: Option<u64>) {
    if let Some(budget) = budget {
        command.args(["--budget", &format!("{budget}B")]);
    }
}

/// The number behind the first `name` in a JSON document of ours.
fn number(document: &str, name: &str) -> Option<u64> {
    let behind = document.split(name).nth(1)?;
    let digits: String = behind
        .trim_start()
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().ok()
}

/// Waits for a run; bytes that were resident at most.
fn resident(mut child: Child) -> Result<u64> {
    let mut status = 0;
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    let id = libc::pid_t::try_from(child.id())?;
    // Its few words fit the pipe, and are told where it failed.
    // SAFETY: waits for a child of ours and fills what it is given.
    let waited = unsafe { libc::wait4(id, &raw mut status, 0, usage.as_mut_ptr()) };
    if waited != id {
        bail!("cannot wait for nino: {}", std::io::Error::last_os_error());
    }
    if status != 0 {
        let mut said = String::new();
        if let Some(mut err) = child.stderr.take() {
            std::io::Read::read_to_string(&mut err, &mut said)?;
        }
        bail!("it failed, which was planned: {}", said.trim());
    }
    // SAFETY: the call filled it; zeros are valid, too.
    let usage = unsafe { usage.assume_init() };
    Ok(usage.ru_maxrss as u64 * 1024)
}
