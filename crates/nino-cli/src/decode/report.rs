//! What the verbs tell: as text and as JSON.

use super::device_text;
use crate::bytes::Bytes;
use crate::device::{Opened, rates};
use crate::plural::count;
use crate::resident;
use crate::span::Span;
use crate::verdict::{Needs, Verdict};
use nino_engine::{DecodePlan, Decoded, Encoded, VaeFile};
use serde::Serialize;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Serialize)]
struct TileJson {
    size: usize,
    overlap: usize,
    count: usize,
}

#[derive(Serialize)]
pub(super) struct PlanReport {
    vae: String,
    device: String,
    /// Whether it is of a card that is not in this machine.
    predicted: bool,
    width: usize,
    height: usize,
    frames: usize,
    strategy: &'static str,
    precision: String,
    predicted_peak_bytes: usize,
    weights_bytes: usize,
    host_bytes: usize,
    /// From outside the device and back, in all.
    moved_bytes: usize,
    /// See [`program_bytes`].
    program_bytes: usize,
    largest_binding_bytes: usize,
    peak_at: String,
    tile: Option<TileJson>,
    chunk: Option<usize>,
    /// `None` where the device could not be measured.
    estimated_ms: Option<f64>,
    #[serde(flatten)]
    verdict: Verdict,
    /// Of this process, which only plans and measures; Linux only.
    resident_peak_bytes: Option<usize>,
}

impl PlanReport {
    pub(super) fn new(plan: &DecodePlan, vae: &VaeFile, opened: &Opened) -> PlanReport {
        let (peak, outside, load) = (plan.peak_bytes(), plan.host_bytes(), plan.load());
        let program_bytes = program_bytes(plan, opened);
        let seconds = rates(opened, &[&load]).map(|r| r.seconds(&load));
        PlanReport {
            vae: vae.name.clone(),
            device: device_text(opened),
            predicted: opened.is_predicted(),
            width: plan.width,
            height: plan.height,
            frames: plan.n_frames,
            strategy: plan.strategy.name(),
            precision: plan.dtype.to_string(),
            predicted_peak_bytes: peak,
            weights_bytes: plan.weight_bytes(),
            host_bytes: outside,
            moved_bytes: load.host_bytes,
            program_bytes,
            largest_binding_bytes: plan.largest_binding(),
            peak_at: plan.peak_op(),
            tile: tile(plan),
            chunk: plan.chunk,
            estimated_ms: seconds.map(|s| s * 1e3),
            verdict: Verdict::new(
                opened,
                &Needs {
                    peak,
                    program: program_bytes,
                    outside,
                },
            ),
            resident_peak_bytes: resident::peak(),
        }
    }
}

impl fmt::Display for PlanReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |n: usize| Bytes(n as u64).to_string();
        write!(f, "{} {}x{}", self.vae, self.width, self.height)?;
        if self.frames > 1 {
            write!(f, ", {} frames", self.frames)?;
        }
        writeln!(f, " on {}", self.device)?;
        writeln!(
            f,
            "  strategy         {}, activations in {}",
            self.strategy, self.precision
        )?;
        if let Some(t) = &self.tile {
            writeln!(
                f,
                "  tiles            {} of {} pixels, overlap {}",
                t.count, t.size, t.overlap
            )?;
        }
        if let Some(chunk) = self.chunk {
            let frames = count(chunk, "latent frame");
            writeln!(f, "  chunk            {frames} at a time")?;
        }
        writeln!(
            f,
            "  predicted peak   {} ({} of weights)",
            bytes(self.predicted_peak_bytes),
            bytes(self.weights_bytes)
        )?;
        if self.host_bytes > 0 {
            writeln!(
                f,
                "  offloaded        {}; {} transferred in all",
                bytes(self.host_bytes),
                bytes(self.moved_bytes)
            )?;
        }
        writeln!(
            f,
            "  program          {}, including its images",
            bytes(self.program_bytes)
        )?;
        writeln!(
            f,
            "  largest binding  {}",
            bytes(self.largest_binding_bytes)
        )?;
        writeln!(f, "  peak at          {}", self.peak_at)?;
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

/// Host memory of the program, its threads and the pictures it holds. On a CPU it counts towards
/// the budget.
fn program_bytes(plan: &DecodePlan, opened: &Opened) -> usize {
    opened.device.budget().reserve + plan.picture_bytes()
}

fn tile(plan: &DecodePlan) -> Option<TileJson> {
    plan.tiling.map(|t| TileJson {
        size: t.size,
        overlap: t.overlap,
        count: plan.n_tiles,
    })
}

#[derive(Serialize)]
pub(super) struct DecodeReport {
    /// As text: names need not be, and JSON is.
    files: Vec<String>,
    device: String,
    width: usize,
    height: usize,
    frames: usize,
    strategy: &'static str,
    precision: String,
    tile: Option<TileJson>,
    chunk: Option<usize>,
    predicted_peak_bytes: usize,
    measured_peak_bytes: usize,
    /// See [`program_bytes`].
    program_bytes: usize,
    /// Of the whole process, with what the program itself holds; Linux only.
    resident_peak_bytes: Option<usize>,
    retries: usize,
    recoveries: usize,
    load_ms: f64,
    decode_ms: f64,
    total_ms: f64,
}

impl DecodeReport {
    pub(super) fn new(
        decoded: &Decoded,
        opened: &Opened,
        files: &[PathBuf],
        total: Duration,
    ) -> DecodeReport {
        let plan = &decoded.plan;
        DecodeReport {
            files: files.iter().map(|f| f.display().to_string()).collect(),
            device: device_text(opened),
            width: plan.width,
            height: plan.height,
            frames: plan.n_frames,
            strategy: plan.strategy.name(),
            precision: plan.dtype.to_string(),
            tile: tile(plan),
            chunk: plan.chunk,
            predicted_peak_bytes: plan.peak_bytes(),
            measured_peak_bytes: decoded.measured_peak,
            program_bytes: program_bytes(plan, opened),
            resident_peak_bytes: resident::peak(),
            retries: decoded.retries,
            recoveries: decoded.recoveries,
            load_ms: decoded.load_time.as_secs_f64() * 1e3,
            decode_ms: decoded.decode_time.as_secs_f64() * 1e3,
            total_ms: total.as_secs_f64() * 1e3,
        }
    }
}

impl fmt::Display for DecodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for file in &self.files {
            writeln!(f, "{file}")?;
        }
        let frames = if self.frames > 1 {
            format!(", {} frames", self.frames)
        } else {
            String::new()
        };
        writeln!(
            f,
            "  {}x{}{frames}, {} in {} on {}",
            self.width, self.height, self.strategy, self.precision, self.device
        )?;
        write!(
            f,
            "  {:.2} s (load {:.2}, decode {:.2}), {} used, {} planned",
            self.total_ms / 1e3,
            self.load_ms / 1e3,
            self.decode_ms / 1e3,
            Bytes(self.measured_peak_bytes as u64),
            Bytes(self.predicted_peak_bytes as u64),
        )
    }
}

#[derive(Serialize)]
pub(super) struct EncodeReport {
    file: String,
    device: String,
    /// `[b, c, h, w]` or `[b, c, t, h, w]`
    shape: Vec<usize>,
    strategy: &'static str,
    precision: String,
    predicted_peak_bytes: usize,
    measured_peak_bytes: usize,
    resident_peak_bytes: Option<usize>,
    retries: usize,
    recoveries: usize,
    load_ms: f64,
    encode_ms: f64,
    total_ms: f64,
}

impl EncodeReport {
    pub(super) fn new(
        encoded: &Encoded,
        opened: &Opened,
        file: &Path,
        total: Duration,
    ) -> EncodeReport {
        EncodeReport {
            file: file.display().to_string(),
            device: device_text(opened),
            shape: encoded.latent.file_shape(),
            strategy: encoded.strategy.name(),
            precision: encoded.dtype.to_string(),
            predicted_peak_bytes: encoded.predicted_peak,
            measured_peak_bytes: encoded.measured_peak,
            resident_peak_bytes: resident::peak(),
            retries: encoded.retries,
            recoveries: encoded.recoveries,
            load_ms: encoded.load_time.as_secs_f64() * 1e3,
            encode_ms: encoded.encode_time.as_secs_f64() * 1e3,
            total_ms: total.as_secs_f64() * 1e3,
        }
    }
}

impl fmt::Display for EncodeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.file)?;
        writeln!(
            f,
            "  latent {:?}, {} in {} on {}",
            self.shape, self.strategy, self.precision, self.device
        )?;
        write!(
            f,
            "  {:.2} s (load {:.2}, encode {:.2}), {} used, {} planned",
            self.total_ms / 1e3,
            self.load_ms / 1e3,
            self.encode_ms / 1e3,
            Bytes(self.measured_peak_bytes as u64),
            Bytes(self.predicted_peak_bytes as u64),
        )
    }
}
