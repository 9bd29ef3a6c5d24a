//! Tiles of keys and values on their way into shared memory.

use super::{Word, Writer};
use crate::asm::{Reg, op};

/// The copies of one thread in each tile, and the address of the next tile. Tiles go from the last
/// to the first.
pub(super) struct Copies {
    chunks: Vec<Chunk>,
    /// Addresses of the tile to copy: keys, values.
    tile: [Reg; 2],
    /// Bytes between tiles.
    stride: Reg,
    /// Shared memory of the stage to fill, counted from its start.
    stage: Reg,
    /// Keys of the last tile.
    pub(super) valid: Reg,
    /// Tiles whose copies have not begun; below zero where the one computed is the last.
    pub(super) left: Reg,
}

struct Chunk {
    /// Bytes from the tile's start, in memory.
    source: Reg,
    /// Address in the first stage, and what to add to it.
    target: Reg,
    plus: u32,
    row: Reg,
    /// Whether this thread has such a chunk, where not all have.
    exists: Option<Reg>,
}

impl Copies {
    pub(super) fn new(w: &mut Writer) -> Copies {
        let keys = w.kernel.keys;
        let [m, width] = [w.word(Word::Keys), w.word(Word::Width)];
        let a = &mut w.a;
        let [left, before, valid] = [a.b32(), a.b32(), a.b32()];
        op!(a, "sub.u32 {left}, {m}, 1");
        op!(a, "div.u32 {left}, {left}, {keys}");
        op!(a, "mul.lo.u32 {before}, {left}, {keys}");
        op!(a, "sub.u32 {valid}, {m}, {before}");
        let [row_bytes, stride_bytes, stride] = [a.b32(), a.b32(), a.b64()];
        op!(a, "shl.b32 {row_bytes}, {width}, 1");
        op!(a, "mul.lo.u32 {stride_bytes}, {row_bytes}, {keys}");
        op!(a, "cvt.u64.u32 {stride}, {stride_bytes}");
        let stage = a.b32();
        op!(a, "mov.u32 {stage}, 0");
        let tile = [(2, Word::K), (3, Word::V)].map(|(view, offset)| {
            let element = w.element(offset, Word::BatchK);
            let view = w.a.view(view);
            let address = w.a.b64();
            op!(w.a, "mad.lo.u32 {element}, {before}, {width}, {element}");
            op!(w.a, "mul.wide.u32 {address}, {element}, 2");
            op!(w.a, "add.u64 {address}, {address}, {view}");
            address
        });
        Copies {
            chunks: chunks(w, row_bytes),
            tile,
            stride,
            stage,
            valid,
            left,
        }
    }

    /// Starts the copy of the last tile; what is beyond its keys becomes zero.
    pub(super) fn first(&mut self, w: &mut Writer) {
        let sizes: Vec<Reg> = self
            .chunks
            .iter()
            .map(|chunk| {
                let [inside, size] = [w.a.pred(), w.a.b32()];
                op!(w.a, "setp.lt.u32 {inside}, {}, {}", chunk.row, self.valid);
                op!(w.a, "selp.u32 {size}, 16, 0, {inside}");
                size
            })
            .collect();
        for (tensor, tile) in self.tile.into_iter().enumerate() {
            let tensor = tensor as u32 * w.kernel.tile_bytes();
            for (chunk, size) in self.chunks.iter().zip(&sizes) {
                let guard = chunk.exists.map_or(String::new(), |p| format!("@{p} "));
                let source = w.a.b64();
                op!(w.a, "cvt.u64.u32 {source}, {}", chunk.source);
                op!(w.a, "add.u64 {source}, {source}, {tile}");
                let (target, plus) = (chunk.target, chunk.plus + tensor);
                op!(
                    w.a,
                    "{guard}cp.async.cg.shared.global [{target}+{plus}], [{source}], 16, {size}"
                );
            }
        }
        op!(w.a, "cp.async.commit_group");
    }

    /// Starts the copy of the next tile into the other stage, if there is one.
    pub(super) fn next(&mut self, w: &mut Writer) {
        let more = w.a.pred();
        op!(w.a, "setp.gt.s32 {more}, {}, 0", self.left);
        op!(w.a, "sub.s32 {}, {}, 1", self.left, self.left);
        let stage = w.kernel.stage_bytes();
        op!(w.a, "xor.b32 {}, {}, {stage}", self.stage, self.stage);
        let guards: Vec<Reg> = self
            .chunks
            .iter()
            .map(|chunk| match chunk.exists {
                None => more,
                Some(exists) => {
                    let both = w.a.pred();
                    op!(w.a, "and.pred {both}, {more}, {exists}");
                    both
                }
            })
            .collect();
        for (tensor, tile) in self.tile.into_iter().enumerate() {
            op!(w.a, "sub.u64 {tile}, {tile}, {}", self.stride);
            let tensor = tensor as u32 * w.kernel.tile_bytes();
            for (chunk, guard) in self.chunks.iter().zip(&guards) {
                let [source, target] = [w.a.b64(), w.a.b32()];
                op!(w.a, "cvt.u64.u32 {source}, {}", chunk.source);
                op!(w.a, "add.u64 {source}, {source}, {tile}");
                op!(w.a, "add.u32 {target}, {}, {}", chunk.target, self.stage);
                let plus = chunk.plus + tensor;
                op!(
                    w.a,
                    "@{guard} cp.async.cg.shared.global [{target}+{plus}], [{source}], 16"
                );
            }
        }
        op!(w.a, "cp.async.commit_group");
    }
}

/// Consecutive threads take consecutive chunks. Where a round of all threads covers a multiple of
/// 8 rows, a thread's chunks are at one distance in shared memory too.
fn chunks(w: &mut Writer, row_bytes: Reg) -> Vec<Chunk> {
    let [per_row, threads] = [w.kernel.chunks(), w.kernel.threads()];
    let total = per_row * w.kernel.keys;
    let even = threads.is_multiple_of(per_row * 8);
    let mut chunks: Vec<Chunk> = Vec::new();
    for round in 0..total.div_ceil(threads) {
        let a = &mut w.a;
        let [index, row, column, source] = [a.b32(), a.b32(), a.b32(), a.b32()];
        op!(a, "add.u32 {index}, {}, {}", w.tid, round * threads);
        op!(a, "div.u32 {row}, {index}, {per_row}");
        op!(a, "rem.u32 {column}, {index}, {per_row}");
        op!(a, "shl.b32 {source}, {column}, 4");
        op!(a, "mad.lo.u32 {source}, {row}, {row_bytes}, {source}");
        let exists = (total < (round + 1) * threads).then(|| {
            let exists = a.pred();
            op!(a, "setp.lt.u32 {exists}, {index}, {total}");
            exists
        });
        let (target, plus) = match chunks.first() {
            Some(first) if even => (first.target, round * threads * 16),
            _ => {
                let within = w.swizzle.offset(a, row, column);
                let target = a.b32();
                op!(a, "mov.u32 {target}, shared");
                op!(a, "add.u32 {target}, {target}, {within}");
                (target, 0)
            }
        };
        chunks.push(Chunk {
            source,
            target,
            plus,
            row,
            exists,
        });
    }
    chunks
}
