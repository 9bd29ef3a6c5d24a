//! The op set on one page. Each op is a struct in one of the files below, and that file says all
//! that a graph knows of it: its operands, how it is recorded, its result, and its [`OpDef`].
//!
//! An op whose definition lacks something does not compile: [`Op`] is written from the list in
//! [`for_each_op!`](crate::for_each_op), every member of the list must be a struct with an
//! [`OpDef`], and [`OpDef`] has no defaults.

mod attention;
mod check;
mod conv;
mod elementwise;
mod embed;
mod facts;
mod layout;
mod linear;
mod norm;
mod reduce;
mod reorder;
mod resample;

pub use attention::*;
pub(crate) use check::Mistake;
pub use conv::*;
pub use elementwise::*;
pub use embed::*;
pub(crate) use facts::{Facts, InPlace, OpDef, Operand, Part, Rows, Scratch, Traffic};
pub use layout::*;
pub use linear::*;
pub use norm::*;
pub use reduce::*;
pub use reorder::*;
pub use resample::*;

use crate::{Graph, Node};
use check::{Inferred, wrong};

/// Expands to `callback! { Linear linear, MatMul matmul, … }`: the struct and the name of every op.
/// Executors write their dispatch with it, so that an op they lack does not compile.
#[macro_export]
macro_rules! for_each_op {
    ($callback:ident) => {
        $callback! {
            Linear linear,
            MatMul matmul,
            Conv conv,
            Stats stats,
            Normalize normalize,
            RowNorm row_norm,
            Softmax softmax,
            Attention attention,
            Rope rope,
            Unary unary,
            Gate gate,
            Binary binary,
            Upsample upsample,
            AvgPool avg_pool,
            Concat concat,
            Slice slice,
            Permute permute,
            Reshape reshape,
            Pad pad,
            Gather gather,
            TimestepEmbed timestep_embed,
            Reduce reduce,
            Cast cast,
        }
    };
}

macro_rules! define_op {
    ($($op:ident $name:ident),* $(,)?) => {
        /// One op with its operands and settings. What it computes is said at its struct and in the
        /// suite's reference.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Op {
            $($op($op)),*
        }

        impl Op {
            /// Every name that [`Op::name`] can give.
            pub const NAMES: &[&str] = &[$(stringify!($name)),*];

            pub fn name(&self) -> &'static str {
                match self {
                    $(Op::$op(_) => stringify!($name)),*
                }
            }

            pub(crate) fn def(&self) -> &dyn OpDef {
                match self {
                    $(Op::$op(o) => o),*
                }
            }

            fn def_mut(&mut self) -> &mut dyn OpDef {
                match self {
                    $(Op::$op(o) => o),*
                }
            }
        }

        $(impl From<$op> for Op {
            fn from(op: $op) -> Op {
                Op::$op(op)
            }
        })*
    };
}

for_each_op!(define_op);

impl Op {
    /// Operands in a fixed order: data first, then weights, prologue and epilogue.
    pub fn operands(&self) -> Vec<Node> {
        let mut found = Vec::new();
        // A clone, so that one traversal serves reading and replacing.
        self.clone().map_operands(|n| {
            found.push(n);
            n
        });
        found
    }

    /// Replaces every operand.
    pub fn map_operands(&mut self, mut f: impl FnMut(Node) -> Node) {
        self.def_mut().map_operands(&mut f);
    }

    /// Shape and dtype of the result, or the mistake in the operands.
    pub(crate) fn infer(&self, g: &Graph) -> Inferred {
        for n in self.operands() {
            if n.index() >= g.len() {
                wrong!("operand {} is of another graph", n.index());
            }
        }
        self.def().infer(g)
    }
}

fn map_all(nodes: &mut [&mut Node], f: &mut dyn FnMut(Node) -> Node) {
    for n in nodes {
        **n = f(**n);
    }
}

fn map_some(nodes: &mut [&mut Option<Node>], f: &mut dyn FnMut(Node) -> Node) {
    for n in nodes.iter_mut().filter_map(|n| n.as_mut()) {
        *n = f(*n);
    }
}

#[cfg(test)]
mod tests;
