//! The work of a graph by what decides its speed: devices do some kinds of arithmetic at several
//! times the rate of others.

use crate::{Cost, Graph, Node};
use nino_dtype::DType;
use std::collections::BTreeMap;
use std::ops::AddAssign;

/// Ops that a device does at much the same rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// 3×3 windows of stride 1 over many channels, for which there are faster ways than a product.
    Conv3x3 { x: DType },
    /// Every other product with weights.
    Linear { x: DType, w: DType },
    /// Products of activations.
    Attention { x: DType },
    /// Bound by memory.
    Other,
}

impl Kind {
    /// The kind of the op that makes `node`.
    pub fn of(graph: &Graph, node: Node) -> Kind {
        graph.facts(node).map_or(Kind::Other, |facts| facts.kind)
    }
}

/// Cost by kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Work(BTreeMap<Kind, Cost>);

impl Work {
    pub(crate) fn add(&mut self, kind: Kind, cost: Cost) {
        *self.0.entry(kind).or_default() += cost;
    }

    pub fn kinds(&self) -> impl Iterator<Item = (Kind, Cost)> {
        self.0.iter().map(|(&kind, &cost)| (kind, cost))
    }

    pub fn total(&self) -> Cost {
        let mut total = Cost::default();
        self.0.values().for_each(|&cost| total += cost);
        total
    }

    /// The same done `n` times.
    #[must_use]
    pub fn times(mut self, n: usize) -> Work {
        for cost in self.0.values_mut() {
            cost.flops *= n as f64;
            cost.bytes *= n as f64;
        }
        self
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        for (kind, cost) in other.0 {
            *self.0.entry(kind).or_default() += cost;
        }
    }
}

impl Graph {
    pub fn work(&self) -> Work {
        let mut work = Work::default();
        for (node, _) in self.ops() {
            *work.0.entry(Kind::of(self, node)).or_default() += self.cost(node);
        }
        work
    }
}

#[cfg(test)]
mod tests;
