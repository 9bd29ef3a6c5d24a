//! Convolutions over channels-last images and videos.
//!
//! Both ways copy a piece of the input, enlarged, normalized and padded, into a cache-sized region
//! (`region`) and read it with the register-tile kernel: `direct` with one segment per filter tap,
//! `winograd` after transforming 6×6 tiles, and `fixed` does so in int16. A 1×1 convolution is a
//! linear layer over its pixels.
//!
//! # Safety
//!
//! Beyond the crate's contract: a [`Geometry`] is that of the tensors in the [`Conv`], and
//! `readable` covers every input row that the step's output rows depend on. Regions, tiles and sums
//! are scratch of the running thread with the sizes that `scratch_bytes` counted. Pixels there are
//! `LDA` or `PANEL` floats apart, so that whole vectors may be read and written at each.

// Nearly every expression here is an unsafe operation under the contract above, so blocks around
// each would say nothing and hide the arithmetic.
#![allow(unsafe_op_in_unsafe_fn)]

pub(crate) mod direct;
pub(crate) mod fixed;
mod points;
pub(crate) mod region;
pub(crate) mod transform;
pub(crate) mod winograd;

#[cfg(test)]
mod tests;

use std::ops::Range;

use nino_dtype::DType;

use crate::gemm::epilogue::Epilogue;
use crate::gemm::int16;
use crate::gemm::linear::{self, Factor, Linear};
use crate::gemm::pairs;
use crate::gemm::prologue::Source;
use crate::gemm::slot::Slot;
use crate::gemm::weights::Packed;
use crate::simd::Level;
use crate::team::Team;

/// Sizes of a convolution; a 2-D one has one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// `[t, h, w]` of the input, before it is enlarged.
    pub input: [usize; 3],
    /// `[t, h, w]`
    pub output: [usize; 3],
    /// `[kt, kh, kw]`
    pub window: [usize; 3],
    pub stride: [usize; 3],
    pub pad_top: usize,
    pub pad_left: usize,
    /// `[h, w]`
    pub dilation: [usize; 2],
    pub upsample: usize,
}

pub(crate) struct Conv<'a> {
    pub geometry: Geometry,
    pub source: Source,
    /// Input rows, counted over frames, that are in memory. A Winograd tile reaches beyond the rows
    /// a step needs; what is not there counts as zero and cancels.
    pub readable: Range<usize>,
    pub weights: &'a Packed,
    pub epilogue: Epilogue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Pointwise,
    Direct,
    Winograd,
    /// Winograd with products in int16.
    Fixed,
}

/// How factors may be rounded on the way to a product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rounding {
    slot: Slot,
    int16: bool,
}

impl Rounding {
    /// Gives what is faster for activations of a type, and as exact as they are.
    pub(crate) fn of(level: Level, activations: DType) -> Rounding {
        Rounding {
            slot: Slot::of(level, activations),
            int16: activations == DType::BF16 && int16::supported(level),
        }
    }
}

impl Geometry {
    /// Gives the method that is faster for these sizes.
    pub(crate) fn method(&self, rounding: Rounding, cin: usize) -> Method {
        let g = self;
        if g.window == [1; 3] && g.stride == [1; 3] && g.upsample == 1 && g.input == g.output {
            return Method::Pointwise;
        }
        let square = g.window[1..] == [3, 3] && g.stride == [1; 3] && g.dilation == [1; 2];
        let [_, h, w] = g.output;
        // Winograd needs a quarter of the products, which is faster than pairs of bf16 by vectors.
        // In bf16 it would not be exact enough, in int16 it is. Tiles are faster still.
        let tiles = rounding.slot == Slot::Pair && pairs::by_tiles();
        if !square || cin < 32 || h < 4 || w < 4 || tiles {
            Method::Direct
        } else if rounding.int16 {
            Method::Fixed
        } else {
            Method::Winograd
        }
    }
}

/// Gives the bytes of scratch that each thread needs.
pub(crate) fn scratch_bytes(
    level: Level,
    activations: DType,
    g: &Geometry,
    weights: &Packed,
) -> usize {
    let rounding = Rounding::of(level, activations);
    let slot = rounding.slot;
    match g.method(rounding, weights.cin) {
        Method::Pointwise => linear::scratch_bytes(level, slot, &Factor::Weights(weights)),
        Method::Direct => direct::scratch_bytes(slot, g, weights),
        Method::Winograd => winograd::scratch_bytes(g, weights),
        Method::Fixed => fixed::scratch_bytes(g, weights),
    }
}

/// Computes image rows `rows` of the output, counted over batch, frames and height.
pub(crate) unsafe fn run(team: &Team<'_>, conv: &Conv<'_>, rows: Range<usize>) {
    let g = &conv.geometry;
    let rounding = Rounding::of(team.level, conv.source.x.dtype);
    match g.method(rounding, conv.weights.cin) {
        Method::Pointwise => {
            let [t, h, w] = g.output;
            let linear = Linear {
                source: conv.source,
                b: Factor::Weights(conv.weights),
                epilogue: conv.epilogue,
                rows_per_batch: t * h * w,
            };
            linear::run(team, &linear, rows.start * w..rows.end * w);
        }
        Method::Direct => direct::run(team, rounding.slot, conv, rows),
        Method::Winograd => winograd::run(team, conv, rows),
        Method::Fixed => fixed::run(team, conv, rows),
    }
}
