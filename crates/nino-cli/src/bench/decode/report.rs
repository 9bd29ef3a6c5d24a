//! Measured decodes as a table and as JSON.

use super::cases::Case;
use crate::bench::head::Head;
use crate::bench::op_rows::{self, OpRow};
use crate::bench::report::three;
use crate::bench::timing::{Timing, ms};
use crate::bytes::Bytes;
use crate::device::Opened;
use crate::table::{Align, Table};
use nino_engine::{Decoder, Latent, Profile, VaeFile};
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    head: Head,
    pub(super) rows: Vec<Row>,
    /// A sentence for each row that could not be measured.
    pub(super) failures: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct Row {
    case: String,
    vae: String,
    /// Of the whole batch, as they come out.
    frames: usize,
    strategy: &'static str,
    precision: String,
    chunk: Option<usize>,
    #[serde(flatten)]
    timing: Timing,
    load_ms: f64,
    /// The arithmetic of the definition over the median time.
    gflops: f64,
    predicted_peak_bytes: usize,
    measured_peak_bytes: usize,
    /// Of the whole process during the row, with what the program itself holds; Linux only.
    resident_peak_bytes: Option<usize>,
    host_bytes: usize,
    quality: Quality,
    /// Time by kind of op, of one more run; empty unless asked for.
    ops: Vec<OpRow>,
}

/// How near the decode is to one in f32.
#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Quality {
    /// It is one.
    Reference,
    /// Decibels, where 1 is the range of a channel.
    Psnr(f64),
    TooSlow,
    NotAsked,
    Failed(String),
}

impl Report {
    pub(super) fn new(opened: &Opened) -> Report {
        Report {
            head: Head::new(opened),
            rows: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(super) fn heading(&self) -> String {
        format!("{}\n", self.head)
    }

    pub(super) fn table(&self) -> String {
        use Align::{Left, Right};
        let mut table = Table::new(&[
            ("decode", Left),
            ("vae", Left),
            ("how", Left),
            ("n", Right),
            ("first ms", Right),
            ("median ms", Right),
            ("spread", Right),
            ("GFLOP/s", Right),
            ("planned", Right),
            ("used", Right),
            ("resident", Right),
            ("quality", Right),
        ]);
        let bytes = |n: usize| Bytes(n as u64).to_string();
        for row in &self.rows {
            table.push(vec![
                row.case.clone(),
                row.vae.clone(),
                format!("{}, {}", row.strategy, row.precision),
                row.timing.runs.to_string(),
                three(row.timing.first_ms),
                three(row.timing.median_ms),
                format!("{:.0}%", row.timing.spread * 100.0),
                three(row.gflops),
                bytes(row.predicted_peak_bytes),
                bytes(row.measured_peak_bytes),
                row.resident_peak_bytes.map_or("-".to_owned(), bytes),
                row.quality.text(),
            ]);
        }
        let profiles = self.rows.iter().filter_map(Row::profile_text);
        format!("\n{}{}", table.render(), profiles.collect::<String>())
    }
}

impl Quality {
    fn text(&self) -> String {
        match self {
            Quality::Reference => "f32".to_owned(),
            Quality::Psnr(db) => format!("{db:.1} dB"),
            Quality::TooSlow => "too slow to compare".to_owned(),
            Quality::NotAsked => "not compared".to_owned(),
            Quality::Failed(_) => "f32 did not run".to_owned(),
        }
    }
}

impl Row {
    pub(super) fn new(
        case: &Case,
        vae: &VaeFile,
        latent: &Latent,
        decoder: &Decoder,
        timing: Timing,
        quality: Quality,
        resident: Option<usize>,
    ) -> Row {
        let plan = &decoder.plan;
        Row {
            case: case.name(),
            vae: vae.name.clone(),
            frames: latent.batch * plan.n_frames,
            strategy: plan.strategy.name(),
            precision: plan.dtype.to_string(),
            chunk: plan.chunk,
            load_ms: ms(decoder.load_time),
            gflops: plan.load().work.total().flops * latent.batch as f64 / timing.median_ms / 1e6,
            timing,
            predicted_peak_bytes: plan.peak_bytes(),
            measured_peak_bytes: decoder.measured_peak(),
            resident_peak_bytes: resident,
            host_bytes: plan.host_bytes(),
            quality,
            ops: decoder.profile.as_ref().map(by_kind).unwrap_or_default(),
        }
    }

    /// Said at once, before the table is whole.
    pub(super) fn line(&self) -> String {
        format!(
            "{}, {}: {} ms ({}, {})",
            self.case,
            self.vae,
            three(self.timing.median_ms),
            self.strategy,
            self.precision
        )
    }

    fn profile_text(&self) -> Option<String> {
        if self.ops.is_empty() {
            return None;
        }
        Some(format!(
            "\n\n{}, {}\n{}",
            self.case,
            self.vae,
            op_rows::table(&self.ops)
        ))
    }
}

fn by_kind(profile: &Profile) -> Vec<OpRow> {
    let total = profile.total_time();
    let ops = profile.by_time().into_iter();
    ops.map(|(op, t)| OpRow::new(op.to_owned(), t.count, (t.time, total), t.cost))
        .collect()
}
