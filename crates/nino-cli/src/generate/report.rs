//! What was made, as text and as JSON.

use crate::bytes::Bytes;
use crate::decode::device_text;
use crate::device::Opened;
use crate::plural::count;
use nino_engine::{Checkpoint, GenerateRequest, Generated};
use nino_graph::Budget;
use serde::Serialize;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Serialize)]
pub(super) struct Report {
    files: Vec<PathBuf>,
    /// The seed of every file.
    seeds: Vec<u64>,
    /// The prompt of every file.
    prompts: Vec<String>,
    model: String,
    device: String,
    prompt: String,
    negative: String,
    seed: u64,
    rng: &'static str,
    steps: usize,
    cfg: f32,
    sampler: &'static str,
    scheduler: &'static str,
    denoise: f64,
    width: usize,
    height: usize,
    /// On the device.
    peak_bytes: usize,
    /// The part of the budget that the program itself takes, with latents and pictures; 0 where it
    /// has memory of its own.
    program_bytes: usize,
    #[serde(skip)]
    budget: Budget,
    text_ms: f64,
    load_ms: f64,
    sample_ms: f64,
    decode_ms: f64,
    total_ms: f64,
}

impl Report {
    /// A report of nothing made yet.
    pub(super) fn new(request: &GenerateRequest, model: &Checkpoint, opened: &Opened) -> Report {
        let (width, height) = request.final_size();
        Report {
            files: Vec::new(),
            seeds: Vec::new(),
            prompts: Vec::new(),
            model: model.name().to_owned(),
            device: device_text(opened),
            prompt: request.prompt.clone(),
            negative: request.negative.clone(),
            seed: request.seed.value,
            rng: request.seed.rng.name(),
            steps: request.steps,
            cfg: request.cfg,
            sampler: request.sampler.name,
            scheduler: request.scheduler.name(),
            denoise: request.denoise,
            width,
            height,
            peak_bytes: 0,
            program_bytes: 0,
            budget: opened.device.budget(),
            text_ms: 0.0,
            load_ms: 0.0,
            sample_ms: 0.0,
            decode_ms: 0.0,
            total_ms: 0.0,
        }
    }

    /// Times add up over pictures.
    pub(super) fn add(&mut self, request: &GenerateRequest, made: &Generated, files: Vec<PathBuf>) {
        let ms = |d: Duration| d.as_secs_f64() * 1e3;
        self.seeds.extend(files.iter().map(|_| request.seed.value));
        self.prompts
            .extend(files.iter().map(|_| request.prompt.clone()));
        self.files.extend(files);
        self.peak_bytes = self.peak_bytes.max(made.peak_bytes);
        let program = self.budget.with_beside(made.beside_bytes).outside_plans();
        self.program_bytes = self.program_bytes.max(program);
        self.text_ms += ms(made.text_time);
        self.load_ms += ms(made.load_time);
        self.sample_ms += ms(made.sample_time);
        self.decode_ms += ms(made.decoded.load_time + made.decoded.decode_time);
    }

    pub(super) fn files(&self) -> &[PathBuf] {
        &self.files
    }

    pub(super) fn close(&mut self, total: Duration) {
        self.total_ms = total.as_secs_f64() * 1e3;
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let several = self.seeds.windows(2).any(|w| w[0] != w[1]);
        for (file, seed) in self.files.iter().zip(&self.seeds) {
            write!(f, "{}", file.display())?;
            if several {
                write!(f, "  seed {seed}")?;
            }
            writeln!(f)?;
        }
        writeln!(
            f,
            "  seed {}, {} of {} ({}), cfg {}, {}x{}, {}",
            self.seed,
            count(self.steps, "step"),
            self.sampler,
            self.scheduler,
            self.cfg,
            self.width,
            self.height,
            self.model
        )?;
        write!(
            f,
            "  {:.2} s (sampling {:.2}, decode {:.2}) on {}, {} used",
            self.total_ms / 1e3,
            self.sample_ms / 1e3,
            self.decode_ms / 1e3,
            self.device,
            Bytes((self.peak_bytes + self.program_bytes) as u64)
        )
    }
}
