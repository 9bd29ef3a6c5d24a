//! Where the time of profiled runs went, by kind of op.

use nino_graph::{Cost, Graph, OpTime};
use std::collections::BTreeMap;
use std::time::Duration;

/// Sums of profiled runs.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The totals by the op's name.
    pub ops: BTreeMap<&'static str, OpTotal>,
}

/// All ops of one kind.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpTotal {
    pub count: usize,
    pub time: Duration,
    pub cost: Cost,
}

impl Profile {
    /// Adds the times of one run.
    pub fn add(&mut self, graph: &Graph, times: &[OpTime]) {
        for op_time in times {
            let Some(op) = graph.op(op_time.node) else {
                continue;
            };
            let total = self.ops.entry(op.name()).or_default();
            total.count += 1;
            total.time += op_time.time;
            total.cost += graph.cost(op_time.node);
        }
    }

    pub fn total_time(&self) -> Duration {
        self.ops.values().map(|o| o.time).sum()
    }

    /// Kinds of ops, the longest first.
    pub fn by_time(&self) -> Vec<(&'static str, OpTotal)> {
        let mut ops: Vec<_> = self
            .ops
            .iter()
            .map(|(name, total)| (*name, *total))
            .collect();
        ops.sort_by_key(|(_, total)| std::cmp::Reverse(total.time));
        ops
    }
}
