//! One family of cards: every kernel that the workloads would run there, compiled, and the time
//! predicted for each card of the family. Runs in a process of its own (`radv`).

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use nino_dtype::DType;
use nino_gpu::{Arch, KernelKey, PlannedLaunch, kernels};
use nino_graph::{Kind, Plan, rewrite};
use serde::{Deserialize, Serialize};

use crate::chip::Chip;
use crate::isa::Code;
use crate::predict::{Shot, Work, own_bytes};
use crate::radv::{Radv, Stats};
use nino_models::workload::Workload;

/// What was found for a family.
#[derive(Debug, Serialize, Deserialize)]
pub struct Report {
    pub family: String,
    /// The device as the driver names it.
    pub device: String,
    pub tier: String,
    pub kernels: Vec<KernelReport>,
    pub times: Vec<TimeReport>,
}

/// A kernel on a family.
#[derive(Debug, Serialize, Deserialize)]
pub struct KernelReport {
    pub label: String,
    /// Why it has no numbers.
    pub error: Option<String>,
    pub stats: Stats,
    /// Waves at once on a SIMD, and workgroups on the SIMDs that share LDS.
    pub waves: u32,
    pub groups: u32,
    pub group_waves: u32,
    pub work: Option<Work>,
    /// Dispatches in a run of each workload.
    pub launches: BTreeMap<String, usize>,
    /// Predicted seconds of a run of each workload, on the family's first card.
    pub seconds: BTreeMap<String, f64>,
}

/// A workload on a card.
#[derive(Debug, Serialize, Deserialize)]
pub struct TimeReport {
    pub card: String,
    pub workload: String,
    pub seconds: f64,
    pub flops: f64,
    /// Seconds and operations by kind of op.
    pub kinds: BTreeMap<String, (f64, f64)>,
}

struct Compiled {
    report: KernelReport,
    fits: crate::chip::Occupancy,
}

/// Plans, lowers and compiles the workloads for this process's family; `untuned` with the tiles
/// that other vendors' cards get.
pub fn examine(
    family: &str,
    workloads: &[Workload],
    isa: Option<&str>,
    untuned: bool,
) -> Result<Report> {
    let chip = Chip::named(family).with_context(|| format!("no constants for {family}"))?;
    let mut radv = Radv::open(family)?;
    if untuned {
        radv.caps.arch = Arch::Other;
    }
    let mut compiled: BTreeMap<KernelKey, Compiled> = BTreeMap::new();
    let mut times = Vec::new();
    for workload in workloads {
        let graph = workload.record(radv.caps.activation_dtype())?;
        let plan = Plan::new(rewrite(&graph, radv.caps.rewrites()), &radv.caps.limits())?;
        let launches = kernels(&radv.caps, &plan)?;
        for launch in &launches {
            if !compiled.contains_key(&launch.kernel) {
                let made = compile(&radv, &chip, &launch.kernel, isa);
                compiled.insert(launch.kernel.clone(), made);
            }
        }
        times.extend(predict(&chip, workload, &plan, &launches, &mut compiled));
    }
    Ok(Report {
        family: family.to_owned(),
        device: radv.name.clone(),
        tier: radv.caps.tier.to_string(),
        kernels: compiled.into_values().map(|c| c.report).collect(),
        times,
    })
}

fn compile(radv: &Radv, chip: &Chip, key: &KernelKey, isa: Option<&str>) -> Compiled {
    let label = key.label();
    let made = radv.compile(key);
    let (stats, text, error) = match made {
        Ok((stats, text)) => (stats, text, None),
        Err(e) => (Stats::default(), String::new(), Some(format!("{e:#}"))),
    };
    if isa.is_some_and(|wanted| label.contains(wanted)) {
        print_isa(&label, &text);
    }
    let fits = chip.occupancy(
        stats.vgprs as u32,
        stats.lds as u32,
        stats.lanes,
        stats.group_lanes,
    );
    let code = Code::parse(&text);
    let report = KernelReport {
        label,
        work: error
            .is_none()
            .then(|| Work::new(key, &code, chip, stats.lanes)),
        error,
        stats,
        waves: fits.waves,
        groups: fits.groups,
        group_waves: fits.group_waves,
        launches: BTreeMap::new(),
        seconds: BTreeMap::new(),
    };
    Compiled { report, fits }
}

#[allow(clippy::print_stderr)] // the report goes to standard output
fn print_isa(label: &str, text: &str) {
    eprintln!("// {label}\n{text}");
}

/// Every launch's time on each card of the family, and the sums.
fn predict(
    chip: &Chip,
    workload: &Workload,
    plan: &Plan,
    launches: &[PlannedLaunch],
    compiled: &mut BTreeMap<KernelKey, Compiled>,
) -> Vec<TimeReport> {
    // A step's kernels share what it reads and writes, but for those whose own traffic is known.
    let mut per_step = vec![0usize; plan.steps().len()];
    let shares = |l: &&PlannedLaunch| own_bytes(&l.kernel, &l.params).is_none();
    let sharing = launches.iter().filter(shares);
    sharing.for_each(|l| per_step[l.step] += 1);
    let times = f64::from(workload.times);
    let mut reports = Vec::new();
    for (number, card) in chip.cards().enumerate() {
        let mut kinds: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for launch in launches.iter().filter(|l| l.step >= plan.steady_steps()) {
            let step = &plan.steps()[launch.step];
            let cost = plan.step_cost(step);
            let own = own_bytes(&launch.kernel, &launch.params);
            let share = match own {
                Some(_) => 0.0,
                None => 1.0 / per_step[launch.step] as f64,
            };
            let Some(made) = compiled.get_mut(&launch.kernel) else {
                continue;
            };
            let shot = Shot {
                key: &launch.kernel,
                params: &launch.params,
                groups: launch.groups,
                bytes: own.unwrap_or(cost.bytes * share),
            };
            let seconds = made.report.work.as_ref().map_or(0.0, |work| {
                times * work.seconds(&shot, chip, &card, made.fits)
            });
            if number == 0 {
                let of = |name: &str| name.to_owned();
                *made.report.launches.entry(of(workload.name)).or_default() +=
                    workload.times as usize;
                *made.report.seconds.entry(of(workload.name)).or_default() += seconds;
            }
            let kind = match Kind::of(plan.graph(), step.node) {
                Kind::Conv3x3 { .. } => "conv3x3",
                Kind::Linear { x: DType::BF16, .. } => "linear bf16",
                Kind::Attention { x: DType::BF16 } => "attention bf16",
                Kind::Linear { .. } => "linear",
                Kind::Attention { .. } => "attention",
                Kind::Other => "other",
            };
            let sum = kinds.entry(kind.to_owned()).or_default();
            sum.0 += seconds;
            sum.1 += cost.flops * share * times;
        }
        reports.push(TimeReport {
            card: card.name.to_owned(),
            workload: workload.name.to_owned(),
            seconds: kinds.values().map(|(s, _)| s).sum(),
            flops: kinds.values().map(|(_, f)| f).sum(),
            kinds,
        });
    }
    reports
}
