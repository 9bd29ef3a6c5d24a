//! Where the time of a run went, by op: the rows of `--profile`.

use super::report::three;
use super::timing::ms;
use crate::table::{Align, Table};
use nino_graph::Cost;
use serde::Serialize;
use std::time::Duration;

#[derive(Serialize)]
pub(super) struct OpRow {
    op: String,
    count: usize,
    pub(super) ms: f64,
    /// Of all ops.
    share: f64,
    gflops: f64,
    gbytes: f64,
}

impl OpRow {
    /// `count` ops that took `time` of the `total` of all ops.
    pub(super) fn new(
        op: String,
        count: usize,
        (time, total): (Duration, Duration),
        cost: Cost,
    ) -> OpRow {
        OpRow {
            op,
            count,
            ms: ms(time),
            share: ms(time) / ms(total),
            gflops: cost.flops / ms(time) / 1e6,
            gbytes: cost.bytes / ms(time) / 1e6,
        }
    }
}

pub(super) fn table(rows: &[OpRow]) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("op", Left),
        ("count", Right),
        ("ms", Right),
        ("share", Right),
        ("GFLOP/s", Right),
        ("GB/s", Right),
    ]);
    for op in rows {
        table.push(vec![
            op.op.clone(),
            op.count.to_string(),
            three(op.ms),
            format!("{:.1}%", op.share * 100.0),
            three(op.gflops),
            three(op.gbytes),
        ]);
    }
    table.render()
}
