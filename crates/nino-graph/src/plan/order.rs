//! The order ops run in: those whose results stay between runs come first, so that a later run can
//! begin behind them; otherwise the order of recording.

use super::limits::Strategy;
use crate::{Graph, Node, Op};

pub(super) struct Order {
    /// All values.
    nodes: Vec<Node>,
    /// The position of each.
    at: Vec<usize>,
    /// The first so many stay between runs.
    steady: usize,
}

impl Order {
    pub(super) fn new(graph: &Graph, how: &Strategy) -> Order {
        let stays = if how.keep_steady {
            graph.steady()
        } else {
            vec![false; graph.len()]
        };
        let (mut nodes, rest): (Vec<Node>, Vec<Node>) = graph
            .values()
            .map(|(n, _)| n)
            .partition(|n| stays[n.index()]);
        let steady = nodes.len();
        nodes.extend(rest);
        let mut at = vec![0; nodes.len()];
        for (i, n) in nodes.iter().enumerate() {
            at[n.index()] = i;
        }
        Order { nodes, at, steady }
    }

    pub(super) fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    /// When a value is made; the last op's is before `Graph::len`.
    pub(super) fn at(&self, node: Node) -> usize {
        self.at[node.index()]
    }

    /// Ops that do something.
    pub(super) fn ops(&self, graph: &Graph) -> impl Iterator<Item = Node> {
        let runs = |n: &Node| !matches!(graph.op(*n), None | Some(Op::Reshape(_)));
        self.nodes.iter().copied().filter(runs)
    }

    pub(super) fn is_steady(&self, node: Node) -> bool {
        self.at(node) < self.steady
    }

    /// Whether a later run, which begins behind the steady ops, finds this value where it was: an
    /// input, in case the steady ops have to run again, or what others read up to `last_use`.
    pub(super) fn must_stay(&self, graph: &Graph, node: Node, last_use: usize) -> bool {
        self.is_steady(node) && (graph.kept().contains(&node) || last_use >= self.steady)
    }
}

#[cfg(test)]
pub(super) mod tests;
