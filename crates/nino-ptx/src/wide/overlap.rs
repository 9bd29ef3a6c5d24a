//! Heads of at most 128 columns, in the manner of FlashAttention-3 (arXiv 2407.08608): while the
//! matrix units weigh one tile's values, the exponentials of the next tile's scores are made.
//!
//! Two tiles of keys and two of values have their places in shared memory. While tile `j` is
//! weighed, the keys of tile `j + 2` and the values of tile `j + 1` are on their way.

use super::copy::Share;
use super::{KEYS, LINE, Word, Writer};
use crate::asm::{Asm, Reg, list, op};
use crate::wgmma::descriptor;

/// Tiles of keys, and of values, in shared memory.
const PLACES: u32 = 2;

/// Bytes of shared memory for keys and values of heads of `hd` columns.
pub(super) fn ring_bytes(hd: u32) -> u32 {
    2 * PLACES * tile_bytes(hd)
}

fn tile_bytes(hd: u32) -> u32 {
    KEYS * hd * 2
}

/// The copies of keys, or of values: where the next tile is in memory and where it goes.
struct Tiles {
    from: Reg,
    /// Bytes from the first place to the one that is filled next.
    to: Reg,
    first: u32,
    /// Tiles whose copies have not begun.
    left: Reg,
    /// Keys of the next tile.
    valid: Reg,
}

/// What is multiplied next, as bytes from the first place of its kind in units of 16.
struct Reads {
    keys: Reg,
    values: Reg,
}

impl Writer {
    pub(super) fn overlapped(&mut self) {
        let hd = self.kernel.hd;
        let share = Share::new(self);
        let [mut keys, mut values] =
            [(Word::K, 1, 0), (Word::V, 2, PLACES)].map(|(at, view, n)| {
                let first = self.kernel.query_bytes() + n * tile_bytes(hd);
                self.tiles(&share, (at, view), first)
            });
        let [query_keys, value_lines] = self.places();
        self.copy_queries(&share);
        self.copy_tile(&share, &mut keys);
        op!(self.a, "cp.async.commit_group");
        self.copy_tile(&share, &mut keys);
        self.copy_tile(&share, &mut values);
        op!(self.a, "cp.async.commit_group");
        self.clear();

        let reads = Reads {
            keys: self.a.b64(),
            values: self.a.b64(),
        };
        op!(self.a, "mov.u64 {}, 0", reads.keys);
        op!(self.a, "mov.u64 {}, 0", reads.values);
        let (left, more) = (self.a.b32(), self.a.pred());
        let m = self.word(Word::Keys);
        op!(self.a, "sub.u32 {left}, {m}, 1");
        op!(self.a, "div.u32 {left}, {left}, {KEYS}");

        self.wait_for_copies(1);
        self.score_tile(query_keys, reads.keys);
        self.turn(reads.keys);
        op!(self.a, "wgmma.wait_group.sync.aligned 0");
        let valid = self.valid_keys(m, left);
        self.mask(valid);
        let weights = self.fragments();
        // The sums of values are zero yet, and need not be rescaled.
        self.softmax.shifts(&mut self.a, &self.scores);
        let made = self
            .softmax
            .exponentials_in_place(&mut self.a, &self.scores);
        pack(&mut self.a, &made, &weights);

        let (again, last) = (self.a.label(), self.a.label());
        op!(self.a, "setp.eq.u32 {more}, {left}, 0");
        op!(self.a, "@{more} bra.uni {last}");
        self.a.place(&again);
        self.wait_for_copies(0);
        self.score_tile(query_keys, reads.keys);
        self.weigh_tile(value_lines, reads.values, &weights);
        self.turn(reads.keys);
        self.turn(reads.values);
        self.copy_tile(&share, &mut keys);
        self.copy_tile(&share, &mut values);
        op!(self.a, "cp.async.commit_group");
        op!(self.a, "wgmma.wait_group.sync.aligned 1");
        let rescale = self.softmax.shifts(&mut self.a, &self.scores);
        let made = self
            .softmax
            .exponentials_in_place(&mut self.a, &self.scores);
        op!(self.a, "wgmma.wait_group.sync.aligned 0");
        rescale.apply(&mut self.a, &self.out);
        pack(&mut self.a, &made, &weights);
        op!(self.a, "sub.u32 {left}, {left}, 1");
        op!(self.a, "setp.ne.u32 {more}, {left}, 0");
        op!(self.a, "@{more} bra.uni {again}");
        self.a.place(&last);
        self.wait_for_copies(0);
        self.weigh_tile(value_lines, reads.values, &weights);
        op!(self.a, "wgmma.wait_group.sync.aligned 0");
        self.store();
    }

    /// Keys and values of the first place, as the matrix units are told of them.
    fn places(&mut self) -> [Reg; 2] {
        let hd = self.kernel.hd;
        let at = self.a.b32();
        let first = self.kernel.query_bytes();
        op!(self.a, "add.u32 {at}, {}, {first}", self.shared);
        let keys = descriptor(&mut self.a, at, LINE, 1);
        let plus = PLACES * tile_bytes(hd);
        op!(self.a, "add.u32 {at}, {at}, {plus}");
        let values = descriptor(&mut self.a, at, LINE, KEYS * LINE / 16);
        [keys, values]
    }

    /// The keys of the last tile in memory, which is the first to be taken.
    fn valid_keys(&mut self, m: Reg, tiles_before: Reg) -> Reg {
        let (before, valid) = (self.a.b32(), self.a.b32());
        op!(self.a, "mul.lo.u32 {before}, {tiles_before}, {KEYS}");
        op!(self.a, "sub.u32 {valid}, {m}, {before}");
        valid
    }

    fn tiles(&mut self, share: &Share, (at, view): (Word, usize), first: u32) -> Tiles {
        let [m, width] = [self.word(Word::Keys), self.word(Word::Width)];
        let element = self.element(at, Word::BatchK, false);
        let view = self.kernel.query_view() + view;
        let a = &mut self.a;
        let [left, before, valid, to] = [a.b32(), a.b32(), a.b32(), a.b32()];
        op!(a, "sub.u32 {left}, {m}, 1");
        op!(a, "div.u32 {left}, {left}, {KEYS}");
        op!(a, "mul.lo.u32 {before}, {left}, {KEYS}");
        op!(a, "sub.u32 {valid}, {m}, {before}");
        op!(a, "add.u32 {left}, {left}, 1");
        op!(a, "add.u32 {before}, {before}, {}", share.line);
        let (view, from) = (a.view(view), a.b64());
        op!(a, "mad.lo.u32 {element}, {before}, {width}, {element}");
        op!(a, "mad.lo.u32 {element}, {}, 8, {element}", share.chunk);
        op!(a, "mul.wide.u32 {from}, {element}, 2");
        op!(a, "add.u64 {from}, {from}, {view}");
        op!(a, "mov.u32 {to}, 0");
        Tiles {
            from,
            to,
            first,
            left,
            valid,
        }
    }

    /// Starts the copy of the next tile, if there is one, and moves on.
    fn copy_tile(&mut self, share: &Share, tiles: &mut Tiles) {
        let hd = self.kernel.hd;
        let a = &mut self.a;
        let (none, skip) = (a.pred(), a.label());
        op!(a, "setp.eq.u32 {none}, {}, 0", tiles.left);
        op!(a, "@{none} bra.uni {skip}");
        let to = a.b32();
        op!(a, "add.u32 {to}, {}, {}", share.within, tiles.to);
        let from = a.b64();
        op!(a, "mov.u64 {from}, {}", tiles.from);
        for time in 0..KEYS / share.lines {
            let [inside, row, size] = [a.pred(), a.b32(), a.b32()];
            op!(a, "add.u32 {row}, {}, {}", share.line, time * share.lines);
            op!(a, "setp.lt.u32 {inside}, {row}, {}", tiles.valid);
            op!(a, "selp.u32 {size}, 16, 0, {inside}");
            for beside in 0..hd / 64 {
                let plus = tiles.first + (beside * KEYS + time * share.lines) * LINE;
                let at = beside * LINE;
                op!(
                    a,
                    "cp.async.cg.shared.global [{to}+{plus}], [{from}+{at}], 16, {size}"
                );
            }
            op!(a, "add.u64 {from}, {from}, {}", share.rows);
        }
        op!(a, "sub.u64 {0}, {0}, {1}", tiles.from, share.tile);
        op!(a, "xor.b32 {0}, {0}, {1}", tiles.to, tile_bytes(hd));
        op!(a, "mov.u32 {}, {KEYS}", tiles.valid);
        op!(a, "sub.u32 {0}, {0}, 1", tiles.left);
        a.place(&skip);
    }

    /// After it, all copies but the last `but` groups have arrived, and everybody is done with the
    /// tiles before.
    fn wait_for_copies(&mut self, but: u32) {
        op!(self.a, "cp.async.wait_group {but}");
        op!(self.a, "fence.proxy.async.shared::cta");
        op!(self.a, "bar.sync 0");
        op!(self.a, "wgmma.fence.sync.aligned");
    }

    fn turn(&mut self, read: Reg) {
        let tile = tile_bytes(self.kernel.hd) / 16;
        op!(self.a, "xor.b64 {read}, {read}, {tile}");
    }

    /// Begins to make the scores of a tile.
    fn score_tile(&mut self, keys: Reg, read: Reg) {
        let tile = self.a.b64();
        op!(self.a, "add.u64 {tile}, {keys}, {read}");
        for sixteen in 0..self.kernel.hd / 16 {
            let [q, k] = [self.a.b64(), self.a.b64()];
            let (block, within) = (sixteen / 4, sixteen % 4 * 32);
            let at = block * self.kernel.rows() * LINE + within;
            op!(self.a, "add.u64 {q}, {}, {}", self.queries, at / 16);
            let at = block * KEYS * LINE + within;
            op!(self.a, "add.u64 {k}, {tile}, {}", at / 16);
            let sums = list(self.scores[0].as_flattened());
            let more = u32::from(sixteen > 0);
            op!(
                self.a,
                "wgmma.mma_async.sync.aligned.m64n{KEYS}k16.f32.f16.f16 \
                 {sums}, {q}, {k}, {more}, 1, 1, 0, 0"
            );
        }
        op!(self.a, "wgmma.commit_group.sync.aligned");
    }

    /// Begins to add a tile's values, weighed.
    fn weigh_tile(&mut self, values: Reg, read: Reg, weights: &[[Reg; 4]]) {
        let (tile, columns) = (self.a.b64(), self.kernel.columns());
        op!(self.a, "add.u64 {tile}, {values}, {read}");
        for (sixteen, weights) in (0..).zip(weights) {
            let v = self.a.b64();
            op!(self.a, "add.u64 {v}, {tile}, {}", sixteen * 16 * LINE / 16);
            let (sums, weights) = (list(self.out[0].as_flattened()), list(weights));
            op!(
                self.a,
                "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 \
                 {sums}, {weights}, {v}, 1, 1, 1, 1"
            );
        }
        op!(self.a, "wgmma.commit_group.sync.aligned");
    }

    /// Registers for a tile's exponentials, as fragments of 16 keys each.
    fn fragments(&mut self) -> Vec<[Reg; 4]> {
        let four = |_| [(); 4].map(|()| self.a.b32());
        (0..KEYS / 16).map(four).collect()
    }
}

/// Writes exponentials as the fragments of 16 keys each.
fn pack(a: &mut Asm, made: &[[Reg; 4]], weights: &[[Reg; 4]]) {
    for (eights, fragment) in made.chunks(2).zip(weights) {
        for (eight, pairs) in eights.iter().zip(fragment.chunks(2)) {
            for (pair, values) in pairs.iter().zip(eight.chunks(2)) {
                op!(a, "cvt.rn.f16x2.f32 {pair}, {}, {}", values[1], values[0]);
            }
        }
    }
}
