//! Parameters that do not all fit: some stay on the device, the others pass through a ring of slots.
//!
//! The large parameters of one op are fetched together. Fetch `k` goes to slot `k mod 2` and may be
//! written once the op of fetch `k - 2` is done, so the next one is on its way while an op runs.

use super::{Plan, PlanError, PlanOptions, Span, Step};
use crate::{Def, Graph, Node, Op};
use std::collections::BTreeMap;
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

/// What of the parameters is where.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    pub(super) fetches: Vec<Fetch>,
    pub(super) slot_bytes: usize,
    /// Bytes of parameters that are fetched each run.
    pub(super) streamed: usize,
}

/// Slots of the ring: one in use, one being filled.
pub(super) const SLOTS: usize = 2;

/// Smaller parameters always stay: a transfer of their own would cost more than the memory is worth.
const MIN_STREAM: usize = 64 * 1024;

/// Kernels that decode blocks look one word past the end.
const SLACK: usize = 16;

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
            return Plan::within(graph, frugal);
        }
        let arena = whole.arena_bytes();
        let streamed = whole.streaming(budget.saturating_sub(arena));
        if streamed.device_bytes() <= budget {
            return Ok(streamed);
        }
        let weights = streamed.weight_bytes();
        if weights < budget
            && let Ok(plan) = Plan::fit(graph, limits, budget - weights)
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
        self.ring = ring(&self.graph, &self.steps, &self.options, bytes);
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

    /// Bytes of parameters fetched in every run.
    pub fn streamed_bytes(&self) -> usize {
        self.ring.streamed
    }

    /// Bytes of parameters that stay on the device.
    pub fn resident_bytes(&self) -> usize {
        self.weight_bytes - self.ring.streamed
    }

    /// Everything on the device while the plan runs: parameters that stay, the ring, the arena.
    pub fn device_bytes(&self) -> usize {
        let ring = self.options.fetch_copies * self.ring.slot_bytes;
        self.resident_bytes() + ring + self.arena_bytes
    }
}

/// The large parameters of one op.
struct Group {
    node: Node,
    params: Vec<(Node, Span)>,
    /// Of the parameters.
    bytes: usize,
    /// Of the slot they need.
    slot: usize,
}

/// Fetches the least bytes that leave at most `budget` on the device.
///
/// Ops are taken in an order that spreads any number of them over the run, so that fetches have
/// computation to hide behind. Large slots cost memory: for every size of slot, only ops that fit it
/// are taken; the size with the least traffic wins. For one size the traffic falls as the budget
/// grows, so the least of them does too.
fn ring(graph: &Graph, steps: &[Step], options: &PlanOptions, budget: usize) -> Ring {
    let total: usize = graph.params().map(|(_, p)| p.bytes()).sum();
    if total <= budget {
        return Ring::default();
    }
    let groups = groups(graph, options);
    let order = spread(groups.len());
    let mut sizes: Vec<usize> = groups.iter().map(|g| g.slot).collect();
    sizes.sort_unstable();
    sizes.dedup();
    // (over budget by, bytes fetched, ops)
    let mut best: Option<(usize, usize, Vec<usize>)> = None;
    for size in sizes {
        let slots = options.fetch_copies * size;
        let (mut fetched, mut taken) = (0, Vec::new());
        for &i in order.iter().filter(|&&i| groups[i].slot <= size) {
            if total - fetched + slots <= budget {
                break;
            }
            fetched += groups[i].bytes;
            taken.push(i);
        }
        let over = (total - fetched + slots).saturating_sub(budget);
        if best
            .as_ref()
            .is_none_or(|(o, f, _)| (over, fetched) < (*o, *f))
        {
            best = Some((over, fetched, taken));
        }
    }
    match best {
        Some((_, streamed, taken)) if slot_saves(&groups, &taken, options, streamed) => {
            let chosen: Vec<&Group> = taken.iter().map(|&i| &groups[i]).collect();
            Ring {
                slot_bytes: chosen.iter().map(|g| g.slot).max().unwrap_or(0),
                fetches: fetches(chosen, steps),
                streamed,
            }
        }
        _ => Ring::default(),
    }
}

/// A ring larger than what it replaces is no help.
fn slot_saves(groups: &[Group], taken: &[usize], options: &PlanOptions, streamed: usize) -> bool {
    let slot = taken.iter().map(|&i| groups[i].slot).max().unwrap_or(0);
    options.fetch_copies * slot < streamed
}

fn fetches(mut groups: Vec<&Group>, steps: &[Step]) -> Vec<Fetch> {
    let mut at: BTreeMap<Node, Range<usize>> = BTreeMap::new();
    for (i, step) in steps.iter().enumerate() {
        at.entry(step.node).or_insert(i..i).end = i + 1;
    }
    let steps_of = |group: &Group| at.get(&group.node).cloned().unwrap_or(0..0);
    groups.sort_by_key(|group| steps_of(group).start);
    let numbered = groups.iter().enumerate();
    numbered
        .map(|(k, group)| Fetch {
            node: group.node,
            steps: steps_of(group),
            slot: k % SLOTS,
            params: group.params.clone(),
        })
        .collect()
}

/// What can be fetched, in the order of the parameters, so that plans of one network choose alike: large parameters that one op reads and no one else.
fn groups(graph: &Graph, options: &PlanOptions) -> Vec<Group> {
    let mut readers: BTreeMap<Node, usize> = BTreeMap::new();
    for (_, op) in graph.ops().filter(|(_, op)| !matches!(op, Op::Reshape(_))) {
        let mut params: Vec<Node> = op.operands().iter().map(|&n| graph.root(n)).collect();
        params.sort_unstable();
        params.dedup();
        params
            .iter()
            .for_each(|&p| *readers.entry(p).or_default() += 1);
    }
    let outputs: Vec<Node> = graph.outputs().iter().map(|&n| graph.root(n)).collect();
    let streams = |&n: &Node| match &graph.value(n).def {
        Def::Param(spec) => {
            spec.inline.is_none()
                && spec.bytes() >= MIN_STREAM
                && readers.get(&n) == Some(&1)
                && !outputs.contains(&n)
        }
        _ => false,
    };
    let mut groups = Vec::new();
    for (node, op) in graph.ops().filter(|(_, op)| !matches!(op, Op::Reshape(_))) {
        let mut params: Vec<Node> = op.operands().iter().map(|&n| graph.root(n)).collect();
        params.sort_unstable();
        params.dedup();
        let (mut placed, mut offset, mut bytes) = (Vec::new(), 0, 0);
        for param in params.into_iter().filter(streams) {
            let size = graph.bytes(param);
            placed.push((
                param,
                Span {
                    offset,
                    bytes: size,
                },
            ));
            offset = (offset + size + SLACK).next_multiple_of(options.align);
            bytes += size;
        }
        if bytes > 0 && offset <= options.page {
            groups.push(Group {
                node,
                params: placed,
                bytes,
                slot: offset,
            });
        }
    }
    groups.sort_by_key(|g| g.params[0].0);
    groups
}

/// `0..n` in an order whose every beginning is spread over the whole (van der Corput).
fn spread(n: usize) -> Vec<usize> {
    let bits = usize::BITS - n.saturating_sub(1).leading_zeros();
    (0..1_usize << bits)
        .map(|i| {
            i.reverse_bits()
                .checked_shr(usize::BITS - bits)
                .unwrap_or(0)
        })
        .filter(|&i| i < n)
        .collect()
}

#[cfg(test)]
mod tests;
