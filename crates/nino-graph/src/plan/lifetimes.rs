//! Which values share a buffer, and from which op to which op each buffer is alive.

use super::limits::Strategy;
use super::order::Order;
use crate::{Def, Graph, Node, Op, Reshape};

/// Memory that no other buffer may have from `start` to `end` (positions in [`Order`]).
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) bytes: usize,
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) holds: Holds,
}

#[derive(Clone, Debug)]
pub(super) enum Holds {
    Values(Values),
    /// What this op needs besides its operands and result.
    Scratch(Node),
    /// Rows of the `operand`-th of [`Graph::uses`] of `op` on their way in or out.
    Window {
        op: Node,
        operand: usize,
    },
    /// A place that only other graphs use: its number in [`Graph::shared`].
    Foreign(usize),
}

/// Values that are the same bytes, or follow each other at one place.
#[derive(Clone, Debug)]
pub(super) struct Values {
    /// The values, in the order they are made.
    pub(super) nodes: Vec<Node>,
    /// Positions (first, last) during which nothing is there: between the last read of a carried
    /// input and the write of what the next run finds there.
    gap: Option<(usize, usize)>,
    /// The place's number in [`Graph::shared`].
    shared: Option<usize>,
}

impl Buffer {
    /// Values in it; none for scratch, windows and places of other graphs.
    pub(super) fn nodes(&self) -> &[Node] {
        match &self.holds {
            Holds::Values(values) => &values.nodes,
            _ => &[],
        }
    }

    /// Its number among the places this graph shares with others.
    pub(super) fn shared(&self) -> Option<usize> {
        match self.holds {
            Holds::Values(Values { shared, .. }) => shared,
            Holds::Foreign(shared) => Some(shared),
            Holds::Scratch(_) | Holds::Window { .. } => None,
        }
    }

    fn gap(&self) -> Option<(usize, usize)> {
        match self.holds {
            Holds::Values(Values { gap, .. }) => gap,
            _ => None,
        }
    }

    /// Whether both hold something at some time.
    pub(super) fn meets(&self, other: &Buffer) -> bool {
        let inside = |b: &Buffer, of: &Buffer| {
            of.gap()
                .is_some_and(|(first, last)| first <= b.start && b.end <= last)
        };
        self.start <= other.end
            && other.start <= self.end
            && !inside(self, other)
            && !inside(other, self)
    }
}

/// Bytes alive at each position of a graph of `len` values.
pub(super) fn alive<'b>(buffers: impl IntoIterator<Item = &'b Buffer>, len: usize) -> Vec<usize> {
    let mut change = vec![0isize; len + 2];
    for b in buffers {
        let bytes = b.bytes as isize;
        change[b.start] += bytes;
        change[b.end + 1] -= bytes;
        if let Some((first, last)) = b.gap() {
            change[first] -= bytes;
            change[last + 1] += bytes;
        }
    }
    let sums = change.into_iter().scan(0isize, |sum, change| {
        *sum += change;
        Some(*sum as usize)
    });
    sums.take(len + 1).collect()
}

/// The buffers of every value and of every op's scratch.
pub(super) fn buffers(graph: &Graph, order: &Order, how: &Strategy) -> Vec<Buffer> {
    let mut lifetimes = Lifetimes {
        graph,
        order,
        how,
        last_use: last_uses(graph, order),
        home: vec![None; graph.len()],
        buffers: Vec::new(),
    };
    let nodes = order.nodes();
    nodes.iter().for_each(|&node| lifetimes.place(node));
    let mut buffers = lifetimes.buffers;
    buffers.extend(
        nodes
            .iter()
            .filter_map(|&node| scratch(graph, order, how, node)),
    );
    mark_shared(graph, &mut buffers);
    buffers
}

fn scratch(graph: &Graph, order: &Order, how: &Strategy, node: Node) -> Option<Buffer> {
    let bytes = how.scratch_bytes(graph, node);
    (bytes > 0).then(|| Buffer {
        bytes,
        start: order.at(node),
        end: order.at(node),
        holds: Holds::Scratch(node),
    })
}

/// Buffers while values are given theirs, in the order they are made.
struct Lifetimes<'a> {
    graph: &'a Graph,
    order: &'a Order,
    how: &'a Strategy,
    last_use: Vec<usize>,
    /// The index of each value's buffer.
    home: Vec<Option<usize>>,
    buffers: Vec<Buffer>,
}

impl Lifetimes<'_> {
    fn place(&mut self, node: Node) {
        let graph = self.graph;
        let def = &graph.value(node).def;
        let joined = match def {
            Def::Param(_) | Def::Dead => return,
            Def::Input { .. } => None,
            Def::Op(Op::Reshape(Reshape { x })) => match self.home[x.index()] {
                Some(home) => Some(home),
                // A view of a parameter is a parameter: no bytes of the arena.
                None => return,
            },
            Def::Op(op) => self.carried(node).or_else(|| self.in_place(node, op)),
        };
        let (at, end) = (self.order.at(node), self.end(node));
        let home = joined.unwrap_or_else(|| {
            self.buffers.push(Buffer {
                bytes: graph.bytes(node),
                // Inputs are written before the first op.
                start: if matches!(def, Def::Input { .. }) {
                    0
                } else {
                    at
                },
                end,
                holds: Holds::Values(Values {
                    nodes: Vec::new(),
                    gap: None,
                    shared: None,
                }),
            });
            self.buffers.len() - 1
        });
        let buffer = &mut self.buffers[home];
        buffer.end = buffer.end.max(end);
        if let Holds::Values(values) = &mut buffer.holds {
            values.nodes.push(node);
        }
        self.home[node.index()] = Some(home);
    }

    /// The last position at which a value must be there. Carried values stay until the run ends:
    /// the next run finds them again.
    fn end(&self, node: Node) -> usize {
        let last_use = self.last_use[node.index()];
        let mut carried = self.graph.carried().iter();
        let is_carried = carried.any(|&(input, output)| input == node || output == node);
        if is_carried || self.order.must_stay(self.graph, node, last_use) {
            self.graph.len()
        } else {
            last_use.max(self.order.at(node))
        }
    }

    /// The buffer of the input that this value is carried to, when nothing reads it any more.
    fn carried(&mut self, node: Node) -> Option<usize> {
        let mut carried = self.graph.carried().iter();
        let &(input, _) = carried.find(|(_, output)| *output == node)?;
        let home = self.home[input.index()]?;
        let (at, read) = (self.order.at(node), self.last_read(home));
        let Holds::Values(values) = &mut self.buffers[home].holds else {
            return None;
        };
        if read >= at || values.nodes != [input] {
            return None;
        }
        let free = read.max(self.order.at(input)) + 1;
        values.gap = (free < at).then(|| (free, at - 1));
        Some(home)
    }

    /// The last op that reads a value of a buffer.
    fn last_read(&self, buffer: usize) -> usize {
        let reads = |op: &Op| {
            let mut operands = op.operands().into_iter();
            operands.any(|x| self.home[x.index()] == Some(buffer))
        };
        let readers = self.graph.ops().filter(|(_, op)| reads(op));
        readers.map(|(n, _)| self.order.at(n)).max().unwrap_or(0)
    }

    /// The buffer of an operand that this op may overwrite: it dies here and each element is read
    /// before the same element is written.
    fn in_place(&self, node: Node, op: &Op) -> Option<usize> {
        let graph = self.graph;
        let candidates = graph.overwritable(node, self.how.limits.residual_in_place);
        let operands = op.operands();
        candidates.into_iter().find_map(|x| {
            let at = self.home[x.index()]?;
            let others = operands
                .iter()
                .filter(|n| self.home[n.index()] == Some(at))
                .count();
            let fits = graph.shape(x) == graph.shape(node)
                && graph.bytes(x) == graph.bytes(node)
                && self.buffers[at].bytes == graph.bytes(node)
                && self.buffers[at].end <= self.order.at(node)
                && others == 1;
            fits.then_some(at)
        })
    }
}

/// Finds the buffers of what is shared with other graphs; a place without a value of this graph is
/// taken all the time.
fn mark_shared(graph: &Graph, buffers: &mut Vec<Buffer>) {
    for (i, place) in graph.shared().iter().enumerate() {
        let found = buffers.iter_mut().find_map(|b| match &mut b.holds {
            Holds::Values(values)
                if place.value.is_some_and(|v| values.nodes.contains(&v))
                    && b.bytes == place.bytes
                    && values.shared.is_none() =>
            {
                Some(values)
            }
            _ => None,
        });
        if let Some(values) = found {
            values.shared = Some(i);
            continue;
        }
        buffers.push(Buffer {
            bytes: place.bytes,
            start: 0,
            end: graph.len(),
            holds: Holds::Foreign(i),
        });
    }
}

/// The op during which most bytes are alive.
pub(super) fn peak(graph: &Graph, order: &Order, alive: &[usize]) -> Option<Node> {
    let ops = graph.ops().map(|(n, _)| n);
    ops.max_by_key(|&n| alive[order.at(n)])
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
