//! Ops over more values than 32 bits can count. Each case is an op with one dimension as long as
//! wanted: the last rows of the long one must come out as those of a short one. Widths are no
//! powers of two, so that nothing wraps where a row ends.

use nino_dtype::DType;
use nino_graph::{Graph, Node};

/// An op with one dimension as long as wanted.
pub struct Long {
    pub name: &'static str,
    /// The long dimension, short and long.
    pub sizes: [usize; 2],
    /// Rows of the op that are computed, counted from its last.
    pub rows: usize,
    /// Records the op for a length of that dimension.
    pub build: fn(&mut Graph, usize, DType) -> Node,
}

impl Long {
    /// An op that has `each` values of its result (or of what it is made of) for each of the long
    /// dimension: one and a half times 2^32 in all.
    pub(crate) const fn new(
        name: &'static str,
        each: usize,
        rows: usize,
        build: fn(&mut Graph, usize, DType) -> Node,
    ) -> Long {
        let long = ((3 << 31) / each + 1).next_multiple_of(8);
        Long {
            name,
            sizes: [24, long],
            rows,
            build,
        }
    }
}

pub(crate) const W: usize = 5;
pub(crate) const C: usize = 24;
pub(crate) const EACH: usize = W * C;
/// Pixels of a step that begins inside a row of them.
pub(crate) const PIXELS: usize = 21;

pub(crate) fn image(g: &mut Graph, h: usize, dtype: DType) -> Node {
    g.input("x", [1, h, W, C], dtype)
}

/// An image of a number of channels that leaves no row of 16-bit values whole words.
pub(crate) fn odd(g: &mut Graph, h: usize, dtype: DType) -> Node {
    g.input("x", [1, h, W, 9], dtype)
}
