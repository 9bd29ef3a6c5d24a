//! Parameters that do not all fit: some stay on the device, the others pass through a ring of
//! slots.
//!
//! The large parameters of one op are fetched together. Fetch `k` goes to slot `k mod 2` and may be
//! written once the op of fetch `k - 2` is done, so the next one is on its way while an op runs.

use super::arena::ArenaSize;
use super::ring::{Ring, Streams, param_name, resident_bytes};
use super::window::Traffic;
use super::{Limits, Plan, Span};
use crate::{Node, ParamSpec};
use std::collections::{BTreeMap, BTreeSet};
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
    /// Keeps at most `bytes` of parameters and ring on the device, or as little as can be.
    #[must_use]
    pub fn streaming(self, bytes: usize) -> Plan {
        let steady: BTreeSet<Node> = self.steps[..self.steady_steps]
            .iter()
            .map(|s| s.node)
            .collect();
        let streams = Streams::new(&[&self.graph], |_, n| steady.contains(&n), self.limits());
        let names = streams.choose(bytes);
        self.streaming_named(&names)
    }

    /// Streams what `other` does, a plan of the same network.
    #[must_use]
    pub fn streaming_like(self, other: &Plan) -> Plan {
        let fetched = other.fetches().iter().flat_map(|f| &f.params);
        let names = fetched.filter_map(|(n, _)| param_name(&other.graph, *n));
        let names = names.map(str::to_owned).collect();
        self.streaming_named(&names)
    }

    pub(super) fn streaming_named(mut self, names: &BTreeSet<String>) -> Plan {
        self.ring = if names.is_empty() {
            Ring::default()
        } else {
            self.ring_of(names)
        };
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

    /// Bytes of parameters fetched by runs.
    pub fn streamed(&self) -> Traffic {
        self.ring.traffic
    }

    /// Bytes that the parameters that stay take on the device (see [`Limits::resident_bytes`]).
    pub fn resident_bytes(&self) -> usize {
        resident_bytes(&self.graph, self.limits()) - self.ring.freed
    }

    /// Bytes of parameters and ring on the device while the plan runs.
    pub fn device_weight_bytes(&self) -> usize {
        self.resident_bytes() + self.limits().fetch_copies * self.ring.slot_bytes
    }

    /// Everything on the device while the plan runs: parameters that stay, the ring, the arena.
    pub fn device_bytes(&self) -> usize {
        self.device_weight_bytes() + self.arena_bytes()
    }
}

/// What plans of one network that run by turns take of the device's memory together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Bytes that the parameters that stay take, each once, but for constants.
    pub weights: usize,
    /// Bytes of constants that the models computed themselves, such as rotary tables. They depend
    /// on sizes, so sessions have them, not the weights that sessions of all sizes share.
    pub constants: usize,
    /// Bytes of the ring, which is there while a session is.
    pub ring: usize,
    pub arena: ArenaSize,
}

impl Memory {
    pub fn of<'a>(plans: impl IntoIterator<Item = &'a Plan>) -> Memory {
        let plans: Vec<&Plan> = plans.into_iter().collect();
        let stays = |plan: &&'a Plan| -> Vec<(&'a str, usize)> {
            let fetched = plan.fetches().iter().flat_map(|f| &f.params);
            let fetched: BTreeSet<Node> = fetched.map(|(n, _)| *n).collect();
            let params = plan.graph.params().filter(|(n, _)| !fetched.contains(n));
            params.map(|(_, p)| named(p, plan.limits())).collect()
        };
        let inline = |plan: &&'a Plan| -> Vec<(&'a str, usize)> {
            let params = plan.graph.params().filter(|(_, p)| p.inline.is_some());
            params.map(|(_, p)| named(p, plan.limits())).collect()
        };
        let constants: BTreeMap<&str, usize> = plans.iter().flat_map(inline).collect();
        let constants: usize = constants.values().sum();
        let resident = match &plans[..] {
            [plan] => plan.resident_bytes(),
            plans => {
                let stay: BTreeMap<&str, usize> = plans.iter().flat_map(stays).collect();
                stay.values().sum()
            }
        };
        let ring = |p: &&Plan| p.limits().fetch_copies * p.slot_bytes();
        let ring = plans.iter().map(ring).max().unwrap_or(0);
        Memory {
            weights: resident - constants,
            constants,
            ring,
            arena: ArenaSize::of(plans),
        }
    }

    /// Bytes on the device.
    pub fn bytes(self) -> usize {
        self.weights + self.constants + self.ring + self.arena.bytes()
    }
}

/// A parameter's name, and the bytes that it takes on the device.
fn named<'a>(param: &'a ParamSpec, limits: &Limits) -> (&'a str, usize) {
    (&param.name, limits.resident_bytes(param.bytes()))
}

#[cfg(test)]
pub(super) mod tests;
