//! What an op must say of itself. Every part is required, so an op that leaves one out does not
//! compile; nothing has a default that would be wrong in silence.

use super::check::Inferred;
use crate::{Graph, KeyBlocks, Kind, Node, Shape};
use std::ops::Range;

/// The definition of an op.
pub(crate) trait OpDef {
    /// Replaces each operand by what `f` makes of it, in the order that [`Op::operands`] has: data
    /// first, then weights, prologue and epilogue.
    ///
    /// [`Op::operands`]: crate::Op::operands
    fn map_operands(&mut self, f: &mut dyn FnMut(Node) -> Node);

    /// Shape and dtype of the result, or the mistake in the operands, in words with the shapes.
    fn infer(&self, g: &Graph) -> Inferred;

    /// Cost, rows and memory of the op when it makes `out`.
    fn facts(&self, g: &Graph, out: Node) -> Facts;

    /// The part of an operand that some rows of the op read. It is not asked for parameters, which
    /// are always whole, nor for no rows.
    fn reads(&self, operand: &Operand<'_>) -> Part;
}

/// Cost, rows and memory of one op in one graph.
pub(crate) struct Facts {
    /// Arithmetic of the whole op, for estimates of time and for cutting long work.
    pub(crate) flops: f64,
    pub(crate) traffic: Traffic,
    pub(crate) rows: Rows,
    /// Sizes of blocks of rows that share what they read, from large to small. Where the op is cut,
    /// a step lies within one block of the smallest size that does not fit as a whole.
    pub(crate) blocks: Vec<usize>,
    pub(crate) scratch: Scratch,
    pub(crate) in_place: InPlace,
    pub(crate) kind: Kind,
}

/// The least memory traffic of an op.
pub(crate) enum Traffic {
    /// Each operand is read once and the result written once.
    EachOnce,
    /// As many bytes are read as are written: most of the operand may be left alone.
    AsWritten,
    /// Nothing moves.
    Nothing,
}

/// What an op can be cut into.
pub(crate) enum Rows {
    /// This many equal pieces of the result, one behind the other.
    Result(usize),
    /// This many pieces of the operand; every step writes to all of the result.
    Operand(usize),
    /// Blocks of queries by blocks of keys, for each element of the batch.
    Keys { batch: usize, blocks: KeyBlocks },
}

impl Rows {
    pub(crate) fn count(&self) -> usize {
        match self {
            Rows::Result(n) | Rows::Operand(n) => *n,
            Rows::Keys { batch, blocks } => batch * blocks.rows(),
        }
    }
}

/// Memory an op needs beside its operands and result.
pub(crate) enum Scratch {
    None,
    Bytes(usize),
    /// Block weights `w` decoded to f16, where the plan finds that worth it for the rows of `x`.
    Decoded {
        x: Node,
        w: Node,
        /// As many of them as are used.
        values: usize,
        /// Where `w` is `Q8_0`, the product also takes `x` rounded to 8 bits.
        rounds: bool,
    },
    /// These queries, and keys and values like these keys, in another type.
    Heads([Node; 2]),
}

/// Operands in whose place the result can be, because each element is read before the same element
/// is written. The plan checks that shapes agree and that nothing else reads the operand.
pub(crate) enum InPlace {
    Never,
    Over(Node),
    /// The first of the two, or else the second.
    OverEither(Node, Node),
    /// A residual, on devices that allow it.
    OverResidual(Option<Node>),
}

/// An operand, and the rows of the op for which a step reads it.
pub(crate) struct Operand<'a> {
    pub(crate) graph: &'a Graph,
    /// Its position among the operands.
    pub(crate) index: usize,
    pub(crate) node: Node,
    /// Shape of the operand.
    pub(crate) shape: Shape,
    /// Shape of the op's result.
    pub(crate) out: Shape,
    /// Never empty.
    pub(crate) rows: Range<usize>,
}

/// A part of an operand.
pub(crate) enum Part {
    All,
    /// The operand consists of as many equal pieces as the op has rows, and these are read.
    SameRows,
    /// These of `count` equal pieces of the operand.
    Pieces {
        count: usize,
        pieces: Range<usize>,
    },
}
