//! How long work takes on a device, about: each kind of op at the rate a typical one of it has.

use nino_graph::{Kind, Work};
use std::collections::BTreeMap;

/// Rates a second, of the kinds of op that some work has.
#[derive(Clone, Debug, PartialEq)]
pub struct Rates {
    /// Bytes of a copy, reads plus writes.
    pub copy_bytes: f64,
    /// Arithmetic by kind of op; a multiply-add is two. A kind that is missing takes as long as its
    /// bytes do.
    pub flops: BTreeMap<Kind, f64>,
    /// Bytes of values that wait outside; `None` where nothing does.
    pub outside_bytes: Option<f64>,
}

impl Rates {
    /// Seconds that `work` takes when `moved` bytes come from outside and go there, which no
    /// computation hides.
    pub fn seconds(&self, work: &Work, moved: usize) -> f64 {
        let moving = self.outside_bytes.map_or(0.0, |rate| moved as f64 / rate);
        let each = work.kinds().map(|(kind, cost)| {
            let moved = cost.bytes / self.copy_bytes;
            let rate = self.flops.get(&kind);
            rate.map_or(moved, |rate| moved.max(cost.flops / rate))
        });
        each.sum::<f64>() + moving
    }
}
