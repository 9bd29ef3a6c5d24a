//! Attention cut by keys, for keys that do not fit at once: a step computes one block of queries
//! with some blocks of keys, and its partial result waits in scratch for the next step.

use crate::{Attention, Graph};
use std::ops::Range;

/// Blocks are multiples of these, which are multiples of the kernels' tiles: no cut splits a tile.
const QUERY_UNIT: usize = 32;
const KEY_UNIT: usize = 128;
/// Keys are cut into about this many blocks or more, so that a step can be close to what fits.
const KEY_BLOCKS: usize = 256;
/// Most bytes of the partial result of a block of queries, and of a block of keys. Every block of
/// queries reads all keys, so few large blocks are best; this is still less than any device binds.
const BLOCK: usize = 32 << 20;
const MOST_QUERIES: usize = 1 << 15;
/// Parts of the scratch begin at multiples of this.
const ALIGN: usize = 256;

/// The blocks of an attention that is cut by keys. Its rows are (batch element, block of queries,
/// block of keys).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyBlocks {
    /// Queries and keys of a batch element.
    n: usize,
    m: usize,
    heads: usize,
    hd: usize,
    /// Queries and keys of one block.
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
    /// Number of keys of its batch element in earlier steps, and whether later steps have more.
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
    /// The result of the steps so far, f32 `[queries, heads, hd]`.
    pub sums: Range<usize>,
    /// The result of this step alone, in the dtype of the op's result.
    pub part: Range<usize>,
    /// Logarithms of the sums of weights of both, f32 `[queries, heads]`.
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
    pub(crate) fn rows(&self) -> usize {
        self.query_blocks() * self.key_blocks()
    }

    /// Rows of one batch element, and of one block of queries.
    pub(super) fn row_blocks(&self) -> Vec<usize> {
        vec![self.rows(), self.key_blocks()]
    }

    /// What a step of these rows computes. A step of several blocks of queries has all their keys.
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
