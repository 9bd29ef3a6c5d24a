//! `nino plan generate`: what a picture would need, before anything is allocated.

use crate::args::PlanGenerateArgs;
use crate::bytes::Bytes;
use crate::decode::{device_text, precision_of, tile_of};
use crate::device::{self, Choice, Opened};
use crate::env::Env;
use crate::generate::model;
use crate::printer::Printer;
use crate::resident;
use crate::span::Span;
use crate::verdict::{Needs, Verdict};
use anyhow::Result;
use nino_engine::{
    Checkpoint, DecodeOptions, GeneratePlan, GenerateRequest, StagePlan, plan_generate,
};
use nino_graph::{Load, Rates};
use serde::Serialize;
use std::fmt;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Instant;

pub(crate) fn generate(args: &PlanGenerateArgs, env: &Env, printer: Printer) -> Result<()> {
    let choice = Choice::with_profile(&args.device, args.profile, env)?;
    let model = match &args.spec {
        Some(name) => {
            let model = Checkpoint::spec(name)?;
            model::quantized(model, args.model.quantize, &choice.settings)?
        }
        None => model::open(&args.model, &choice, env)?,
    };
    let request = request(args, &model, &choice)?;
    let opened = device::open(&choice)?;
    let plan = plan_generate(&opened.device, &model, &request, args.count)?;
    let report = Report::new(&plan, &model, &request, args.count, &opened);
    printer.text(&report)?;
    printer.document(&report)
}

fn request(
    args: &PlanGenerateArgs,
    model: &Checkpoint,
    choice: &Choice,
) -> Result<GenerateRequest> {
    let mut request = GenerateRequest::new(model, &args.prompt);
    if let Some(size) = args.size {
        (request.width, request.height) = (size.width / 8 * 8, size.height / 8 * 8);
    }
    request.batch = usize::from(args.batch);
    request.steps = args.steps.map_or(request.steps, |n| n as usize);
    request.cfg = args.cfg.unwrap_or(request.cfg);
    request.precision = precision_of(args.precision, &choice.settings)?;
    request.decode = DecodeOptions {
        precision: request.precision,
        tile: tile_of(None, (None, None), &choice.settings)?,
        ..request.decode
    };
    Ok(request)
}

#[derive(Serialize)]
struct Report {
    model: String,
    device: String,
    width: usize,
    height: usize,
    batch: usize,
    count: usize,
    steps: usize,
    cfg: f32,
    budget_bytes: Option<usize>,
    predicted_peak_bytes: usize,
    /// Of the budget, what the program itself takes, with latents and pictures.
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
    fn new(stage: &StagePlan, load: &Load, rates: Option<&Rates>) -> StageRow {
        let plan = &stage.plan;
        StageRow {
            stage: stage.stage.name(),
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
fn with_file(rates: Rates, plan: &GeneratePlan, model: &Checkpoint, opened: &Opened) -> Rates {
    let streams = plan.streamed_bytes() > 0;
    let Some(file) = streams.then(|| read_rate(&model.path)).flatten() else {
        return rates;
    };
    let is_cpu = opened.tier.is_none();
    Rates {
        read_bytes: if is_cpu { file / PASSES } else { file },
        ..rates
    }
}

impl Report {
    fn new(
        plan: &GeneratePlan,
        model: &Checkpoint,
        request: &GenerateRequest,
        count: usize,
        opened: &Opened,
    ) -> Report {
        let loads: Vec<Load> = plan.stages.iter().map(StagePlan::load).collect();
        let outside = plan.stages.iter().map(|s| s.plan.host_bytes()).max();
        let outside = outside.unwrap_or(0);
        let rates = device::rates(opened, &loads.iter().collect::<Vec<_>>());
        let rates = rates.map(|rates| with_file(rates, plan, model, opened));
        let stages = plan.stages.iter().zip(&loads);
        let stages: Vec<StageRow> = stages
            .map(|(stage, load)| StageRow::new(stage, load, rates.as_ref()))
            .collect();
        let estimated: Option<f64> = stages.iter().map(|s| s.estimated_ms).sum();
        let budget = opened.device.budget().with_beside(plan.beside_bytes());
        let program_bytes = budget.outside_plans();
        Report {
            model: model.name().to_owned(),
            device: device_text(opened),
            width: request.width,
            height: request.height,
            batch: request.batch,
            count,
            steps: request.steps,
            cfg: request.cfg,
            budget_bytes: opened.device.budget().total,
            predicted_peak_bytes: plan.peak_bytes(),
            program_bytes,
            largest_binding_bytes: plan.largest_binding(),
            weights_bytes: plan.weight_bytes(),
            streamed_bytes: plan.streamed_bytes(),
            estimated_ms: estimated.map(|ms| ms * count as f64),
            resident_peak_bytes: resident::peak(),
            verdict: Verdict::new(
                opened,
                &Needs {
                    peak: plan.peak_bytes(),
                    program: program_bytes,
                    outside,
                },
            ),
            stages,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |n: usize| Bytes(n as u64).to_string();
        write!(f, "{} {}x{}", self.model, self.width, self.height)?;
        if self.batch * self.count > 1 {
            write!(f, ", {} pictures", self.batch * self.count)?;
        }
        writeln!(f, ", {} steps on {}", self.steps, self.device)?;
        for s in &self.stages {
            write!(
                f,
                "  {:<8} {:<9} {:>9} at most, {:>9} of weights",
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
                write!(f, ", {} of values outside", bytes(s.host_bytes))?;
            }
            writeln!(
                f,
                "; {} in {}",
                runs(s.runs),
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
        write!(f, "{}", self.verdict)?;
        write!(
            f,
            "  estimated time   {}",
            Span::or_unknown(self.estimated_ms)
        )
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

fn runs(n: usize) -> String {
    if n == 1 {
        "1 run".to_owned()
    } else {
        format!("{n} runs")
    }
}
