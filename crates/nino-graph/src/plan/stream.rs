//! Parameters that do not all fit: some stay on the device, the others pass through a ring of slots.
//!
//! The large parameters of one op are fetched together. Fetch `k` goes to slot `k mod 2` and may be
//! written once the op of fetch `k - 2` is done, so the next one is on its way while an op runs.

use super::{Plan, PlanError, PlanOptions, Span};
use crate::{Graph, Node};
use std::ops::Range;

/// Parameters of one op on their way to the device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// The op that reads them.
    pub node: Node,
    /// Positions of its steps in [`Plan::steps`]: the slot is theirs from the first to the last.
    pub steps: Range<usize>,
    /// Which slot of the ring.
    pub slot: usize,
    /// Each parameter and its place within the slot.
    pub params: Vec<(Node, Span)>,
}

impl Plan {
    /// The plan that fits `options.budget`, found in the order of what costs least time: everything on
    /// the device; weights streamed; large values outside the arena; both.
    pub fn within(graph: &Graph, options: PlanOptions) -> Result<Plan, PlanError> {
        let Some(all) = options.budget else {
            return Plan::new(graph.clone(), options);
        };
        let reserve = options.reserve;
        let budget = all.saturating_sub(reserve);
        let limits = PlanOptions {
            budget: None,
            ..options
        };
        let whole = Plan::new(graph.clone(), limits)?;
        if whole.device_bytes() <= budget {
            return Ok(whole);
        }
        if let Some(frugal) = options.frugal(graph) {
            let plain = Plan::within(graph, frugal)?;
            let left = budget.saturating_sub(whole.arena_bytes());
            // What steady ops read is fetched once: their memory can be worth more than it takes.
            let quick = whole.streaming(left);
            let moved = |p: &Plan| (p.host_bytes(), p.streamed_bytes());
            let better = quick.device_bytes() <= budget && moved(&quick) < moved(&plain);
            return Ok(if better { quick } else { plain });
        }
        let arena = whole.arena_bytes();
        let streamed = whole.streaming(budget.saturating_sub(arena));
        if streamed.device_bytes() <= budget {
            return Ok(streamed);
        }
        let weights = streamed.weight_bytes();
        if weights < budget
            && let Some(plan) = Plan::fit_well(graph, limits, budget - weights)
        {
            return Ok(plan);
        }
        let least = streamed.streaming(0).device_bytes() - arena;
        match Plan::fit(graph, limits, budget.saturating_sub(least)) {
            Ok(plan) => {
                let left = budget - plan.arena_bytes();
                Ok(plan.streaming(left))
            }
            Err(PlanError::OverBudget { arena, op, .. }) => Err(PlanError::OverBudget {
                need: least + arena + reserve,
                weights: least,
                arena,
                op,
                reserve,
                budget: all,
            }),
            Err(other) => Err(other),
        }
    }

    /// Keeps at most `bytes` of parameters and ring on the device, or as little as can be.
    #[must_use]
    pub fn streaming(mut self, bytes: usize) -> Plan {
        self.ring = self.ring_for(bytes);
        self
    }

    /// Streams what `other` does, a plan of the same network.
    #[must_use]
    pub fn streaming_like(mut self, other: &Plan) -> Plan {
        self.ring = self.ring_like(other);
        self
    }

    /// Parameters to fetch in a run, in the order they are used; empty when all of them stay.
    pub fn fetches(&self) -> &[Fetch] {
        &self.ring.fetches
    }

    /// The first fetch of a run that begins at `step`.
    pub fn first_fetch(&self, step: usize) -> usize {
        self.fetches().partition_point(|f| f.steps.end <= step)
    }

    /// Bytes of one of the ring's two slots; 0 when nothing is fetched.
    pub fn slot_bytes(&self) -> usize {
        self.ring.slot_bytes
    }

    /// Bytes of parameters fetched in every run, beside what steady steps read.
    pub fn streamed_bytes(&self) -> usize {
        self.ring.fetched - self.ring.once
    }

    /// Bytes of parameters fetched in so many runs.
    pub fn streamed_in(&self, runs: usize) -> usize {
        self.streamed_bytes() * runs + self.ring.once * runs.min(1)
    }

    /// Bytes of parameters that stay on the device.
    pub fn resident_bytes(&self) -> usize {
        self.weight_bytes - self.ring.fetched
    }

    /// Everything on the device while the plan runs: parameters that stay, the ring, the arena.
    pub fn device_bytes(&self) -> usize {
        let ring = self.options.fetch_copies * self.ring.slot_bytes;
        self.resident_bytes() + ring + self.arena_bytes()
    }
}

#[cfg(test)]
mod tests;
