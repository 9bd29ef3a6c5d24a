//! What was made, as text and as JSON.

use crate::bytes::Bytes;
use nino_engine::{Checkpoint, GenerateRequest, Generated};
use serde::Serialize;
use std::path::PathBuf;
use std::time::Instant;

#[derive(Serialize)]
pub(super) struct Report {
    files: Vec<PathBuf>,
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
    width: usize,
    height: usize,
    peak_bytes: usize,
    text_ms: f64,
    load_ms: f64,
    sample_ms: f64,
    decode_ms: f64,
    total_ms: f64,
}

impl Report {
    pub(super) fn new(
        request: &GenerateRequest,
        model: &Checkpoint,
        made: &Generated,
        files: Vec<PathBuf>,
        device: String,
        started: Instant,
    ) -> Report {
        let ms = |d: std::time::Duration| d.as_secs_f64() * 1e3;
        Report {
            files,
            model: model.name.clone(),
            device,
            prompt: request.prompt.clone(),
            negative: request.negative.clone(),
            seed: request.seed.value,
            rng: request.seed.rng.name(),
            steps: request.steps,
            cfg: request.cfg,
            sampler: request.sampler.name,
            scheduler: request.scheduler.name(),
            width: request.width,
            height: request.height,
            peak_bytes: made.peak_bytes,
            text_ms: ms(made.text_time),
            load_ms: ms(made.load_time),
            sample_ms: ms(made.sample_time),
            decode_ms: ms(made.decoded.load_time + made.decoded.decode_time),
            total_ms: ms(started.elapsed()),
        }
    }
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for file in &self.files {
            writeln!(f, "{}", file.display())?;
        }
        writeln!(
            f,
            "  seed {}, {} steps of {} ({}), cfg {}, {}x{}, {}",
            self.seed,
            self.steps,
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
            Bytes(self.peak_bytes as u64)
        )
    }
}
