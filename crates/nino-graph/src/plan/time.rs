//! How long plans take, about. The same estimate orders the candidates of the search and is what
//! people are told.

use super::Plan;
use super::homes::Home;
use crate::{Cost, Kind, Work};
use nino_dtype::DType;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// How fast a device is, per second. Plans are made with the nominal rates of a device of its kind
/// ([`crate::Device::rates`]), so that they can be repeated; measured ones are for estimates.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// Bytes of its memory read and written.
    pub copy_bytes: f64,
    /// Arithmetic by kind of op, where it is known; a multiply-add is two.
    pub flops: BTreeMap<Kind, f64>,
    /// Arithmetic of other kinds of products.
    pub any_flops: f64,
    /// Bytes of values between the arena and the host.
    pub host_bytes: f64,
    /// Bytes of streamed weights.
    pub read_bytes: f64,
    /// Weights come behind computation, as far as they take less time; else they take turns with
    /// it.
    pub reads_hide: bool,
    /// Seconds a step takes to begin.
    pub step_seconds: f64,
}

impl Rates {
    /// Of a desktop's processor. Values on the host are in a file, and weights come from one: they
    /// are read, laid out and packed before an op has them.
    pub fn cpu() -> Rates {
        Rates {
            copy_bytes: 2e10,
            flops: BTreeMap::new(),
            any_flops: 3e11,
            host_bytes: 1.5e9,
            read_bytes: 7e8,
            reads_hide: false,
            step_seconds: 2e-5,
        }
    }

    /// The rates of a graphics card. Values and weights come from the host's memory.
    pub fn gpu() -> Rates {
        Rates {
            copy_bytes: 4e11,
            any_flops: 2e13,
            host_bytes: 1e10,
            read_bytes: 1.5e10,
            reads_hide: true,
            step_seconds: 1e-5,
            ..Rates::cpu()
        }
    }

    /// Seconds that a load takes.
    pub fn seconds(&self, load: &Load) -> f64 {
        let ops = load.work.kinds().map(|(kind, cost)| {
            let moving = cost.bytes / self.copy_bytes;
            match kind {
                Kind::Other => moving,
                _ => moving.max(cost.flops / self.flops.get(&kind).unwrap_or(&self.any_flops)),
            }
        });
        // Nothing hides values on their way: a step waits for the rows it reads. Within the device
        // they are read and written.
        let moving = load.host_bytes as f64 / self.host_bytes
            + 2.0 * load.pages_bytes as f64 / self.copy_bytes;
        let busy = ops.sum::<f64>() + moving + load.steps as f64 * self.step_seconds;
        let reading = load.read_bytes as f64 / self.read_bytes;
        if self.reads_hide {
            busy.max(reading)
        } else {
            busy + reading
        }
    }

    /// What candidates are ordered by.
    pub fn time(&self, load: &Load) -> Time {
        Time {
            seconds: self.seconds(load),
            moved: load.host_bytes + load.pages_bytes + load.read_bytes,
        }
    }
}

/// What runs of plans take: arithmetic, and bytes on their way.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    pub work: Work,
    /// Bytes of values from the host and to it.
    pub host_bytes: usize,
    /// Bytes of values from their pages and to them.
    pub pages_bytes: usize,
    /// Bytes of streamed weights.
    pub read_bytes: usize,
    pub steps: usize,
}

impl AddAssign for Load {
    fn add_assign(&mut self, other: Load) {
        self.work += other.work;
        self.host_bytes += other.host_bytes;
        self.pages_bytes += other.pages_bytes;
        self.read_bytes += other.read_bytes;
        self.steps += other.steps;
    }
}

impl Load {
    /// The same done `n` times.
    #[must_use]
    pub fn times(self, n: usize) -> Load {
        Load {
            work: self.work.times(n),
            host_bytes: self.host_bytes * n,
            pages_bytes: self.pages_bytes * n,
            read_bytes: self.read_bytes * n,
            steps: self.steps * n,
        }
    }
}

/// An estimate; of equal ones, the one that moves less comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Time {
    pub seconds: f64,
    /// Bytes on their way.
    pub moved: usize,
}

impl Eq for Time {}

impl Ord for Time {
    fn cmp(&self, other: &Time) -> Ordering {
        let seconds = self.seconds.total_cmp(&other.seconds);
        seconds.then(self.moved.cmp(&other.moved))
    }
}

impl PartialOrd for Time {
    fn partial_cmp(&self, other: &Time) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The share of its time that a product takes longer when its block weights are not expanded first,
/// about.
const UNEXPANDED: f64 = 0.25;

/// The same of a product that then misses matrix units: their rate over that of plain arithmetic,
/// about.
const NOT_HALVED: f64 = 3.0;

impl Plan {
    /// What so many runs take; steady steps run in the first of them.
    pub fn load(&self, runs: usize) -> Load {
        let (steady, others) = self.steps.split_at(self.steady_steps);
        Load {
            work: self.work(runs),
            host_bytes: self.moved(Home::Host).in_runs(runs),
            pages_bytes: self.moved(Home::Pages).in_runs(runs),
            read_bytes: self.streamed().in_runs(runs),
            steps: steady.len() * runs.min(1) + others.len() * runs,
        }
    }

    /// Arithmetic and memory traffic of so many runs.
    pub(super) fn work(&self, runs: usize) -> Work {
        let mut is_steady = vec![false; self.graph.len()];
        for step in &self.steps[..self.steady_steps] {
            is_steady[step.node.index()] = true;
        }
        let not_expanded = match self.strategy.expand_rows {
            Some(_) => None,
            None => self.limits().expand_rows,
        };
        let mut work = Work::default();
        for (node, _) in self.graph.ops() {
            let limits = self.limits();
            let prepared = |rows| self.graph.prepared_bytes(node, rows, limits) > 0;
            let slow = match not_expanded.is_some_and(prepared) {
                true if limits.halves && self.graph.dtype(node) == DType::BF16 => NOT_HALVED,
                true => UNEXPANDED,
                false => 0.0,
            };
            let runs = if is_steady[node.index()] {
                runs.min(1)
            } else {
                runs
            };
            let times = runs as f64 * (1.0 + slow);
            let cost = self.graph.cost(node);
            work.add(
                Kind::of(&self.graph, node),
                Cost {
                    flops: cost.flops * times,
                    bytes: cost.bytes * times,
                },
            );
        }
        work
    }
}
