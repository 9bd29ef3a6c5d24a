//! Which values share a buffer, and from which op to which op each buffer is alive.

use super::PlanOptions;
use super::order::Order;
use crate::{Def, Graph, Node, Op, Reshape};

/// Memory that must not be shared with another buffer from `start` to `end` (positions in [`Order`]).
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) bytes: usize,
    pub(super) start: usize,
    pub(super) end: usize,
    /// First value in it, for messages.
    pub(super) owner: Node,
    pub(super) values: Vec<Node>,
    pub(super) scratch_of: Option<Node>,
    /// Ops (first, last) during which nothing is in it: between the last read of a carried input and
    /// the write of what the next run finds there.
    pub(super) gap: Option<(usize, usize)>,
    /// The op and the position among its uses whose rows pass through here.
    pub(super) window_of: Option<(Node, usize)>,
    /// Its number among the places this graph shares with others.
    pub(super) shared: Option<usize>,
}

pub(super) fn buffers(graph: &Graph, order: &Order, options: &PlanOptions) -> Vec<Buffer> {
    let last_use = last_uses(graph, order);
    // Value -> index of its buffer.
    let mut home: Vec<Option<usize>> = vec![None; graph.len()];
    let mut buffers: Vec<Buffer> = Vec::new();
    let mut scratch = Vec::new();
    for &node in order.nodes() {
        let (i, at) = (node.index(), order.at(node));
        let def = &graph.value(node).def;
        let shared = match def {
            Def::Param(_) | Def::Dead => continue,
            Def::Input { .. } => None,
            Def::Op(Op::Reshape(Reshape { x })) => match home[x.index()] {
                Some(home) => Some(home),
                // A view of a parameter is a parameter: no bytes of the arena.
                None => continue,
            },
            Def::Op(op) => {
                let next = carried(graph, order, node, &home, &buffers);
                if let Some(shared) = next {
                    let written = order.at(buffers[shared].owner);
                    let read = last_read(graph, order, &home, shared).max(written);
                    buffers[shared].gap = (read + 1 < at).then(|| (read + 1, at - 1));
                }
                next.or_else(|| in_place(graph, options, (node, at), op, &home, &buffers))
            }
        };
        // What the next run finds again is not overwritten before this one ends.
        let kept = graph
            .carried()
            .iter()
            .any(|&(input, output)| input == node || output == node);
        let end = if kept || order.must_stay(graph, node, last_use[i]) {
            graph.len()
        } else {
            last_use[i].max(at)
        };
        home[i] = Some(if let Some(shared) = shared {
            buffers[shared].end = buffers[shared].end.max(end);
            buffers[shared].values.push(node);
            shared
        } else {
            // Inputs are written before the first op.
            let start = match def {
                Def::Input { .. } => 0,
                _ => at,
            };
            let bytes = graph.bytes(node);
            buffers.push(Buffer {
                bytes,
                start,
                end,
                owner: node,
                values: vec![node],
                scratch_of: None,
                gap: None,
                window_of: None,
                shared: None,
            });
            buffers.len() - 1
        });
        let bytes = options.scratch_bytes(graph, node);
        if bytes > 0 {
            scratch.push(Buffer {
                bytes,
                start: at,
                end: at,
                owner: node,
                values: vec![],
                scratch_of: Some(node),
                gap: None,
                window_of: None,
                shared: None,
            });
        }
    }
    buffers.extend(scratch);
    mark_shared(graph, &mut buffers);
    buffers
}

/// Finds the buffers of what is shared with other graphs; a place without a value is taken all the time.
fn mark_shared(graph: &Graph, buffers: &mut Vec<Buffer>) {
    for (i, shared) in graph.shared().iter().enumerate() {
        let holds = |b: &&mut Buffer| {
            let value = shared.value.filter(|v| b.values.contains(v));
            value.is_some() && b.bytes == shared.bytes && b.shared.is_none()
        };
        if let Some(buffer) = buffers.iter_mut().find(holds) {
            buffer.shared = Some(i);
            continue;
        }
        buffers.push(Buffer {
            bytes: shared.bytes,
            start: 0,
            end: graph.len(),
            owner: shared.value.unwrap_or(Node(0)),
            values: vec![],
            scratch_of: None,
            gap: None,
            window_of: None,
            shared: Some(i),
        });
    }
}

/// The buffer of the input that this value is carried to, when nothing reads it any more.
fn carried(
    graph: &Graph,
    order: &Order,
    node: Node,
    home: &[Option<usize>],
    buffers: &[Buffer],
) -> Option<usize> {
    let &(input, _) = graph.carried().iter().find(|(_, output)| *output == node)?;
    let shared = home[input.index()]?;
    let read_later = last_read(graph, order, home, shared) >= order.at(node);
    (!read_later && buffers[shared].values == [input]).then_some(shared)
}

/// The last op that reads a value of a buffer.
fn last_read(graph: &Graph, order: &Order, home: &[Option<usize>], buffer: usize) -> usize {
    let reads = |op: &Op| {
        let mut operands = op.operands().into_iter();
        operands.any(|x| home[x.index()] == Some(buffer))
    };
    let readers = graph.ops().filter(|(_, op)| reads(op));
    readers.map(|(n, _)| order.at(n)).max().unwrap_or(0)
}

impl Buffer {
    /// Whether something is in it during op `i`.
    fn alive_at(&self, i: usize) -> bool {
        let idle = self
            .gap
            .is_some_and(|(first, last)| first <= i && i <= last);
        self.start <= i && i <= self.end && !idle
    }

    /// Whether both hold something at some time.
    pub(super) fn meets(&self, other: &Buffer) -> bool {
        let inside = |b: &Buffer, of: &Buffer| {
            of.gap
                .is_some_and(|(first, last)| first <= b.start && b.end <= last)
        };
        self.start <= other.end
            && other.start <= self.end
            && !inside(self, other)
            && !inside(other, self)
    }
}

/// The op during which most bytes are alive.
pub(super) fn peak(graph: &Graph, order: &Order, buffers: [&[Buffer]; 2]) -> Option<Node> {
    let alive = |i: usize| -> usize {
        buffers
            .into_iter()
            .flatten()
            .filter(|b| b.alive_at(i))
            .map(|b| b.bytes)
            .sum()
    };
    graph
        .ops()
        .map(|(n, _)| n)
        .max_by_key(|&n| alive(order.at(n)))
}

/// Position of the last op that reads each value; outputs live to the end.
fn last_uses(graph: &Graph, order: &Order) -> Vec<usize> {
    let mut last = vec![0; graph.len()];
    for (node, op) in graph.ops() {
        for operand in op.operands() {
            let last = &mut last[operand.index()];
            *last = (*last).max(order.at(node));
        }
    }
    for out in graph.outputs() {
        last[out.index()] = graph.len();
    }
    // A reshape is its operand: later ops must not overwrite the one while the other is read.
    for i in (0..graph.len()).rev() {
        if let Some(Op::Reshape(Reshape { x })) = graph.op(Node(i as u32)) {
            last[x.index()] = last[x.index()].max(last[i]);
        }
    }
    last
}

/// The buffer of an operand that this op may overwrite: it dies here and each element is read
/// before the same element is written.
fn in_place(
    graph: &Graph,
    options: &PlanOptions,
    (node, now): (Node, usize),
    op: &Op,
    home: &[Option<usize>],
    buffers: &[Buffer],
) -> Option<usize> {
    let candidates = graph.overwritable(node, options.residual_in_place);
    let operands = op.operands();
    candidates.into_iter().find_map(|x| {
        let at = home[x.index()]?;
        let others = operands
            .iter()
            .filter(|n| home[n.index()] == Some(at))
            .count();
        let fits = graph.shape(x) == graph.shape(node)
            && graph.bytes(x) == graph.bytes(node)
            && buffers[at].bytes == graph.bytes(node)
            && buffers[at].end <= now
            && others == 1;
        fits.then_some(at)
    })
}
