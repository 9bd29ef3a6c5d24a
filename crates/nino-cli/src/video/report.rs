//! What was made, as text and as JSON.

use super::output::Output;
use super::request::Wanted;
use crate::bytes::Bytes;
use crate::span::Span;
use nino_engine::{GeneratePlan, MadeVideo, VideoModel};
use serde::Serialize;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Serialize)]
pub(super) struct Report {
    file: PathBuf,
    model: String,
    low_noise_model: Option<String>,
    seed: u64,
    width: usize,
    height: usize,
    frames: usize,
    fps: f64,
    steps: usize,
    cfg: f32,
    sampler: &'static str,
    predicted_peak_bytes: usize,
    peak_bytes: usize,
    load_ms: f64,
    sample_ms: f64,
    decode_ms: f64,
    total_ms: f64,
}

impl Report {
    pub(super) fn new(
        output: &Output,
        model: &VideoModel,
        wanted: &Wanted,
        made: &MadeVideo,
        plan: &GeneratePlan,
        total: Duration,
    ) -> Report {
        let request = &wanted.request;
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        Report {
            file: output.path.clone(),
            model: model.high.name.clone(),
            low_noise_model: model.low.as_ref().map(|low| low.name.clone()),
            seed: request.seed.value,
            width: request.size.width,
            height: request.size.height,
            frames: request.size.frames,
            fps: wanted.fps,
            steps: request.steps,
            cfg: request.cfg,
            sampler: request.sampler.name,
            predicted_peak_bytes: plan.peak_bytes(),
            peak_bytes: made.peak_bytes,
            load_ms: ms(made.load_time),
            sample_ms: ms(made.sample_time),
            decode_ms: ms(made.decoded.decode_time),
            total_ms: ms(total),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.file.display())?;
        writeln!(
            f,
            "{} frames of {}x{} at {} per second, {} steps of {}, seed {}",
            self.frames, self.width, self.height, self.fps, self.steps, self.model, self.seed
        )?;
        write!(
            f,
            "{} in all, {} peak on the device",
            Span(self.total_ms),
            Bytes(self.peak_bytes as u64)
        )
    }
}
