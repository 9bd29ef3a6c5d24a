//! Heads of at most 128 columns, in the manner of FlashAttention-3 (arXiv 2407.08608): one warp
//! group copies keys and values, the others compute and wait for each other as little as possible,
//! so that one multiplies while the other makes exponentials.
//!
//! A step of the loop scores tile `j + 1` and weighs tile `j`: the keys of one and the values of
//! the other arrive together and share a place in the ring.

use super::copy::Share;
use super::{KEYS, LINE, Word, Writer};
use crate::asm::{Asm, Reg, list, op};
use crate::ring::{COPIERS, Ring, TOGETHER, barrier_bytes};
use crate::swizzle::Swizzle;
use crate::wgmma::descriptor;

/// Steps in shared memory: one is multiplied, one is there, one is on its way.
const PLACES: u32 = 3;
/// Registers of a thread that copies.
const FEW: u32 = 40;
/// Lines that these copy at a time, in chunks of 16 bytes.
const LINES: u32 = COPIERS / 8;

/// Bytes of shared memory for keys and values of heads of `hd` columns, and their barriers.
pub(super) fn ring_bytes(hd: u32) -> u32 {
    2 * PLACES * tile_bytes(hd) + barrier_bytes(PLACES)
}

fn tile_bytes(hd: u32) -> u32 {
    KEYS * hd * 2
}

/// The copies of keys, or of values.
struct Tiles {
    /// Where the next tile is in memory.
    from: Reg,
    /// Bytes from the start of shared memory to the first place.
    first: u32,
    /// Keys of the next tile.
    valid: Reg,
}

/// What a thread copies: a chunk of every 16th line.
struct Lane {
    line: Reg,
    chunk: Reg,
    /// Where its chunk is in shared memory, from the first place on.
    within: Reg,
    /// Bytes in memory between the lines of a time and of the next, and between tiles.
    lines: Reg,
    tile: Reg,
}

impl Writer {
    pub(super) fn overlapped(&mut self) {
        let kernel = self.kernel;
        let ring = Ring {
            places: PLACES,
            computing: kernel.computing(),
            shared: self.shared,
            barriers: kernel.query_bytes() + 2 * PLACES * tile_bytes(kernel.hd),
        };
        let bring = self.a.label();
        ring.part(&mut self.a, self.tid, FEW, &bring);
        self.compute(&ring);
        op!(self.a, "ret");
        self.a.place(&bring);
        op!(self.a, "setmaxnreg.dec.sync.aligned.u32 {FEW}");
        self.bring(&ring);
    }

    /// The warp group that copies: the last tile's keys first, then each step's.
    fn bring(&mut self, ring: &Ring) {
        let hd = self.kernel.hd;
        let lane = self.lane_share();
        let first = self.kernel.query_bytes();
        let keys = self.tiles(&lane, (Word::K, 1), first);
        let values = self.tiles(&lane, (Word::V, 2), first + PLACES * tile_bytes(hd));
        let turn = Ring::first_to_fill(&mut self.a);
        let (left, none, more) = (self.tiles_left(), self.a.pred(), self.a.pred());
        self.copy_tile(&lane, &keys, turn.place);
        ring.fill(&mut self.a, &turn);
        ring.next(&mut self.a, &turn);
        let (again, skip) = (self.a.label(), self.a.label());
        self.a.place(&again);
        ring.wait_until_empty(&mut self.a, &turn);
        op!(self.a, "setp.eq.u32 {none}, {left}, 0");
        op!(self.a, "@{none} bra.uni {skip}");
        self.copy_tile(&lane, &keys, turn.place);
        self.a.place(&skip);
        self.copy_tile(&lane, &values, turn.place);
        ring.fill(&mut self.a, &turn);
        ring.next(&mut self.a, &turn);
        op!(self.a, "setp.ne.u32 {more}, {left}, 0");
        op!(self.a, "sub.u32 {left}, {left}, 1");
        op!(self.a, "@{more} bra.uni {again}");
        op!(self.a, "cp.async.wait_all");
    }

    /// The warp groups that compute.
    fn compute(&mut self, ring: &Ring) {
        let share = Share::new(self);
        let computing = self.kernel.computing();
        self.copy_queries(&share);
        op!(self.a, "cp.async.commit_group");
        op!(self.a, "cp.async.wait_group 0");
        op!(self.a, "fence.proxy.async.shared::cta");
        op!(self.a, "bar.sync {TOGETHER}, {computing}");
        self.clear();

        let [keys, values] = self.places();
        let turn = Ring::first_to_take(&mut self.a);
        let (left, more) = (self.tiles_left(), self.a.pred());
        let m = self.word(Word::Keys);
        ring.wait_until_full(&mut self.a, &turn);
        op!(self.a, "wgmma.fence.sync.aligned");
        self.score_tile(keys, turn.place);
        op!(self.a, "wgmma.wait_group.sync.aligned 0");
        ring.emptied(&mut self.a, self.lane, turn.place);
        ring.next(&mut self.a, &turn);
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
        ring.wait_until_full(&mut self.a, &turn);
        op!(self.a, "wgmma.fence.sync.aligned");
        self.score_tile(keys, turn.place);
        self.weigh_tile(values, turn.place, &weights);
        op!(self.a, "wgmma.wait_group.sync.aligned 1");
        let rescale = self.softmax.shifts(&mut self.a, &self.scores);
        let made = self
            .softmax
            .exponentials_in_place(&mut self.a, &self.scores);
        op!(self.a, "wgmma.wait_group.sync.aligned 0");
        ring.emptied(&mut self.a, self.lane, turn.place);
        ring.next(&mut self.a, &turn);
        rescale.apply(&mut self.a, &self.out);
        pack(&mut self.a, &made, &weights);
        op!(self.a, "sub.u32 {left}, {left}, 1");
        op!(self.a, "setp.ne.u32 {more}, {left}, 0");
        op!(self.a, "@{more} bra.uni {again}");
        self.a.place(&last);
        ring.wait_until_full(&mut self.a, &turn);
        op!(self.a, "wgmma.fence.sync.aligned");
        self.weigh_tile(values, turn.place, &weights);
        op!(self.a, "wgmma.wait_group.sync.aligned 0");
        op!(self.a, "bar.sync {TOGETHER}, {computing}");
        self.store();
    }

    /// The tiles behind the first.
    fn tiles_left(&mut self) -> Reg {
        let (m, left) = (self.word(Word::Keys), self.a.b32());
        op!(self.a, "sub.u32 {left}, {m}, 1");
        op!(self.a, "div.u32 {left}, {left}, {KEYS}");
        left
    }

    /// Keys and values of the first place, as the matrix units are told of them.
    fn places(&mut self) -> [Reg; 2] {
        let at = self.a.b32();
        let first = self.kernel.query_bytes();
        op!(self.a, "add.u32 {at}, {}, {first}", self.shared);
        let keys = descriptor(&mut self.a, at, LINE, 1);
        let plus = PLACES * tile_bytes(self.kernel.hd);
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

    fn lane_share(&mut self) -> Lane {
        let width = self.word(Word::Width);
        let (tid, shared) = (self.tid, self.shared);
        let first = self.kernel.computing();
        let a = &mut self.a;
        let [line, chunk] = [a.b32(), a.b32()];
        op!(a, "sub.u32 {line}, {tid}, {first}");
        op!(a, "shr.u32 {line}, {line}, 3");
        op!(a, "and.b32 {chunk}, {tid}, 7");
        let within = Swizzle::new(LINE).offset(a, line, chunk);
        op!(a, "add.u32 {within}, {within}, {shared}");
        let [lines, tile] = [a.b64(), a.b64()];
        op!(a, "mul.wide.u32 {lines}, {width}, {}", LINES * 2);
        op!(a, "mul.wide.u32 {tile}, {width}, {}", 2 * KEYS * 2);
        Lane {
            line,
            chunk,
            within,
            lines,
            tile,
        }
    }

    fn tiles(&mut self, lane: &Lane, (at, view): (Word, usize), first: u32) -> Tiles {
        let [m, width] = [self.word(Word::Keys), self.word(Word::Width)];
        let element = self.element(at, Word::BatchK, false);
        let before = self.tiles_left();
        let valid = self.valid_keys(m, before);
        let view = self.kernel.query_view() + view;
        let a = &mut self.a;
        op!(a, "mul.lo.u32 {before}, {before}, {KEYS}");
        op!(a, "add.u32 {before}, {before}, {}", lane.line);
        let (view, from) = (a.view(view), a.b64());
        op!(a, "mad.lo.u32 {element}, {before}, {width}, {element}");
        op!(a, "mad.lo.u32 {element}, {}, 8, {element}", lane.chunk);
        op!(a, "mul.wide.u32 {from}, {element}, 2");
        op!(a, "add.u64 {from}, {from}, {view}");
        Tiles { from, first, valid }
    }

    /// Starts the copy of the next tile to a place, and moves on.
    fn copy_tile(&mut self, lane: &Lane, tiles: &Tiles, place: Reg) {
        let hd = self.kernel.hd;
        let a = &mut self.a;
        let (to, within) = (a.b32(), lane.within);
        op!(a, "mad.lo.u32 {to}, {place}, {}, {within}", tile_bytes(hd));
        let from = tiles.from;
        for time in 0..KEYS / LINES {
            let [inside, row, size] = [a.pred(), a.b32(), a.b32()];
            op!(a, "add.u32 {row}, {}, {}", lane.line, time * LINES);
            op!(a, "setp.lt.u32 {inside}, {row}, {}", tiles.valid);
            op!(a, "selp.u32 {size}, 16, 0, {inside}");
            for beside in 0..hd / 64 {
                let plus = tiles.first + (beside * KEYS + time * LINES) * LINE;
                let at = beside * LINE;
                op!(
                    a,
                    "cp.async.cg.shared.global [{to}+{plus}], [{from}+{at}], 16, {size}"
                );
            }
            op!(a, "add.u64 {from}, {from}, {}", lane.lines);
        }
        // Back over this tile and the one before it.
        op!(a, "sub.u64 {from}, {from}, {}", lane.tile);
        op!(a, "mov.u32 {}, {KEYS}", tiles.valid);
    }

    /// The first tile's descriptor, moved on to a place.
    fn placed(&mut self, first: Reg, place: Reg) -> Reg {
        let (at, wide) = (self.a.b32(), self.a.b64());
        let tile = tile_bytes(self.kernel.hd) / 16;
        op!(self.a, "mul.lo.u32 {at}, {place}, {tile}");
        op!(self.a, "cvt.u64.u32 {wide}, {at}");
        op!(self.a, "add.u64 {wide}, {wide}, {first}");
        wide
    }

    /// Begins to make the scores of a tile.
    fn score_tile(&mut self, keys: Reg, place: Reg) {
        let tile = self.placed(keys, place);
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
    fn weigh_tile(&mut self, values: Reg, place: Reg, weights: &[[Reg; 4]]) {
        let (tile, columns) = (self.placed(values, place), self.kernel.columns());
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
