//! Steps of keys and values on their way into shared memory: each time, eight threads copy a line
//! in chunks of 16 bytes.

use super::{KEYS, LINE, SLOT, VALUE_KEYS, Word, Writer};
use crate::asm::{Reg, op};
use crate::swizzle::Swizzle;

/// A thread's share of the lines that are copied.
pub(super) struct Share {
    /// The thread's line and chunk.
    pub(super) line: Reg,
    pub(super) chunk: Reg,
    /// Where line and chunk are in shared memory, from its first line on.
    pub(super) within: Reg,
    /// Lines that all threads copy at a time, bytes between them in memory, and between tiles.
    pub(super) lines: u32,
    pub(super) rows: Reg,
    pub(super) tile: Reg,
}

impl Share {
    pub(super) fn new(w: &mut Writer) -> Share {
        let width = w.word(Word::Width);
        let lines = w.kernel.computing() / 8;
        let a = &mut w.a;
        let [line, chunk] = [a.b32(), a.b32()];
        op!(a, "shr.u32 {line}, {}, 3", w.tid);
        op!(a, "and.b32 {chunk}, {}, 7", w.tid);
        let within = Swizzle::new(LINE).offset(a, line, chunk);
        op!(a, "add.u32 {within}, {within}, {}", w.shared);
        let [rows, tile] = [a.b64(), a.b64()];
        op!(a, "mul.wide.u32 {rows}, {width}, {}", lines * 2);
        op!(a, "mul.wide.u32 {tile}, {width}, {}", KEYS * 2);
        Share {
            line,
            chunk,
            within,
            lines,
            rows,
            tile,
        }
    }
}

/// What a thread copies of each tile, and where the next tile is. Tiles go from the last to the
/// first.
pub(super) struct Copies {
    pub(super) share: Share,
    /// Address of the thread's chunk in the tile to copy.
    keys: Reg,
    values: Reg,
    /// The bytes to copy for each `lines` keys of the tile: 16 where this thread's key exists, else
    /// 0.
    sizes: Vec<Reg>,
    /// Keys of the tile.
    pub(super) valid: Reg,
    /// Tiles whose copies have not begun, and whether there is one after the tile computed.
    left: Reg,
    pub(super) more: Reg,
}

impl Copies {
    pub(super) fn new(w: &mut Writer) -> Copies {
        let share = Share::new(w);
        let Share {
            line, chunk, lines, ..
        } = share;
        let [m, width] = [w.word(Word::Keys), w.word(Word::Width)];
        let times = KEYS / lines;
        let a = &mut w.a;
        let [left, before, valid] = [a.b32(), a.b32(), a.b32()];
        op!(a, "sub.u32 {left}, {m}, 1");
        op!(a, "div.u32 {left}, {left}, {KEYS}");
        op!(a, "mul.lo.u32 {before}, {left}, {KEYS}");
        op!(a, "sub.u32 {valid}, {m}, {before}");
        op!(a, "add.u32 {before}, {before}, {line}");
        let sizes = (0..times).map(|time| {
            let [inside, row, size] = [a.pred(), a.b32(), a.b32()];
            op!(a, "add.u32 {row}, {line}, {}", time * lines);
            op!(a, "setp.lt.u32 {inside}, {row}, {valid}");
            op!(a, "selp.u32 {size}, 16, 0, {inside}");
            size
        });
        let sizes = sizes.collect();
        let more = a.pred();
        let inputs = w.kernel.query_view();
        let [keys, values] = [(1, Word::K, false), (2, Word::V, true)].map(|(view, at, part)| {
            let element = w.element(at, Word::BatchK, part);
            let a = &mut w.a;
            let (view, address) = (a.view(inputs + view), a.b64());
            op!(a, "mad.lo.u32 {element}, {before}, {width}, {element}");
            op!(a, "mad.lo.u32 {element}, {chunk}, 8, {element}");
            op!(a, "mul.wide.u32 {address}, {element}, 2");
            op!(a, "add.u64 {address}, {address}, {view}");
            address
        });
        Copies {
            share,
            keys,
            values,
            sizes,
            valid,
            left,
            more,
        }
    }

    /// Starts the copy of a step, counted from the first of the tile being computed: those of the
    /// next tile only if there is one.
    pub(super) fn step(&mut self, w: &mut Writer, step: u32) {
        let (steps, key_steps) = (w.kernel.steps(), w.kernel.key_steps());
        if step == steps {
            self.next_tile(w);
        }
        let guard = (step >= steps).then_some(self.more);
        let to = w.kernel.query_bytes() + step % w.kernel.slots() * SLOT;
        let step = step % steps;
        if step < key_steps {
            for (time, size) in (0..).zip(&self.sizes) {
                let from = self.rows_on(w, self.keys, time);
                let to = to + time * self.share.lines * LINE;
                self.copy(w, guard, to, (from, step * LINE), *size);
            }
        } else {
            let times = VALUE_KEYS / self.share.lines;
            let first = (step - key_steps) * times;
            for time in 0..times {
                let from = self.rows_on(w, self.values, first + time);
                let size = self.sizes[(first + time) as usize];
                for beside in 0..w.kernel.columns() / 64 {
                    let to = to + (beside * VALUE_KEYS + time * self.share.lines) * LINE;
                    self.copy(w, guard, to, (from, beside * LINE), size);
                }
            }
        }
        op!(w.a, "cp.async.commit_group");
    }

    /// Moves on to the next tile. Only the first tile copied can have fewer keys than others.
    fn next_tile(&mut self, w: &mut Writer) {
        let a = &mut w.a;
        op!(a, "setp.gt.s32 {}, {}, 0", self.more, self.left);
        op!(a, "sub.s32 {0}, {0}, 1", self.left);
        for address in [self.keys, self.values] {
            op!(a, "sub.u64 {address}, {address}, {}", self.share.tile);
        }
        for size in &self.sizes {
            op!(a, "mov.u32 {size}, 16");
        }
    }

    fn rows_on(&self, w: &mut Writer, address: Reg, time: u32) -> Reg {
        let from = w.a.b64();
        op!(
            w.a,
            "mad.lo.u64 {from}, {}, {time}, {address}",
            self.share.rows
        );
        from
    }

    fn copy(
        &self,
        w: &mut Writer,
        guard: Option<Reg>,
        to: u32,
        (from, plus): (Reg, u32),
        size: Reg,
    ) {
        let guard = guard.map_or(String::new(), |p| format!("@{p} "));
        let within = self.share.within;
        op!(
            w.a,
            "{guard}cp.async.cg.shared.global [{within}+{to}], [{from}+{plus}], 16, {size}"
        );
    }
}
