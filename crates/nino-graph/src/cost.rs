//! What an op costs: arithmetic and memory traffic, from shapes alone.

use crate::{Act, Graph, Node, Op};
use std::ops::AddAssign;

/// Arithmetic and least memory traffic of one op.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    pub flops: f64,
    /// Each operand read once, the result written once.
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
        if matches!(op, Op::Reshape(_)) {
            return Cost::default();
        }
        let out = self.shape(node).numel() as f64;
        let numel = |n: Node| self.shape(n).numel() as f64;
        // As an op of its own counts it.
        let each = |act: Option<Act>| f64::from(u8::from(act.is_some()));
        let flops = match op {
            Op::Linear(o) => 2.0 * (self.shape(node).rows() * self.shape(o.w).numel()) as f64,
            Op::MatMul(o) => 2.0 * out * self.shape(o.a).last_dim() as f64,
            Op::Conv(o) => 2.0 * out * self.shape(o.w)[1..].iter().product::<usize>() as f64,
            Op::Attention(o) => 4.0 * out * self.shape(o.k)[1] as f64,
            Op::Stats(o) => 3.0 * numel(o.x),
            Op::Reduce(o) => numel(o.x),
            Op::Normalize(o) => (8.0 + each(o.norm.act)) * out,
            Op::RowNorm(o) => (8.0 + each(o.act)) * out,
            Op::Softmax(_) => 8.0 * out,
            Op::Rope(_) | Op::TimestepEmbed(_) => 4.0 * out,
            Op::AvgPool(o) => out * (o.size * o.size) as f64,
            Op::Gate(..) => 2.0 * out,
            Op::Unary(..) | Op::Binary(_) | Op::Upsample(_) => out,
            _ => 0.0,
        };
        let read: usize = match op {
            Op::Gather(_) | Op::Slice(_) => self.bytes(node),
            _ => op.operands().into_iter().map(|n| self.bytes(n)).sum(),
        };
        Cost {
            flops,
            bytes: (read + self.bytes(node)) as f64,
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
