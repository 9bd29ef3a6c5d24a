//! Linear layers and convolutions on Hopper's matrix units (`wgmma`): O[m, n] = sum over k of
//! A[m, k] W[n, k], f16 with f32 sums.
//!
//! The next K steps of both operands are copied into a ring in shared memory while warp groups of
//! 128 threads multiply out of it, each blocks of 64 rows by the whole width of the tile. Where a
//! multiprocessor holds several workgroups, they hide what one waits for, and all threads copy. A
//! single workgroup has a warp group that only copies, and makes one tile after another: see
//! `turns`.

use super::asm::{Asm, Entry, Reg, op};
use super::{MULTIPROCESSORS, PtxKernel};

mod copy;
mod epilogue;
mod operands;
mod turns;
mod vectors;

use super::ring::{COPIERS, barrier_bytes};
use copy::{Copies, Matrix, Pixels};
use epilogue::Lane;
use operands::Operands;
use vectors::Vectors;

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
    /// A tensor of the result's shape, after the factor.
    pub beside: Option<Join>,
    /// After what is beside.
    pub post: Act,
    /// With a gate, half of a tile's columns belong to the second half of W, and the result is the
    /// first half times the activated second half. Nothing is beside it then, and N is the width of
    /// the result.
    pub gate: Option<Act>,
}

/// How a tensor of the result's shape goes into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Join {
    /// A residual.
    Add,
    /// The other half of a gated layer.
    Multiply,
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
    pub const BESIDE_AT: usize = 5;
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

    /// Threads that compute.
    fn computing(&self) -> u32 {
        128 * self.groups
    }

    /// Threads that copy.
    fn copying(&self) -> u32 {
        if self.is_alone() {
            COPIERS
        } else {
            self.computing()
        }
    }

    fn threads(&self) -> u32 {
        self.computing() + if self.is_alone() { COPIERS } else { 0 }
    }

    /// Bytes of a row of a step.
    fn line(&self) -> u32 {
        self.bk * 2
    }

    fn stage_bytes(&self) -> u32 {
        (self.bm() + self.bn) * self.line()
    }

    fn ring_bytes(&self) -> u32 {
        self.stage_bytes() * self.stages
    }

    /// Bytes of shared memory.
    pub fn shared(&self) -> u32 {
        let behind = if self.is_alone() {
            barrier_bytes(self.stages) + 2 * self.vector_bytes()
        } else {
            0
        };
        self.ring_bytes() + behind
    }

    /// Bytes of a tile's vectors in shared memory.
    fn vector_bytes(&self) -> u32 {
        vectors::MOST * self.bn * 4
    }

    /// Whether no other workgroup of the multiprocessor keeps the matrix units busy.
    fn is_alone(&self) -> bool {
        self.per_sm == 1
    }

    /// The grid of a product of so many rows and so wide, the tile having `columns`: a workgroup
    /// for each tile, or as many as work at once, which then make one tile after another.
    pub fn grid(&self, rows: u32, columns: u32, width: u32) -> [u32; 2] {
        let [down, across] = [rows.div_ceil(self.bm()), width.div_ceil(columns)];
        let tiles = down.saturating_mul(across);
        if self.is_alone() {
            [tiles.min(MULTIPROCESSORS), 1]
        } else {
            [down, across]
        }
    }
}

/// Rows of tiles that workgroups take together: those at work at once then share about as many rows
/// as columns, and find them in the cache.
const BAND: u32 = 12;

/// The registers that every part of a kernel needs.
struct Frame {
    tile: Tile,
    tid: Reg,
    /// The number of a thread among those that copy.
    copier: Reg,
    shared: Reg,
    m: Reg,
    n: Reg,
    k: Reg,
    /// First row and column of the tile.
    m0: Reg,
    n0: Reg,
    /// Tiles down, and in all.
    down: Reg,
    tiles: Reg,
    /// Columns of a tile's result.
    columns: u32,
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
        let beside = match self.beside {
            Some(Join::Add) => "_residual",
            Some(Join::Multiply) => "_product",
            None => "",
        };
        let gate = self
            .gate
            .map_or(String::new(), |g| format!("_gate_{}", g.tag()));
        let (act, post) = (self.act.tag(), self.post.tag());
        format!("gemm_{tile}{window}{scale}{bias}{factor}{beside}_{act}_{post}{gate}")
    }

    /// The view of the bias: the scale's is before it.
    fn bias_view(&self) -> usize {
        3 + usize::from(self.scale)
    }

    fn factor_view(&self) -> usize {
        self.bias_view() + usize::from(self.bias)
    }

    fn beside_view(&self) -> usize {
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
        if tile.is_alone() {
            self.in_turns(&mut a, &frame);
        } else {
            frame.stay(&mut a);
            let sums = self.main_loop(&mut a, &frame);
            let lane = Lane::new(&mut a);
            let vectors = Vectors::read(self, &mut a, &frame, lane.of_four);
            self.epilogue(&mut a, &frame, (&lane, &vectors), &sums);
        }
        a.finish(Entry {
            name: &self.name(),
            target: "sm_90a",
            views: self.beside_view() + usize::from(self.beside.is_some()),
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
        let both = Both::new(self, a, f);
        let sums = zeros(a, tile);
        let operands = Operands::new(a, f);

        let (steps, next, write) = (a.b32(), a.b32(), a.b32());
        op!(a, "div.u32 {steps}, {k}, {}", tile.bk);
        op!(a, "mov.u32 {write}, 0");
        op!(a, "mov.u32 {next}, 0");
        let fill = |a: &mut Asm| {
            let (done, skip) = (a.pred(), a.label());
            op!(a, "setp.ge.u32 {done}, {next}, {steps}");
            op!(a, "@{done} bra {skip}");
            both.step(a, write);
            a.place(&skip);
            op!(a, "cp.async.commit_group");
            op!(a, "add.u32 {next}, {next}, 1");
            op!(a, "add.u32 {write}, {write}, {stage}");
            let wrap = a.pred();
            op!(a, "setp.eq.u32 {wrap}, {write}, {}", tile.ring_bytes());
            op!(a, "@{wrap} mov.u32 {write}, 0");
        };
        let ahead = tile.stages - 1;
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
        fill(a);
        operands.multiply(a, tile, read, &sums);
        op!(a, "wgmma.wait_group.sync.aligned 0");
        op!(a, "add.u64 {read}, {read}, {}", stage / 16);
        let (wrap, more) = (a.pred(), a.pred());
        op!(a, "setp.eq.u64 {wrap}, {read}, {}", tile.ring_bytes() / 16);
        op!(a, "@{wrap} mov.u64 {read}, 0");
        op!(a, "add.u32 {step}, {step}, 1");
        op!(a, "setp.lt.u32 {more}, {step}, {steps}");
        op!(a, "@{more} bra {again}");
        sums
    }
}

/// The copies of both operands by one thread.
struct Both {
    rows: Copies,
    weights: Copies,
    pixels: Option<Pixels>,
}

impl Both {
    fn new(kernel: &GemmKernel, a: &mut Asm, f: &Frame) -> Both {
        let tile = f.tile;
        let weights = Matrix {
            view: 2,
            at: None,
            first: f.n0,
            limit: f.n,
            rows: tile.bn,
            halves: kernel.gate.is_some(),
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
        let pixels = kernel.window.map(|window| Pixels::new(a, f, window));
        let rows = pixels.as_ref().map_or_else(
            || Copies::rows(a, f, rows, 0),
            |pixels| pixels.copies.clone(),
        );
        Both {
            rows,
            weights,
            pixels,
        }
    }

    /// Copies a step to `write` bytes into the ring, and moves on.
    fn step(&self, a: &mut Asm, write: Reg) {
        self.rows.step(a, write);
        self.weights.step(a, write);
        if let Some(pixels) = &self.pixels {
            pixels.step(a);
        }
    }
}

/// Sums of no products yet.
fn zeros(a: &mut Asm, tile: Tile) -> Vec<Vec<Reg>> {
    let sums: Vec<Vec<Reg>> = (0..tile.blocks)
        .map(|_| (0..tile.bn / 2).map(|_| a.f32()).collect())
        .collect();
    for sum in sums.iter().flatten() {
        op!(a, "mov.f32 {sum}, 0f00000000");
    }
    sums
}

impl Frame {
    fn new(a: &mut Asm, tile: Tile, columns: u32) -> Frame {
        let (m, n, k) = (a.word(word::M), a.word(word::N), a.word(word::K));
        let (m0, n0, tid, shared) = (a.b32(), a.b32(), a.b32(), a.b32());
        let [copier, down, tiles, across] = [a.b32(), a.b32(), a.b32(), a.b32()];
        op!(a, "mov.u32 {tid}, %tid.x");
        op!(a, "mov.u32 {shared}, shared");
        let before = tile.threads() - tile.copying();
        op!(a, "sub.u32 {copier}, {tid}, {before}");
        op!(a, "add.u32 {down}, {m}, {}", tile.bm() - 1);
        op!(a, "div.u32 {down}, {down}, {}", tile.bm());
        op!(a, "add.u32 {across}, {n}, {}", columns - 1);
        op!(a, "div.u32 {across}, {across}, {columns}");
        op!(a, "mul.lo.u32 {tiles}, {down}, {across}");
        Frame {
            tile,
            tid,
            copier,
            shared,
            m,
            n,
            k,
            m0,
            n0,
            down,
            tiles,
            columns,
        }
    }

    /// Sets the first row and column to those of the workgroup's one tile.
    fn stay(&self, a: &mut Asm) {
        let (m0, n0) = (self.m0, self.n0);
        op!(a, "mov.u32 {m0}, %ctaid.x");
        op!(a, "mul.lo.u32 {m0}, {m0}, {}", self.tile.bm());
        op!(a, "mov.u32 {n0}, %ctaid.y");
        op!(a, "mul.lo.u32 {n0}, {n0}, {}", self.columns);
    }

    /// Sets the first row and column to those of a tile by its number. Tiles are numbered band by
    /// band, and in a band column by column.
    fn go_to(&self, a: &mut Asm, number: Reg) {
        let [each, band, within, first, height] = [(); 5].map(|()| a.b32());
        let (m0, n0) = (self.m0, self.n0);
        // Tiles of a whole band.
        op!(a, "div.u32 {each}, {}, {}", self.tiles, self.down);
        op!(a, "mul.lo.u32 {each}, {each}, {BAND}");
        op!(a, "div.u32 {band}, {number}, {each}");
        op!(a, "mul.lo.u32 {within}, {band}, {each}");
        op!(a, "sub.u32 {within}, {number}, {within}");
        op!(a, "mul.lo.u32 {first}, {band}, {BAND}");
        op!(a, "sub.u32 {height}, {}, {first}", self.down);
        op!(a, "min.u32 {height}, {height}, {BAND}");
        op!(a, "div.u32 {n0}, {within}, {height}");
        op!(a, "mul.lo.u32 {m0}, {n0}, {height}");
        op!(a, "sub.u32 {m0}, {within}, {m0}");
        op!(a, "add.u32 {m0}, {m0}, {first}");
        op!(a, "mul.lo.u32 {m0}, {m0}, {}", self.tile.bm());
        op!(a, "mul.lo.u32 {n0}, {n0}, {}", self.columns);
    }
}

#[cfg(test)]
mod tests;
