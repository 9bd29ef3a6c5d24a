//! Linear layers and convolutions on Hopper's matrix units (`wgmma`): O[m, n] = sum over k of
//! A[m, k] W[n, k], f16 with f32 sums.
//!
//! All threads copy the next K steps of both operands into a ring in shared memory while warp
//! groups of 128 threads multiply out of it, each blocks of 64 rows by the whole width of the tile.
//! Several workgroups a multiprocessor hide what one waits for.

use super::PtxKernel;
use super::asm::{Asm, Entry, Reg, op};

mod copy;
mod epilogue;
mod operands;

use copy::{Copies, Matrix, Pixels};
use operands::Operands;

/// The op and tile that a kernel is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[allow(clippy::struct_excessive_bools)] // independent parts of an epilogue
pub struct GemmKernel {
    pub tile: Tile,
    /// Rows of A are a convolution's windows.
    pub window: Option<Window>,
    /// A factor for each column.
    pub scale: bool,
    /// After the scale.
    pub bias: bool,
    /// After the bias.
    pub act: Act,
    /// An f16 factor for each column, after the activation.
    pub factor: bool,
    pub residual: bool,
    /// After the residual.
    pub post: Act,
    /// With a gate, half of a tile's columns belong to the second half of W, and the result is the
    /// first half times the activated second half. There is no residual then, and N is the width of
    /// the result.
    pub gate: Option<Act>,
}

/// The activations these kernels know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Act {
    #[default]
    None,
    Relu,
    Silu,
    Gelu,
    /// GELU by its approximation with a hyperbolic tangent.
    GeluTanh,
    /// To at least `lo` and at most `hi`, given as the bits of both.
    Clamp {
        lo: u32,
        hi: u32,
    },
    /// `x * mul + add`, given as the bits of both.
    Affine {
        mul: u32,
        add: u32,
    },
}

impl Act {
    /// Its part of a kernel's name.
    fn tag(self) -> String {
        match self {
            Act::Affine { mul, add } => format!("affine_{mul:x}_{add:x}"),
            Act::Clamp { lo, hi } => format!("clamp_{lo:x}_{hi:x}"),
            other => format!("{other:?}").to_lowercase(),
        }
    }
}

/// Shape of the tile a workgroup makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tile {
    /// Warp groups, and blocks of 64 rows each of them has.
    pub groups: u32,
    pub blocks: u32,
    pub bn: u32,
    /// 32 or 64: a row of a step is one swizzled line of 64 or 128 bytes.
    pub bk: u32,
    pub stages: u32,
    pub per_sm: u32,
}

/// A convolution's window over frames, which are not padded, and their pixels. K is
/// `[kt, kh, kw, c]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    pub size: [u32; 3],
    pub stride: [u32; 3],
    pub dilation: [u32; 2],
    /// 1 or 2.
    pub upsample: u32,
}

/// The words of a launch, by number.
pub mod word {
    pub const M: usize = 0;
    pub const N: usize = 1;
    pub const K: usize = 2;
    /// Elements from where a view starts to the launch's first row. For windows, eights of elements
    /// to pixel 0 of a tensor that may begin far before the view: signed.
    pub const X_AT: usize = 3;
    pub const OUT_AT: usize = 4;
    pub const RESIDUAL_AT: usize = 5;
    pub const ROWS: usize = 6;
    /// The first output pixel, channels, sizes after upsampling, output sizes, padding.
    pub const FIRST: usize = 6;
    pub const C: usize = 7;
    pub const H: usize = 8;
    pub const W: usize = 9;
    pub const OUT_H: usize = 10;
    pub const OUT_W: usize = 11;
    pub const PAD_Y: usize = 12;
    pub const PAD_X: usize = 13;
    pub const WINDOWS: usize = 14;
    /// Frames of a batch element, and of its result: where windows reach over several.
    pub const FRAMES: usize = 14;
    pub const OUT_FRAMES: usize = 15;
    pub const CLIPS: usize = 16;
}

impl Window {
    /// Whether the window covers other frames than a pixel's own.
    pub fn is_over_frames(&self) -> bool {
        self.size[0] > 1 || self.stride[0] > 1
    }
}

impl Tile {
    pub fn bm(&self) -> u32 {
        64 * self.groups * self.blocks
    }

    fn threads(&self) -> u32 {
        128 * self.groups
    }

    /// Bytes of a row of a step.
    fn line(&self) -> u32 {
        self.bk * 2
    }

    fn stage_bytes(&self) -> u32 {
        (self.bm() + self.bn) * self.line()
    }

    /// Bytes of shared memory.
    pub fn shared(&self) -> u32 {
        self.stage_bytes() * self.stages
    }

    /// Whether a step's product goes on while the next one is waited for and told: where no other
    /// workgroup of the multiprocessor keeps the matrix units busy meanwhile.
    fn overlaps(&self) -> bool {
        self.per_sm == 1
    }

    /// Steps on their way while one is multiplied, and the one before it may still be.
    fn ahead(&self) -> u32 {
        self.stages - 1 - u32::from(self.overlaps())
    }
}

/// The registers that every part of a kernel needs.
struct Frame {
    tile: Tile,
    tid: Reg,
    shared: Reg,
    m: Reg,
    n: Reg,
    k: Reg,
    /// First row and column of the tile.
    m0: Reg,
    n0: Reg,
}

impl GemmKernel {
    fn name(&self) -> String {
        let Tile {
            groups,
            blocks,
            bn,
            bk,
            stages,
            per_sm,
        } = self.tile;
        let tile = format!("{groups}_{blocks}_{bn}_{bk}_{stages}_{per_sm}");
        let window = self.window.map_or(String::new(), |w| {
            let ([kt, kh, kw], [st, sh, sw], [dh, dw]) = (w.size, w.stride, w.dilation);
            let frames = format!("{kt}_{kh}_{kw}_{st}_{sh}_{sw}");
            format!("_window_{frames}_{dh}_{dw}_{}", w.upsample)
        });
        let scale = if self.scale { "_scale" } else { "" };
        let bias = if self.bias { "_bias" } else { "" };
        let factor = if self.factor { "_factor" } else { "" };
        let residual = if self.residual { "_residual" } else { "" };
        let gate = self
            .gate
            .map_or(String::new(), |g| format!("_gate_{}", g.tag()));
        let (act, post) = (self.act.tag(), self.post.tag());
        format!("gemm_{tile}{window}{scale}{bias}{factor}{residual}_{act}_{post}{gate}")
    }

    /// The view of the bias: the scale's is before it.
    fn bias_view(&self) -> usize {
        3 + usize::from(self.scale)
    }

    fn factor_view(&self) -> usize {
        self.bias_view() + usize::from(self.bias)
    }

    fn residual_view(&self) -> usize {
        self.factor_view() + usize::from(self.factor)
    }

    /// Columns of a tile's result.
    pub fn columns(&self) -> u32 {
        self.tile.bn / if self.gate.is_some() { 2 } else { 1 }
    }

    pub fn kernel(&self) -> PtxKernel {
        let tile = self.tile;
        let mut a = Asm::default();
        let frame = Frame::new(&mut a, tile, self.columns());
        let sums = self.main_loop(&mut a, &frame);
        self.epilogue(&mut a, &frame, &sums);
        a.finish(Entry {
            name: &self.name(),
            target: "sm_90a",
            views: self.residual_view() + usize::from(self.residual),
            words: match self.window {
                Some(window) if window.is_over_frames() => word::CLIPS,
                Some(_) => word::WINDOWS,
                None => word::ROWS,
            },
            threads: tile.threads(),
            shared: tile.shared(),
            per_sm: tile.per_sm,
        })
    }

    /// Gives the sums of each block of 64 rows.
    fn main_loop(&self, a: &mut Asm, f: &Frame) -> Vec<Vec<Reg>> {
        let Frame { tile, k, .. } = *f;
        let stage = tile.stage_bytes();
        let weights = Matrix {
            view: 2,
            at: None,
            first: f.n0,
            limit: f.n,
            rows: tile.bn,
            halves: self.gate.is_some(),
        };
        let weights = Copies::rows(a, f, weights, tile.bm());
        let rows = Matrix {
            view: 1,
            at: Some(word::X_AT),
            first: f.m0,
            limit: f.m,
            rows: tile.bm(),
            halves: false,
        };
        let pixels = self.window.map(|window| Pixels::new(a, f, window));
        let rows = pixels.as_ref().map_or_else(
            || Copies::rows(a, f, rows, 0),
            |pixels| pixels.copies.clone(),
        );
        let copy = |a: &mut Asm, to: Reg| {
            rows.step(a, to);
            weights.step(a, to);
            if let Some(pixels) = &pixels {
                pixels.step(a);
            }
        };

        let sums: Vec<Vec<Reg>> = (0..tile.blocks)
            .map(|_| (0..tile.bn / 2).map(|_| a.f32()).collect())
            .collect();
        for sum in sums.iter().flatten() {
            op!(a, "mov.f32 {sum}, 0f00000000");
        }
        let operands = Operands::new(a, f);

        let (steps, next, write) = (a.b32(), a.b32(), a.b32());
        op!(a, "div.u32 {steps}, {k}, {}", tile.bk);
        op!(a, "mov.u32 {write}, 0");
        op!(a, "mov.u32 {next}, 0");
        let fill = |a: &mut Asm| {
            let (done, skip) = (a.pred(), a.label());
            op!(a, "setp.ge.u32 {done}, {next}, {steps}");
            op!(a, "@{done} bra {skip}");
            copy(a, write);
            a.place(&skip);
            op!(a, "cp.async.commit_group");
            op!(a, "add.u32 {next}, {next}, 1");
            op!(a, "add.u32 {write}, {write}, {stage}");
            let wrap = a.pred();
            op!(a, "setp.eq.u32 {wrap}, {write}, {}", tile.shared());
            op!(a, "@{wrap} mov.u32 {write}, 0");
        };
        let ahead = tile.ahead();
        for _ in 0..ahead {
            fill(a);
        }
        let (step, read, again) = (a.b32(), a.b64(), a.label());
        op!(a, "mov.u32 {step}, 0");
        op!(a, "mov.u64 {read}, 0");
        a.place(&again);
        op!(a, "cp.async.wait_group {}", ahead - 1);
        op!(a, "fence.proxy.async.shared::cta");
        // After this barrier the copies of all threads have arrived, and all are done with the step
        // that the next copy goes to.
        op!(a, "bar.sync 0");
        if tile.overlaps() {
            operands.multiply(a, tile, read, &sums);
            fill(a);
            op!(a, "wgmma.wait_group.sync.aligned 1");
        } else {
            fill(a);
            operands.multiply(a, tile, read, &sums);
            op!(a, "wgmma.wait_group.sync.aligned 0");
        }
        op!(a, "add.u64 {read}, {read}, {}", stage / 16);
        let (wrap, more) = (a.pred(), a.pred());
        op!(a, "setp.eq.u64 {wrap}, {read}, {}", tile.shared() / 16);
        op!(a, "@{wrap} mov.u64 {read}, 0");
        op!(a, "add.u32 {step}, {step}, 1");
        op!(a, "setp.lt.u32 {more}, {step}, {steps}");
        op!(a, "@{more} bra {again}");
        if tile.overlaps() {
            op!(a, "wgmma.wait_group.sync.aligned 0");
        }
        sums
    }
}

impl Frame {
    fn new(a: &mut Asm, tile: Tile, columns: u32) -> Frame {
        let (m, n, k) = (a.word(word::M), a.word(word::N), a.word(word::K));
        let (m0, n0, tid, shared) = (a.b32(), a.b32(), a.b32(), a.b32());
        op!(a, "mov.u32 {m0}, %ctaid.x");
        op!(a, "mul.lo.u32 {m0}, {m0}, {}", tile.bm());
        op!(a, "mov.u32 {n0}, %ctaid.y");
        op!(a, "mul.lo.u32 {n0}, {n0}, {columns}");
        op!(a, "mov.u32 {tid}, %tid.x");
        op!(a, "mov.u32 {shared}, shared");
        Frame {
            tile,
            tid,
            shared,
            m,
            n,
            k,
            m0,
            n0,
        }
    }
}

#[cfg(test)]
mod tests;
