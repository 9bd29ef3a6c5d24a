//! Which parameters pass through the ring: the large ones of some ops, chosen so that the least
//! bytes move.

use super::limits::Limits;
use super::stream::Fetch;
use super::window::Traffic;
use super::{Plan, Span};
use crate::{Def, Graph, Node, Op};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What of the parameters is where.
#[derive(Clone, Debug, Default)]
pub(super) struct Ring {
    pub(super) fetches: Vec<Fetch>,
    pub(super) slot_bytes: usize,
    /// Bytes of all that is fetched.
    pub(super) traffic: Traffic,
    /// Bytes that all of this would take if it stayed on the device.
    pub(super) freed: usize,
}

/// Slots of the ring: one in use, one being filled.
pub(super) const SLOTS: usize = 2;

/// Smaller parameters always stay: a transfer of their own would cost more than the memory is
/// worth.
const MIN_STREAM: usize = 64 * 1024;

/// The large parameters of one op.
#[derive(Clone, Debug)]
struct Group {
    node: Node,
    params: Vec<(Node, Span)>,
    /// Bytes of the parameters.
    bytes: usize,
    /// Bytes that they take where they stay.
    freed: usize,
    /// Bytes of the slot they need.
    slot: usize,
}

/// What of a network's parameters can be streamed.
pub(super) struct Streams {
    /// Bytes that all parameters take where they stay.
    weights: usize,
    /// See [`Limits::fetch_copies`].
    copies: usize,
    /// The groups of parameters that stream, in the order they are chosen.
    groups: Vec<Streamed>,
    /// The graph with most weights.
    most: usize,
}

/// A group by name, so that it can be found in other graphs of the network.
struct Streamed {
    names: BTreeSet<String>,
    bytes: usize,
    freed: usize,
    slot: usize,
    /// Only steady ops read it: once for many runs.
    once: bool,
}

/// Groups chosen for the ring; by default none.
#[derive(Default)]
struct Picked<'s> {
    groups: Vec<&'s Streamed>,
    traffic: Traffic,
    freed: usize,
    slot: usize,
}

impl Streams {
    /// Of graphs that run by turns and share their weights; `steady` tells whether an op of the
    /// `i`-th runs once for many runs. The graph with most weights decides what can be streamed.
    pub(super) fn new(
        graphs: &[&Graph],
        steady: impl Fn(usize, Node) -> bool,
        limits: &Limits,
    ) -> Streams {
        let weights = |g: &Graph| resident_bytes(g, limits);
        let most = (0..graphs.len()).max_by_key(|&i| weights(graphs[i]));
        let most = most.unwrap_or(0);
        let others = graphs.iter().enumerate().filter(|(i, _)| *i != most);
        let others: Vec<Other<'_>> = others.map(|(_, g)| Other::new(g, limits)).collect();
        let streamed = |graph: &Graph| -> Vec<Streamed> {
            let groups = groups(graph, limits).into_iter();
            let named = groups.map(|group| Streamed {
                names: names(graph, &group),
                bytes: group.bytes,
                freed: group.freed,
                slot: group.slot,
                once: steady(most, group.node),
            });
            let all_can = |g: &Streamed| others.iter().all(|other| other.can_fetch(&g.names));
            named.filter(all_can).collect()
        };
        let groups = graphs.get(most).map_or_else(Vec::new, |g| streamed(g));
        Streams {
            weights: match graphs {
                [graph] => weights(graph),
                _ => distinct_weights(graphs, limits),
            },
            copies: limits.fetch_copies,
            groups: in_order(groups),
            most,
        }
    }

    /// The streams of a plan that holds all parameters on the device.
    pub(super) fn none(self) -> Streams {
        Streams {
            groups: Vec::new(),
            ..self
        }
    }

    /// Names of the parameters to fetch so that at most `budget` bytes of parameters and ring are
    /// on the device, or as few as can be.
    pub(super) fn choose(&self, budget: usize) -> BTreeSet<String> {
        let groups = self.pick(budget).groups.into_iter();
        groups.flat_map(|g| g.names.iter().cloned()).collect()
    }

    /// The least bytes of parameters and ring.
    pub(super) fn least_bytes(&self) -> usize {
        let Picked { freed, slot, .. } = self.pick(0);
        self.weights - freed + self.copies * slot
    }

    /// Bytes fetched within `budget`, by the runs of the graph with most weights.
    pub(super) fn traffic(&self, budget: usize) -> (usize, Traffic) {
        (self.most, self.pick(budget).traffic)
    }

    /// The groups with the least bytes a run.
    ///
    /// Large slots cost memory: for every size of slot, only groups that fit it are taken; the size
    /// with the least traffic wins. For one size the traffic falls as the budget grows, so the
    /// least of them does too.
    fn pick(&self, budget: usize) -> Picked<'_> {
        if self.weights <= budget {
            return Picked::default();
        }
        let sizes: BTreeSet<usize> = self.groups.iter().map(|g| g.slot).collect();
        let tries = sizes.into_iter().map(|size| {
            let slots = self.copies * size;
            let mut picked = Picked::default();
            let on_device = |picked: &Picked<'_>| self.weights - picked.freed + slots;
            for group in self.groups.iter().filter(|g| g.slot <= size) {
                if on_device(&picked) <= budget {
                    break;
                }
                picked.add(group);
            }
            (on_device(&picked).saturating_sub(budget), picked)
        });
        let key = |(over, p): &(usize, Picked<'_>)| (*over, p.traffic.each_run, p.traffic.once);
        let picked = tries.min_by_key(key).map(|(_, picked)| picked);
        // A ring larger than what it replaces is no help.
        let helps = |p: &Picked<'_>| self.copies * p.slot < p.freed;
        picked.filter(helps).unwrap_or_default()
    }
}

impl<'s> Picked<'s> {
    fn add(&mut self, group: &'s Streamed) {
        if group.once {
            self.traffic.once += group.bytes;
        } else {
            self.traffic.each_run += group.bytes;
        }
        self.freed += group.freed;
        self.slot = self.slot.max(group.slot);
        self.groups.push(group);
    }
}

/// What steady ops read costs nothing in later runs and goes first. The others are in an order that
/// spreads any number of them over the run, so that fetches have computation to hide behind.
fn in_order(groups: Vec<Streamed>) -> Vec<Streamed> {
    let (mut order, each_run): (Vec<_>, Vec<_>) = groups.into_iter().partition(|g| g.once);
    let mut each_run: Vec<Option<Streamed>> = each_run.into_iter().map(Some).collect();
    let spread = spread(each_run.len()).into_iter();
    order.extend(spread.filter_map(|i| each_run[i].take()));
    order
}

/// What another graph of the network does with the parameters.
struct Other<'g> {
    params: BTreeSet<&'g str>,
    /// Names of the group that each name is in.
    groups: BTreeMap<String, BTreeSet<String>>,
}

impl<'g> Other<'g> {
    fn new(graph: &'g Graph, limits: &Limits) -> Other<'g> {
        let mut by_name = BTreeMap::new();
        for group in groups(graph, limits) {
            let names = names(graph, &group);
            let all = names.iter().map(|name| (name.clone(), names.clone()));
            by_name.extend(all);
        }
        Other {
            params: graph.params().map(|(_, p)| p.name.as_str()).collect(),
            groups: by_name,
        }
    }

    /// Whether it can fetch what it has of `group` where they are fetched together.
    fn can_fetch(&self, group: &BTreeSet<String>) -> bool {
        let mut here = group.iter().filter(|n| self.params.contains(n.as_str()));
        let within = |own: &BTreeSet<String>| own.is_subset(group);
        here.all(|name| self.groups.get(name).is_some_and(within))
    }
}

/// Bytes that all parameters of a graph take on the device.
pub(super) fn resident_bytes(graph: &Graph, limits: &Limits) -> usize {
    let params = graph.params();
    params.map(|(_, p)| limits.resident_bytes(p.bytes())).sum()
}

fn distinct_weights(graphs: &[&Graph], limits: &Limits) -> usize {
    let params = graphs.iter().flat_map(|g| g.params());
    let params: BTreeMap<&str, usize> = params.map(|(_, p)| (&*p.name, p.bytes())).collect();
    params.values().map(|&b| limits.resident_bytes(b)).sum()
}

fn names(graph: &Graph, group: &Group) -> BTreeSet<String> {
    let names = group
        .params
        .iter()
        .filter_map(|(n, _)| param_name(graph, *n));
    names.map(str::to_owned).collect()
}

pub(super) fn param_name(graph: &Graph, node: Node) -> Option<&str> {
    match &graph.value(node).def {
        Def::Param(spec) => Some(&spec.name),
        _ => None,
    }
}

impl Plan {
    /// Fetches the parameters of these names, where all that an op reads together are among them.
    pub(super) fn ring_of(&self, chosen: &BTreeSet<String>) -> Ring {
        let steps = self.steps_of();
        let mut groups = groups(&self.graph, self.limits());
        groups.retain(|group| names(&self.graph, group).is_subset(chosen));
        groups.sort_by_key(|g| steps[g.node.index()].start);
        let mut ring = Ring::default();
        for (k, group) in groups.into_iter().enumerate() {
            let steps = steps[group.node.index()].clone();
            ring.slot_bytes = ring.slot_bytes.max(group.slot);
            ring.freed += group.freed;
            if steps.start < self.steady_steps {
                ring.traffic.once += group.bytes;
            } else {
                ring.traffic.each_run += group.bytes;
            }
            ring.fetches.push(Fetch {
                node: group.node,
                steps,
                slot: k % SLOTS,
                params: group.params,
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
}

/// What can be fetched: large parameters that one op reads and no other, and that are no output.
fn groups(graph: &Graph, limits: &Limits) -> Vec<Group> {
    let ops = || graph.ops().filter(|(_, op)| !matches!(op, Op::Reshape(_)));
    let params_of = |op: &Op| -> BTreeSet<Node> {
        let roots = op.operands().into_iter().map(|n| graph.root(n));
        roots.collect()
    };
    let mut readers: BTreeMap<Node, usize> = BTreeMap::new();
    for param in ops().flat_map(|(_, op)| params_of(op)) {
        *readers.entry(param).or_default() += 1;
    }
    let outputs: Vec<Node> = graph.outputs().iter().map(|&n| graph.root(n)).collect();
    let streams = |n: &Node| match &graph.value(*n).def {
        Def::Param(spec) => {
            spec.inline.is_none()
                && spec.bytes() >= MIN_STREAM
                && readers.get(n) == Some(&1)
                && !outputs.contains(n)
        }
        _ => false,
    };
    let mut groups = Vec::new();
    for (node, op) in ops() {
        let (mut params, mut slot) = (Vec::new(), 0);
        let (mut all, mut freed) = (0, 0);
        for param in params_of(op).into_iter().filter(streams) {
            let (offset, bytes) = (slot, graph.bytes(param));
            params.push((param, Span { offset, bytes }));
            slot += limits.packed_bytes(bytes);
            all += bytes;
            freed += limits.resident_bytes(bytes);
        }
        if all > 0 && slot <= limits.page {
            groups.push(Group {
                node,
                params,
                bytes: all,
                freed,
                slot,
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
