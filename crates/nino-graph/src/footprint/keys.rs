//! Attention cut by keys, for keys that are too many to be there at once: a step is one block of
//! queries and some blocks of keys, and what it gathers waits in scratch for the next.

use crate::{Attention, Graph};
use std::ops::Range;

/// Blocks are whole multiples of these, which kernels' own are too: a cut then falls between theirs.
const QUERY_UNIT: usize = 32;
const KEY_UNIT: usize = 128;
/// Keys are in about this many blocks or more, so that steps can have about as many as there is room for.
const KEY_BLOCKS: usize = 256;
/// Bytes of what a block of queries gathers, and of a block of keys. All keys pass by each block of queries,
/// so it is large; but less than any device binds.
const BLOCK: usize = 32 << 20;
const MOST_QUERIES: usize = 1 << 15;
/// Parts of the scratch begin at multiples of this.
const ALIGN: usize = 256;

/// How an attention that is cut by keys is cut: its rows are (batch element, block of queries, block
/// of keys).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBlocks {
    /// Queries and keys of a batch element.
    n: usize,
    m: usize,
    heads: usize,
    hd: usize,
    /// Of a block.
    queries: usize,
    keys: usize,
    /// Bytes of a value.
    size: usize,
}

/// What one step computes, in rows of queries and of keys, both counted over the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    pub queries: Range<usize>,
    pub keys: Range<usize>,
    /// Keys of its batch element that came before it, and whether others come behind it.
    pub before: usize,
    pub more: bool,
}

impl Piece {
    /// Whether no other step has keys for its queries.
    pub fn is_whole(&self) -> bool {
        self.before == 0 && !self.more
    }
}

/// Parts of the scratch, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyScratch {
    /// What was gathered before the step, f32 `[queries, heads, hd]`.
    pub sums: Range<usize>,
    /// What the step gives, as the result is stored.
    pub part: Range<usize>,
    /// Logarithms of the sums of weights, f32 `[queries, heads]`, of both.
    pub sums_log: Range<usize>,
    pub part_log: Range<usize>,
}

impl KeyBlocks {
    pub fn new(graph: &Graph, o: &Attention) -> KeyBlocks {
        let (q, k) = (graph.shape(o.q), graph.shape(o.k));
        let [n, m, heads, hd] = [q[1], k[1], q[2], q[3]];
        let size = graph.dtype(o.q).block_bytes();
        let room = |unit: usize, size: usize| BLOCK / (heads * hd * size).max(1) / unit * unit;
        let quarter = n.div_ceil(4).next_multiple_of(QUERY_UNIT);
        let few = m.div_ceil(KEY_BLOCKS).next_multiple_of(KEY_UNIT);
        KeyBlocks {
            n,
            m,
            heads,
            hd,
            queries: quarter
                .min(room(QUERY_UNIT, 4))
                .clamp(QUERY_UNIT, MOST_QUERIES),
            keys: few.min(room(KEY_UNIT, size)).max(KEY_UNIT),
            size,
        }
    }

    fn query_blocks(&self) -> usize {
        self.n.div_ceil(self.queries)
    }

    fn key_blocks(&self) -> usize {
        self.m.div_ceil(self.keys)
    }

    /// Rows of one batch element.
    pub(super) fn rows(&self) -> usize {
        self.query_blocks() * self.key_blocks()
    }

    /// Rows of one batch element, of one block of queries, and one.
    pub(super) fn row_blocks(&self) -> Vec<usize> {
        vec![self.rows(), self.key_blocks(), 1]
    }

    /// What a step of these rows computes; where it is several blocks of queries, all keys are theirs.
    pub fn piece(&self, rows: &Range<usize>) -> Piece {
        let at = |row: usize| {
            let (block, key) = (row / self.key_blocks(), row % self.key_blocks());
            let (batch, query) = (block / self.query_blocks(), block % self.query_blocks());
            (batch, query, key)
        };
        let (first, last) = (at(rows.start), at(rows.end - 1));
        let one = (first.0, first.1) == (last.0, last.1);
        let keys = if one {
            first.2 * self.keys..((last.2 + 1) * self.keys).min(self.m)
        } else {
            0..self.m
        };
        Piece {
            queries: first.0 * self.n + first.1 * self.queries
                ..last.0 * self.n + ((last.1 + 1) * self.queries).min(self.n),
            before: keys.start,
            more: keys.end < self.m,
            keys: first.0 * self.m + keys.start..last.0 * self.m + keys.end,
        }
    }

    pub fn scratch(&self) -> KeyScratch {
        let rows = self.queries * self.heads;
        let mut end = 0;
        let mut part = |bytes: usize| {
            let start = end;
            end = (start + bytes).next_multiple_of(ALIGN);
            start..start + bytes
        };
        KeyScratch {
            sums: part(rows * self.hd * 4),
            part: part(rows * self.hd * self.size),
            sums_log: part(rows * 4),
            part_log: part(rows * 4),
        }
    }
}
