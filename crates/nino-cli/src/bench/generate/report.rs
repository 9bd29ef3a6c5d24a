//! Measured rows as a table and as JSON.

use super::cases::Case;
use super::network::Profiled;
use crate::bench::head::Head;
use crate::bench::op_rows::{self, OpRow};
use crate::bench::report::three;
use crate::bench::timing::{Timing, ms};
use crate::bytes::Bytes;
use crate::device::Opened;
use crate::plural::count;
use crate::table::{Align, Table};
use nino_dtype::DType;
use nino_graph::{Cost, Graph, Node, Op};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Shapes of ops that are worth a line.
const LONGEST: usize = 25;

#[derive(Serialize)]
pub(super) struct Report {
    #[serde(flatten)]
    head: Head,
    activations: String,
    pub(super) rows: Vec<Row>,
    /// A sentence for each row that could not be measured.
    pub(super) failures: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct Row {
    case: String,
    /// Of a whole picture.
    pub(super) steps: Option<u32>,
    #[serde(flatten)]
    timing: Timing,
    per_second: f64,
    /// The arithmetic of the definition over the median time.
    tflops: f64,
    /// Weights and activations, as the plan says; of the largest network of a picture.
    pub(super) planned_bytes: usize,
    pub(super) allocated_bytes: usize,
    /// Of the whole process during the row; Linux only.
    pub(super) resident_peak_bytes: Option<usize>,
    /// Error against f32 weights and activations on the CPU, normalized mean square.
    pub(super) nmse: Option<f64>,
    /// Time of one more run that no op took.
    overhead_share: Option<f64>,
    /// By kind of op, the longest first; empty unless asked for.
    kinds: Vec<OpRow>,
    /// By kind and shape, the longest first.
    shapes: Vec<OpRow>,
}

impl Report {
    pub(super) fn new(opened: &Opened, activations: DType) -> Report {
        Report {
            head: Head::new(opened),
            activations: activations.to_string(),
            rows: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(super) fn heading(&self) -> String {
        format!("{}, activations {}\n", self.head, self.activations)
    }

    pub(super) fn table(&self) -> String {
        use Align::{Left, Right};
        let mut table = Table::new(&[
            ("what", Left),
            ("n", Right),
            ("first ms", Right),
            ("median ms", Right),
            ("spread", Right),
            ("it/s", Right),
            ("TFLOP/s", Right),
            ("planned", Right),
            ("used", Right),
            ("resident", Right),
            ("nmse", Right),
        ]);
        let bytes = |n: usize| Bytes(n as u64).to_string();
        for row in &self.rows {
            table.push(vec![
                row.name(),
                row.timing.runs.to_string(),
                three(row.timing.first_ms),
                three(row.timing.median_ms),
                format!("{:.0}%", row.timing.spread * 100.0),
                three(row.per_second),
                three(row.tflops),
                bytes(row.planned_bytes),
                bytes(row.allocated_bytes),
                row.resident_peak_bytes.map_or("-".to_owned(), bytes),
                row.nmse.map_or("-".to_owned(), |e| format!("{e:.1e}")),
            ]);
        }
        let profiles = self.rows.iter().filter_map(Row::profile_text);
        format!("\n{}{}", table.render(), profiles.collect::<String>())
    }
}

impl Row {
    pub(super) fn new(case: &Case, timing: Timing, flops: f64) -> Row {
        Row {
            case: case.name.clone(),
            steps: None,
            per_second: 1e3 / timing.median_ms,
            tflops: flops / timing.median_ms / 1e9,
            timing,
            planned_bytes: 0,
            allocated_bytes: 0,
            resident_peak_bytes: None,
            nmse: None,
            overhead_share: None,
            kinds: Vec::new(),
            shapes: Vec::new(),
        }
    }

    pub(super) fn profile(&mut self, run: &Profiled<'_>) {
        let ops: Duration = run.times.iter().map(|t| t.time).sum();
        self.overhead_share = Some(1.0 - ms(ops) / ms(run.total));
        self.kinds = grouped(run, kind);
        self.shapes = grouped(run, |graph, node| {
            format!("{} {}", kind(graph, node), sizes(graph, node))
        });
        self.shapes.truncate(LONGEST);
    }

    fn name(&self) -> String {
        match self.steps {
            Some(n) => format!("{}, {}", self.case, count(n as usize, "step")),
            None => self.case.clone(),
        }
    }

    /// Said at once, before the table is whole.
    pub(super) fn line(&self) -> String {
        format!("{}: {} ms", self.name(), three(self.timing.median_ms))
    }

    fn profile_text(&self) -> Option<String> {
        let overhead = self.overhead_share?;
        Some(format!(
            "\n\n{}: {:.1}% of the time is outside ops\n{}\n\n{}",
            self.case,
            overhead * 100.0,
            op_rows::table(&self.kinds),
            op_rows::table(&self.shapes)
        ))
    }
}

fn grouped(run: &Profiled<'_>, name: impl Fn(&Graph, Node) -> String) -> Vec<OpRow> {
    let mut sums: BTreeMap<String, (usize, Duration, Cost)> = BTreeMap::new();
    for t in &run.times {
        let sum = sums.entry(name(run.graph, t.node)).or_default();
        sum.0 += 1;
        sum.1 += t.time;
        sum.2 += run.graph.cost(t.node);
    }
    let total: Duration = run.times.iter().map(|t| t.time).sum();
    let mut rows: Vec<OpRow> = sums
        .into_iter()
        .map(|(op, (count, time, cost))| OpRow::new(op, count, (time, total), cost))
        .collect();
    rows.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    rows
}

/// The op with what decides which kernel it gets: window and weights.
fn kind(graph: &Graph, node: Node) -> String {
    match graph.op(node) {
        Some(Op::Conv(o)) => {
            let w = graph.shape(o.w);
            let window: Vec<String> = w[1..w.rank() - 1].iter().map(usize::to_string).collect();
            format!("conv {} {}", window.join("x"), graph.dtype(o.w))
        }
        Some(Op::Linear(o)) => format!("linear {}", graph.dtype(o.w)),
        Some(op) => op.name().to_owned(),
        None => "value".to_owned(),
    }
}

fn sizes(graph: &Graph, node: Node) -> String {
    let out = graph.shape(node);
    match graph.op(node) {
        Some(Op::Conv(o)) => {
            let down = if o.stride[2] > 1 { " down" } else { "" };
            let up = if o.upsample > 1 { " up" } else { "" };
            let [w, c] = [out[out.rank() - 2], out.last_dim()];
            format!("{}->{c}@{w}{down}{up}", graph.shape(o.x).last_dim())
        }
        Some(Op::Linear(o)) => {
            let norm = if o.pre.is_some() { " norm" } else { "" };
            format!(
                "{}x{}x{}{norm}",
                out.rows(),
                graph.shape(o.x).last_dim(),
                out.last_dim()
            )
        }
        Some(Op::Attention(o)) => {
            let (q, k) = (graph.shape(o.q), graph.shape(o.k));
            format!("{}x{} heads {}x{} hd {}", q[0], q[2], q[1], k[1], q[3])
        }
        _ => format!("{out}"),
    }
}
