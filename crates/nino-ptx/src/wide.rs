//! Attention with heads of 64 columns or more on Hopper's matrix units: q, out
//! `[b, n, heads, hd]`, k, v `[b, m, heads, hd]`, all f16. Views, words and the order of keys are
//! those of `attention`; the grid is blocks of rows, parts of heads, batch elements. With `log`
//! there is one more view behind the output: f32 `[rows, heads]`, what each query's weights sum up
//! to, in units of log2.
//!
//! A warp group's registers hold the sums of 64 rows by 256 columns of values. Of a wider head each
//! part is another workgroup's, and each scores all of the head again: half more work at 512
//! columns, but a quarter less to read than with half the rows and all columns, and no warp group
//! ever waits for another's scores. The output must not lie where the queries do.
//!
//! Heads of at most 128 columns go another way: see `overlap`. Of wider ones queries stay in shared
//! memory; keys and values come by in steps of 16 KiB: 64 columns of 128 keys, or 32 keys' columns
//! of the part. The scores' exponentials are made while the matrix units take the ones before them.

use super::asm::{Asm, Entry, Reg, op};
use super::attention::{WORDS, Word};
use super::ring::COPIERS;
use super::softmax::{Softmax, Sums, sums};
use super::wgmma::descriptor;
use super::{PtxKernel, Target};
use copy::Copies;

mod copy;
mod overlap;
mod rows;
mod tile;

/// A kernel for heads of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WideKernel {
    pub hd: u32,
    /// Warp groups of 64 query rows each, 1 or 2.
    pub groups: u32,
    pub log: bool,
}

/// Query rows of a warp group.
const GROUP_ROWS: u32 = 64;
/// Keys of a tile.
const KEYS: u32 = 128;
/// Keys whose values are a step.
const VALUE_KEYS: u32 = 32;
/// Bytes of a swizzled line: 64 columns.
const LINE: u32 = 128;
/// Bytes of a step's place in the ring.
const SLOT: u32 = KEYS * LINE;
/// Values are 256 columns at most: the sums are half of a thread's registers.
const COLUMNS: u32 = 256;

impl WideKernel {
    /// The kernel for heads of whole lines whose parts have whole lines too.
    pub fn new(hd: u32, groups: u32) -> Option<WideKernel> {
        let kernel = WideKernel {
            hd,
            groups,
            log: false,
        };
        let fits = (64..=2 * COLUMNS).contains(&hd) && hd.is_multiple_of(64 * kernel.parts());
        fits.then_some(kernel)
    }

    /// Query rows of a workgroup.
    pub fn rows(self) -> u32 {
        self.groups * GROUP_ROWS
    }

    /// Workgroups that share the columns of a head's values.
    pub fn parts(self) -> u32 {
        self.hd.div_ceil(COLUMNS)
    }

    /// The view of queries; keys and values follow.
    fn query_view(self) -> usize {
        1 + usize::from(self.log)
    }

    /// Threads that compute.
    fn computing(self) -> u32 {
        2 * self.rows()
    }

    fn threads(self) -> u32 {
        let copiers = if self.overlaps() { COPIERS } else { 0 };
        self.computing() + copiers
    }

    fn columns(self) -> u32 {
        self.hd / self.parts()
    }

    fn query_bytes(self) -> u32 {
        self.rows() * self.hd * 2
    }

    /// Whether whole tiles of keys and values fit three times: see `overlap`.
    fn overlaps(self) -> bool {
        self.hd <= 128
    }

    fn ring_bytes(self) -> u32 {
        if self.overlaps() {
            overlap::ring_bytes(self.hd)
        } else {
            self.slots() * SLOT
        }
    }

    /// Steps of a tile: of keys, and with those of values.
    fn key_steps(self) -> u32 {
        self.hd / 64
    }

    fn steps(self) -> u32 {
        self.key_steps() + KEYS / VALUE_KEYS
    }

    /// Steps in shared memory. They divide a tile's, so that a step always has the same slot.
    fn slots(self) -> u32 {
        let room = (Target::Sm90a.shared() - self.query_bytes()) / SLOT;
        let divides = |slots: &u32| self.steps().is_multiple_of(*slots);
        (3..=room.min(self.steps()))
            .rev()
            .find(divides)
            .unwrap_or(3)
    }

    /// Steps on their way while one is multiplied and the one before it may still be.
    fn ahead(self) -> u32 {
        self.slots() - 2
    }

    pub fn kernel(self) -> PtxKernel {
        let mut writer = Writer::new(self);
        if self.overlaps() {
            writer.overlapped();
        } else {
            writer.body();
        }
        writer.a.finish(Entry {
            name: &format!(
                "attention_wide_{}_{}{}",
                self.hd,
                self.groups,
                if self.log { "_log" } else { "" }
            ),
            target: Target::Sm90a.name(),
            views: 3 + self.query_view(),
            words: WORDS,
            threads: self.threads(),
            shared: self.query_bytes() + self.ring_bytes(),
            per_sm: 1,
        })
    }
}

/// A kernel being written, and the registers all parts share.
struct Writer {
    kernel: WideKernel,
    a: Asm,
    tid: Reg,
    lane: Reg,
    shared: Reg,
    /// First query row of the workgroup.
    row: Reg,
    /// Queries of the warp group, and the first slot as keys and as values, as the matrix units are
    /// told of them.
    queries: Reg,
    keys: Reg,
    values: Reg,
    scores: [Sums; 1],
    out: [Sums; 1],
    softmax: Softmax,
}

impl Writer {
    fn new(kernel: WideKernel) -> Writer {
        let mut a = Asm::default();
        let [tid, lane, shared, row] = [a.b32(), a.b32(), a.b32(), a.b32()];
        op!(a, "mov.u32 {tid}, %tid.x");
        op!(a, "and.b32 {lane}, {tid}, 31");
        op!(a, "mov.u32 {shared}, shared");
        op!(a, "mov.u32 {row}, %ctaid.x");
        op!(a, "mul.lo.u32 {row}, {row}, {}", kernel.rows());

        let [group, at] = [a.b32(), a.b32()];
        op!(a, "shr.u32 {group}, {tid}, 7");
        op!(
            a,
            "mad.lo.u32 {at}, {group}, {}, {shared}",
            GROUP_ROWS * LINE
        );
        let queries = descriptor(&mut a, at, LINE, 1);
        op!(a, "add.u32 {at}, {shared}, {}", kernel.query_bytes());
        let keys = descriptor(&mut a, at, LINE, 1);
        let values = descriptor(&mut a, at, LINE, VALUE_KEYS * LINE / 16);

        let bits = a.word(Word::Scale as usize);
        let scale = a.f32();
        op!(a, "mov.b32 {scale}, {bits}");
        Writer {
            scores: [sums(&mut a, KEYS / 8)],
            out: [sums(&mut a, kernel.columns() / 8)],
            softmax: Softmax::new(&mut a, lane, scale, 1),
            kernel,
            a,
            tid,
            lane,
            shared,
            row,
            queries,
            keys,
            values,
        }
    }

    fn word(&mut self, word: Word) -> Reg {
        self.a.word(word as usize)
    }

    /// The first element of this workgroup's head in a view; with `part`, of its part of it.
    fn element(&mut self, offset: Word, stride: Word, part: bool) -> Reg {
        let [offset, stride] = [self.word(offset), self.word(stride)];
        let parts = self.kernel.parts();
        let a = &mut self.a;
        let [y, head, batch, element] = [a.b32(), a.b32(), a.b32(), a.b32()];
        op!(a, "mov.u32 {y}, %ctaid.y");
        op!(a, "mov.u32 {batch}, %ctaid.z");
        op!(a, "mad.lo.u32 {element}, {batch}, {stride}, {offset}");
        op!(a, "div.u32 {head}, {y}, {parts}");
        op!(
            a,
            "mad.lo.u32 {element}, {head}, {}, {element}",
            self.kernel.hd
        );
        if part {
            op!(a, "rem.u32 {y}, {y}, {parts}");
            let columns = self.kernel.columns();
            op!(a, "mad.lo.u32 {element}, {y}, {columns}, {element}");
        }
        element
    }

    fn body(&mut self) {
        let mut copies = Copies::new(self);
        self.copy_queries(&copies.share);
        for step in 0..self.kernel.ahead() {
            copies.step(self, step);
        }
        self.clear();
        let again = self.a.label();
        self.a.place(&again);
        self.tile(&mut copies);
        op!(self.a, "@{} bra {again}", copies.more);
        // Everybody is done with the queries, which the output takes the place of.
        op!(self.a, "bar.sync 0");
        self.store();
    }

    fn clear(&mut self) {
        // An infinite shift makes the first tile set a new one, since every score is above it.
        for shift in &self.softmax.shift {
            op!(self.a, "mov.f32 {shift}, 0f7F800000");
        }
        for sum in self.softmax.sum.iter().chain(self.out[0].iter().flatten()) {
            op!(self.a, "mov.f32 {sum}, 0f00000000");
        }
    }
}

#[cfg(test)]
mod tests;
