//! What an op costs: arithmetic and memory traffic, from shapes alone. The numbers of each op are
//! in its definition ([`crate::ops`]).

use crate::ops::Traffic;
use crate::{Graph, Node};
use std::ops::AddAssign;

/// Arithmetic and least memory traffic of one op.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub flops: f64,
    /// Each operand is read once and the result written once.
    pub bytes: f64,
}

impl AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.flops += other.flops;
        self.bytes += other.bytes;
    }
}

impl Graph {
    /// Cost of the op that makes `node`; nothing for inputs and parameters.
    pub fn cost(&self, node: Node) -> Cost {
        let Some(op) = self.op(node) else {
            return Cost::default();
        };
        let facts = op.def().facts(self, node);
        let written = self.bytes(node);
        let bytes = match facts.traffic {
            Traffic::EachOnce => {
                let read: usize = op.operands().into_iter().map(|n| self.bytes(n)).sum();
                read + written
            }
            Traffic::AsWritten => 2 * written,
            Traffic::Nothing => 0,
        };
        Cost {
            flops: facts.flops,
            bytes: bytes as f64,
        }
    }

    /// Cost of the whole graph.
    pub fn total_cost(&self) -> Cost {
        let mut total = Cost::default();
        for (node, _) in self.ops() {
            total += self.cost(node);
        }
        total
    }
}
