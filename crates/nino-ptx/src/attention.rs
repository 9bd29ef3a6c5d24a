//! Attention in the manner of FlashAttention-2 (arXiv 2307.08691): q, out `[b, n, heads, hd]`,
//! k, v `[b, m, heads, hd]`, all f16. A workgroup takes some query rows of one head and goes over
//! tiles of keys, the last one first, so that only the tile before the loop has keys to mask.
//!
//! Scores, their exponentials and the sums stay in registers, in the layout of `mma`'s fragments.
//! Views: out, q, k, v, and with `mask` what is added to the scores, in f32. Words: see `Word`.
//! Grid: blocks of rows, heads, batch elements.

mod copy;
mod mask;
mod rows;
mod tile;

use super::asm::{Asm, Entry, Reg, op};
use super::softmax::{Softmax, Sums, sums};
use super::{PtxKernel, Target};
use crate::swizzle::Swizzle;
use copy::Copies;
use mask::Mask;

/// A kernel for heads of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AttentionKernel {
    /// A multiple of 8, 160 at most.
    pub hd: u32,
    pub warps: u32,
    /// Query rows of a warp, 16 or 32. Fragments of keys and values serve all of them.
    pub warp_rows: u32,
    /// Keys of a tile, a multiple of 16.
    pub keys: u32,
    /// Tiles in shared memory: 2, or 1 where one tile holds all keys.
    pub stages: u32,
    /// Workgroups a multiprocessor should hold.
    pub per_sm: u32,
    /// Something is added to the scores.
    pub mask: bool,
}

/// The launch's words, in their order. Offsets and strides count elements.
#[derive(Clone, Copy, Debug)]
pub enum Word {
    /// Query rows of the launch.
    Rows,
    /// Keys of a batch element.
    Keys,
    /// Elements of a row: heads * hd.
    Width,
    Out,
    Q,
    K,
    V,
    /// Strides of batch elements.
    BatchQ,
    BatchK,
    /// log2(e) times the factor of scores, an f32 above zero.
    Scale,
    /// Where the mask of the first row begins, its strides of heads, rows and batch elements, and
    /// one over the factor of scores: with a mask alone.
    Mask,
    MaskHead,
    MaskRow,
    MaskBatch,
    MaskFactor,
}

/// Words without a mask, and with one.
pub const WORDS: usize = Word::Scale as usize + 1;
pub const MASKED_WORDS: usize = Word::MaskFactor as usize + 1;

impl AttentionKernel {
    /// Query rows of a workgroup.
    pub fn rows(&self) -> u32 {
        self.warps * self.warp_rows
    }

    pub fn kernel(&self) -> PtxKernel {
        let Self { hd, keys, .. } = *self;
        let mask = if self.mask { "_mask" } else { "" };
        let name = format!(
            "attention_{hd}_{}x{}_{keys}x{}_{}{mask}",
            self.warps, self.warp_rows, self.stages, self.per_sm
        );
        let mut writer = Writer::new(*self);
        writer.body();
        writer.a.finish(Entry {
            name: &name,
            target: Target::Sm80.name(),
            views: 4 + usize::from(self.mask),
            words: if self.mask { MASKED_WORDS } else { WORDS },
            threads: self.threads(),
            shared: self.stages * self.stage_bytes(),
            per_sm: self.per_sm,
        })
    }

    fn threads(&self) -> u32 {
        32 * self.warps
    }

    /// Pieces of 16 bytes of a head's row.
    fn chunks(&self) -> u32 {
        self.hd / 8
    }

    fn row_bytes(&self) -> u32 {
        self.hd * 2
    }

    fn tile_bytes(&self) -> u32 {
        self.keys * self.row_bytes()
    }

    /// Keys, then values.
    fn stage_bytes(&self) -> u32 {
        2 * self.tile_bytes()
    }
}

/// A kernel being written, and the registers all parts share.
struct Writer {
    kernel: AttentionKernel,
    swizzle: Swizzle,
    a: Asm,
    tid: Reg,
    lane: Reg,
    /// First query row of the warp.
    row: Reg,
    /// Addresses in shared memory of the lane's row of the first fragment. Of keys, the matrices
    /// of a fragment are: 8 rows, their next 8 columns, the next 8 rows, their next 8 columns; of
    /// values, 8 rows and the next 8 rows come before the next 8 columns.
    fragments: [Reg; 2],
    /// 0.0
    zero: Reg,
    /// The fragments of the queries, for each 16 rows and each step of 16 columns.
    q: Vec<Vec<Vec<Reg>>>,
    /// The sums of values, for each 16 rows and each 8 columns.
    out: Vec<Sums>,
    softmax: Softmax,
    mask: Option<Mask>,
}

impl Writer {
    fn new(kernel: AttentionKernel) -> Writer {
        let mut a = Asm::default();
        let swizzle = Swizzle::new(kernel.row_bytes());
        let [tid, lane, row] = [a.b32(), a.b32(), a.b32()];
        op!(a, "mov.u32 {tid}, %tid.x");
        op!(a, "and.b32 {lane}, {tid}, 31");
        op!(a, "mov.u32 {row}, %ctaid.x");
        let warp = a.b32();
        op!(a, "shr.u32 {warp}, {tid}, 5");
        op!(a, "mad.lo.u32 {row}, {row}, {}, {warp}", kernel.warps);
        op!(a, "mul.lo.u32 {row}, {row}, {}", kernel.warp_rows);

        let [eight, next, matrix] = [a.b32(), a.b32(), a.b32()];
        op!(a, "shr.u32 {matrix}, {lane}, 3");
        op!(a, "and.b32 {matrix}, {matrix}, 1");
        op!(a, "shr.u32 {next}, {lane}, 4");
        op!(a, "and.b32 {eight}, {lane}, 7");
        let fragments = [(next, matrix), (matrix, next)].map(|(below, beside)| {
            let [row, address] = [a.b32(), a.b32()];
            op!(a, "mad.lo.u32 {row}, {below}, 8, {eight}");
            let within = swizzle.offset(&mut a, row, beside);
            op!(a, "mov.u32 {address}, shared");
            op!(a, "add.u32 {address}, {address}, {within}");
            address
        });
        let bits = a.word(Word::Scale as usize);
        let [scale, zero] = [a.f32(), a.f32()];
        op!(a, "mov.b32 {scale}, {bits}");
        op!(a, "mov.f32 {zero}, 0f00000000");
        let blocks = kernel.warp_rows / 16;
        Writer {
            out: (0..blocks).map(|_| sums(&mut a, kernel.chunks())).collect(),
            softmax: Softmax::new(&mut a, lane, scale, blocks),
            q: Vec::new(),
            kernel,
            swizzle,
            a,
            tid,
            lane,
            row,
            fragments,
            zero,
            mask: None,
        }
    }

    fn word(&mut self, word: Word) -> Reg {
        self.a.word(word as usize)
    }

    fn body(&mut self) {
        let mut copies = Copies::new(self);
        copies.first(self);
        self.load_q();
        self.mask = self.kernel.mask.then(|| Mask::new(self, copies.left));
        op!(self.a, "cp.async.wait_group 0");
        op!(self.a, "bar.sync 0");
        if self.kernel.stages > 1 {
            copies.next(self);
        }
        self.first_tile(copies.valid);
        if self.kernel.stages > 1 {
            self.other_tiles(&mut copies);
        }
        self.store();
    }

    fn other_tiles(&mut self, copies: &mut Copies) {
        let [again, end] = [self.a.label(), self.a.label()];
        let [test, stage] = [self.a.pred(), self.a.b32()];
        op!(self.a, "mov.u32 {stage}, 0");
        op!(self.a, "setp.lt.s32 {test}, {}, 0", copies.left);
        op!(self.a, "@{test} bra {end}");
        self.a.place(&again);
        op!(self.a, "cp.async.wait_group 0");
        op!(self.a, "bar.sync 0");
        copies.next(self);
        let bytes = self.kernel.stage_bytes();
        op!(self.a, "xor.b32 {stage}, {stage}, {bytes}");
        let fragments = self.fragments.map(|first| {
            let fragment = self.a.b32();
            op!(self.a, "add.u32 {fragment}, {first}, {stage}");
            fragment
        });
        self.next_tile(fragments);
        op!(self.a, "setp.ge.s32 {test}, {}, 0", copies.left);
        op!(self.a, "@{test} bra {again}");
        self.a.place(&end);
    }

    /// The first element of this workgroup's head in a view.
    fn element(&mut self, offset: Word, stride: Word) -> Reg {
        let [offset, stride] = [self.word(offset), self.word(stride)];
        let a = &mut self.a;
        let [head, batch, element] = [a.b32(), a.b32(), a.b32()];
        op!(a, "mov.u32 {head}, %ctaid.y");
        op!(a, "mov.u32 {batch}, %ctaid.z");
        op!(a, "mad.lo.u32 {element}, {batch}, {stride}, {offset}");
        op!(
            a,
            "mad.lo.u32 {element}, {head}, {}, {element}",
            self.kernel.hd
        );
        element
    }
}
