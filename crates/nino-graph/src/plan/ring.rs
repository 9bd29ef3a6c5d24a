//! Which parameters pass through the ring: the large ones of some ops, chosen so that the least bytes
//! move.

use super::stream::Fetch;
use super::{Plan, PlanOptions, Span};
use crate::{Def, Graph, Node, Op};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What of the parameters is where.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    pub(super) fetches: Vec<Fetch>,
    pub(super) slot_bytes: usize,
    /// Bytes of all that is fetched.
    pub(super) fetched: usize,
    /// Of that, what steady steps read: once for many runs.
    pub(super) once: usize,
}

/// Slots of the ring: one in use, one being filled.
pub(super) const SLOTS: usize = 2;

/// Smaller parameters always stay: a transfer of their own would cost more than the memory is worth.
const MIN_STREAM: usize = 64 * 1024;

/// Kernels that decode blocks look one word past the end.
const SLACK: usize = 16;

impl Plan {
    /// Fetches the least bytes a run that leave at most `budget` on the device.
    ///
    /// What steady steps read costs nothing in later runs and goes first. Other ops are taken in an
    /// order that spreads any number of them over the run, so that fetches have computation to hide
    /// behind. Large slots cost memory: for every size of slot, only ops that fit it are taken; the size
    /// with the least traffic wins. For one size the traffic falls as the budget grows, so the least of
    /// them does too.
    pub(super) fn ring_for(&self, budget: usize) -> Ring {
        let total = self.weight_bytes;
        if total <= budget {
            return Ring::default();
        }
        let groups = groups(&self.graph, &self.options);
        let steps = self.steps_of();
        let is_once = |g: &&Group| steps[g.node.index()].start < self.steady_steps;
        let (mut order, others): (Vec<&Group>, Vec<&Group>) = groups.iter().partition(is_once);
        order.extend(spread(others.len()).into_iter().map(|i| others[i]));
        let mut sizes: Vec<usize> = groups.iter().map(|g| g.slot).collect();
        sizes.sort_unstable();
        sizes.dedup();
        // (over budget by, bytes fetched each run, bytes fetched, ops)
        let mut best: Option<(usize, usize, usize, Vec<&Group>)> = None;
        for size in sizes {
            let slots = self.options.fetch_copies * size;
            let (mut fetched, mut each_run, mut taken) = (0, 0, Vec::new());
            for &group in order.iter().filter(|g| g.slot <= size) {
                if total - fetched + slots <= budget {
                    break;
                }
                fetched += group.bytes;
                each_run += if is_once(&group) { 0 } else { group.bytes };
                taken.push(group);
            }
            let over = (total - fetched + slots).saturating_sub(budget);
            let less =
                |(o, e, f, _): &(usize, usize, usize, _)| (over, each_run, fetched) < (*o, *e, *f);
            if best.as_ref().is_none_or(less) {
                best = Some((over, each_run, fetched, taken));
            }
        }
        let ring = self.ring_of(best.map(|b| b.3).unwrap_or_default());
        // A ring larger than what it replaces is no help.
        if self.options.fetch_copies * ring.slot_bytes < ring.fetched {
            ring
        } else {
            Ring::default()
        }
    }

    /// Fetches what `other` does, a plan of the same network.
    pub(super) fn ring_like(&self, other: &Plan) -> Ring {
        let fetched = other.fetches().iter().flat_map(|f| &f.params);
        let names: BTreeSet<&str> = fetched.filter_map(|(n, _)| other.param_name(*n)).collect();
        let same = |group: &&Group| {
            let mut found = group.params.iter().map(|(n, _)| self.param_name(*n));
            found.all(|name| name.is_some_and(|name| names.contains(name)))
        };
        let groups = groups(&self.graph, &self.options);
        self.ring_of(groups.iter().filter(same).collect())
    }

    fn ring_of(&self, mut groups: Vec<&Group>) -> Ring {
        let steps = self.steps_of();
        groups.sort_by_key(|g| steps[g.node.index()].start);
        let mut ring = Ring::default();
        for (k, group) in groups.into_iter().enumerate() {
            let steps = steps[group.node.index()].clone();
            ring.slot_bytes = ring.slot_bytes.max(group.slot);
            ring.fetched += group.bytes;
            if steps.start < self.steady_steps {
                ring.once += group.bytes;
            }
            ring.fetches.push(Fetch {
                node: group.node,
                steps,
                slot: k % SLOTS,
                params: group.params.clone(),
            });
        }
        ring
    }

    /// Positions of each value's steps.
    fn steps_of(&self) -> Vec<Range<usize>> {
        let mut steps = vec![0..0; self.graph.len()];
        for (i, step) in self.steps.iter().enumerate() {
            let steps = &mut steps[step.node.index()];
            *steps = if steps.end == 0 { i } else { steps.start }..i + 1;
        }
        steps
    }

    fn param_name(&self, node: Node) -> Option<&str> {
        match &self.graph.value(node).def {
            Def::Param(spec) => Some(&spec.name),
            _ => None,
        }
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

/// What can be fetched: large parameters that one op reads and no one else.
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
    groups
}

/// `0..n` in an order whose every beginning is spread over the whole (van der Corput).
pub(super) fn spread(n: usize) -> Vec<usize> {
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
