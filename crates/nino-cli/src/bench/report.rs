//! Measured rows as a table and as JSON.

use super::head::Head;
use crate::device::{Ceiling, Opened};
use crate::table::{Align, Table};
use nino_suite::bench;
use serde::Serialize;

#[derive(Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    head: Head,
    /// Bytes a second in GB, reads plus writes.
    copy_gbytes: f64,
    /// Measured peak arithmetic.
    peak_gflops: f64,
    pub(super) rows: Vec<Row>,
    /// A sentence for each op that could not be measured.
    pub(super) failures: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct Row {
    op: &'static str,
    shape: String,
    dtype: String,
    device: String,
    tier: Option<String>,
    runs: usize,
    median_ms: f64,
    fastest_ms: f64,
    slowest_ms: f64,
    /// (slowest − fastest) / median
    spread: f64,
    gflops: f64,
    gbytes: f64,
    /// Of the smaller of peak arithmetic and copy bandwidth × intensity; fast algorithms that do
    /// less arithmetic than they are credited with can pass 1.
    roofline_share: f64,
    /// Error of sampled outputs, normalized mean square.
    nmse: f64,
    arena_bytes: usize,
}

impl Report {
    pub(super) fn new(opened: &Opened, ceiling: Ceiling) -> Report {
        Report {
            head: Head::new(opened),
            copy_gbytes: ceiling.copy_bytes / 1e9,
            peak_gflops: ceiling.flops / 1e9,
            rows: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(super) fn heading(&self) -> String {
        format!(
            "{}\nmeasured peak: {} GFLOP/s, copy {} GB/s\n",
            self.head,
            three(self.peak_gflops),
            three(self.copy_gbytes)
        )
    }

    pub(super) fn table(&self) -> String {
        use Align::{Left, Right};
        let mut table = Table::new(&[
            ("op", Left),
            ("shape", Left),
            ("dtype", Left),
            ("device", Left),
            ("tier", Left),
            ("n", Right),
            ("median ms", Right),
            ("spread", Right),
            ("GFLOP/s", Right),
            ("GB/s", Right),
            ("share", Right),
        ]);
        for row in &self.rows {
            table.push(vec![
                row.op.to_owned(),
                row.shape.clone(),
                row.dtype.clone(),
                row.device.clone(),
                row.tier.clone().unwrap_or_else(|| "-".to_owned()),
                row.runs.to_string(),
                format!("{:.3}", row.median_ms),
                format!("{:.0}%", row.spread * 100.0),
                three(row.gflops),
                three(row.gbytes),
                format!("{:.0}%", row.roofline_share * 100.0),
            ]);
        }
        table.render()
    }
}

impl Row {
    pub(super) fn new(row: &bench::Row, opened: &Opened, ceiling: Ceiling) -> Row {
        let ms = |d: std::time::Duration| d.as_secs_f64() * 1e3;
        Row {
            op: row.op,
            shape: row.shape.clone(),
            dtype: row.dtype.clone(),
            device: opened.name.to_string(),
            tier: opened.tier.map(|t| t.to_string()),
            runs: row.runs,
            median_ms: ms(row.median),
            fastest_ms: ms(row.fastest),
            slowest_ms: ms(row.slowest),
            spread: row.spread(),
            gflops: row.gflops(),
            gbytes: row.gbytes(),
            roofline_share: share(
                row.cost.flops,
                row.cost.bytes,
                ms(row.median) / 1e3,
                ceiling,
            ),
            nmse: row.difference.nmse,
            arena_bytes: row.arena_bytes,
        }
    }
}

/// The least time the ceilings allow, as share of the time taken.
pub(super) fn share(flops: f64, bytes: f64, seconds: f64, ceiling: Ceiling) -> f64 {
    let least = (flops / ceiling.flops).max(bytes / ceiling.copy_bytes);
    least / seconds
}

/// Three significant digits below 1000, whole numbers above.
pub(super) fn three(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}
