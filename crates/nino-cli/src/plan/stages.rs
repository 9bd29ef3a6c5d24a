//! What stages of work need, as text and as JSON.

use crate::bytes::Bytes;
use crate::decode::device_text;
use crate::device::{self, Opened};
use crate::plural::count;
use crate::resident;
use crate::span::Span;
use crate::verdict::{Needs, Verdict};
use nino_engine::{GeneratePlan, StagePlan};
use nino_graph::{Load, Rates};
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// What is planned.
pub(super) struct About {
    /// In words, for the first line.
    pub(super) title: String,
    /// The same for scripts: an object.
    pub(super) facts: Value,
    /// How often it is done.
    pub(super) count: usize,
    /// The file that weights are read from, where there is one.
    pub(super) weights: Option<PathBuf>,
}

#[derive(Serialize)]
pub(super) struct Report {
    #[serde(skip)]
    title: String,
    #[serde(flatten)]
    facts: Value,
    device: String,
    /// Whether it is of a card that is not in this machine.
    predicted: bool,
    budget_bytes: Option<usize>,
    predicted_peak_bytes: usize,
    /// The part of the budget that the program itself takes, with latents and pictures.
    program_bytes: usize,
    largest_binding_bytes: usize,
    weights_bytes: usize,
    streamed_bytes: usize,
    /// `None` where the device could not be measured.
    estimated_ms: Option<f64>,
    /// What planning itself took of memory at most, where the system tells.
    resident_peak_bytes: Option<usize>,
    #[serde(flatten)]
    verdict: Verdict,
    stages: Vec<StageRow>,
}

#[derive(Serialize)]
struct StageRow {
    stage: &'static str,
    /// Where it runs, if that is another device.
    #[serde(skip_serializing_if = "Option::is_none")]
    device: Option<String>,
    /// Of the weights: resident, in-turn or streamed.
    strategy: &'static str,
    /// Of the activations: untiled, row-split or exact-tiles.
    activations: &'static str,
    runs: usize,
    predicted_peak_bytes: usize,
    weights_bytes: usize,
    /// In every run.
    streamed_bytes: usize,
    /// In the first run alone.
    streamed_once_bytes: usize,
    host_bytes: usize,
    largest_binding_bytes: usize,
    peak_at: String,
    estimated_ms: Option<f64>,
}

impl StageRow {
    fn new(
        stage: &StagePlan,
        load: &Load,
        rates: Option<&Rates>,
        elsewhere: Option<&Opened>,
    ) -> StageRow {
        let plan = &stage.plan;
        StageRow {
            stage: stage.stage.name(),
            device: elsewhere.map(|opened| opened.name.to_string()),
            strategy: stage.residency.name(),
            activations: stage.strategy().name(),
            runs: stage.runs,
            predicted_peak_bytes: plan.device_bytes(),
            weights_bytes: plan.weight_bytes(),
            streamed_bytes: plan.streamed().each_run,
            streamed_once_bytes: plan.streamed().once,
            host_bytes: plan.host_bytes(),
            largest_binding_bytes: plan.largest_binding(),
            peak_at: plan.peak_op(),
            estimated_ms: rates.map(|rates| rates.seconds(load) * 1e3),
        }
    }
}

/// Times the CPU goes over a weight before an op has it: it is read, laid out and packed.
const PASSES: f64 = 3.0;

/// The device's rates with that of the model's file, where weights stream from it.
fn with_file(rates: Rates, plan: &GeneratePlan, file: Option<&Path>, opened: &Opened) -> Rates {
    let streams = plan.streamed_bytes() > 0 && !opened.is_predicted();
    let Some(file) = file.filter(|_| streams).and_then(read_rate) else {
        return rates;
    };
    let is_cpu = opened.tier.is_none();
    Rates {
        read_bytes: if is_cpu { file / PASSES } else { file },
        ..rates
    }
}

impl Report {
    /// `text` is the device of text encoders, where that is another one.
    pub(super) fn new(
        plan: &GeneratePlan,
        about: About,
        opened: &Opened,
        text: Option<&Opened>,
    ) -> Report {
        let loads: Vec<Load> = plan.stages.iter().map(StagePlan::load).collect();
        let outside = plan.stages.iter().map(|s| s.plan.host_bytes()).max();
        let rates = |opened: &Opened, elsewhere: bool| {
            let stages = plan.stages.iter().zip(&loads);
            let loads = stages.filter(|(stage, _)| stage.elsewhere == elsewhere);
            let rates = device::rates(opened, &loads.map(|(_, load)| load).collect::<Vec<_>>());
            rates.map(|rates| with_file(rates, plan, about.weights.as_deref(), opened))
        };
        let here = rates(opened, false);
        let there = text.and_then(|text| rates(text, true));
        let stages = plan.stages.iter().zip(&loads);
        let stages: Vec<StageRow> = stages
            .map(|(stage, load)| match text.filter(|_| stage.elsewhere) {
                Some(text) => StageRow::new(stage, load, there.as_ref(), Some(text)),
                None => StageRow::new(stage, load, here.as_ref(), None),
            })
            .collect();
        let estimated: Option<f64> = stages.iter().map(|s| s.estimated_ms).sum();
        let budget = opened.device.budget().with_beside(plan.beside_bytes());
        let program_bytes = budget.outside_plans();
        Report {
            title: about.title,
            facts: about.facts,
            device: device_text(opened),
            predicted: opened.is_predicted(),
            budget_bytes: opened.device.budget().total,
            predicted_peak_bytes: plan.peak_bytes(),
            program_bytes,
            largest_binding_bytes: plan.largest_binding(),
            weights_bytes: plan.weight_bytes(),
            streamed_bytes: plan.streamed_bytes(),
            estimated_ms: estimated.map(|ms| ms * about.count as f64),
            resident_peak_bytes: resident::peak(),
            verdict: Verdict::new(
                opened,
                &Needs {
                    peak: plan.peak_bytes(),
                    program: program_bytes,
                    outside: outside.unwrap_or(0),
                },
            ),
            stages,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |n: usize| Bytes(n as u64).to_string();
        writeln!(f, "{} on {}", self.title, self.device)?;
        for s in &self.stages {
            write!(
                f,
                "  {:<8} {:<9} {:>9} peak, {:>9} of weights",
                s.stage,
                s.strategy,
                bytes(s.predicted_peak_bytes),
                bytes(s.weights_bytes)
            )?;
            if s.streamed_bytes > 0 {
                write!(f, ", {} streamed each run", bytes(s.streamed_bytes))?;
            }
            if s.streamed_once_bytes > 0 {
                write!(f, ", {} streamed once", bytes(s.streamed_once_bytes))?;
            }
            if s.host_bytes > 0 {
                write!(f, ", {} of values offloaded", bytes(s.host_bytes))?;
            }
            if let Some(device) = &s.device {
                write!(f, ", on {device}")?;
            }
            writeln!(
                f,
                "; {} in {}",
                count(s.runs, "run"),
                Span::or_unknown(s.estimated_ms)
            )?;
        }
        write!(f, "  predicted peak   {}", bytes(self.predicted_peak_bytes))?;
        if let Some(budget) = self.budget_bytes {
            write!(f, " of {}", bytes(budget))?;
        }
        writeln!(f)?;
        writeln!(
            f,
            "  largest binding  {}",
            bytes(self.largest_binding_bytes)
        )?;
        let time = Span::or_unknown(self.estimated_ms);
        let label = if self.predicted {
            "predicted time"
        } else {
            "estimated time"
        };
        writeln!(f, "  {label}   {time}")?;
        write!(f, "{}", self.verdict)
    }
}

/// Bytes a second that a piece of the middle of a file comes at, from memory or from the disk, as
/// it is now.
fn read_rate(path: &Path) -> Option<f64> {
    const PIECE: usize = 32 << 20;
    let mut file = nino_files::Opened::open(path).ok()?;
    let middle = file.size() / 2;
    file.seek(SeekFrom::Start(middle)).ok()?;
    let mut bytes = vec![0; 1 << 20];
    let started = Instant::now();
    let mut all = 0;
    while all < PIECE {
        match file.read(&mut bytes).ok()? {
            0 => break,
            n => all += n,
        }
    }
    (all > 0).then(|| all as f64 / started.elapsed().as_secs_f64())
}
