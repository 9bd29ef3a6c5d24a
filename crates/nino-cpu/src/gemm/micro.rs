//! The register-tile kernel under every matrix product, convolution and attention.
//!
//! A is read from a pack of rows [`LDA`] slots apart, in segments of at most [`SEG`] slots: a
//! matrix product packs its k range into consecutive segments, a convolution has one segment per
//! filter tap, all pointing into one copy of the input. B is a panel `[slots][PANEL]`, C an f32
//! scratch. The constant row distance lets every A element be a broadcast with a fixed
//! displacement. A slot is an f32 or a pair of bf16 ([`Slot`]); pointers to slots are `*const f32`
//! in both cases.

use super::pairs;
use super::slot::Slot;
use crate::simd::{Level, Simd, dispatch};

/// Columns of a B panel.
pub(crate) const PANEL: usize = 32;
/// Most slots of one segment of A.
pub(crate) const SEG: usize = 128;
/// Slots between two rows of an A pack; not a power of two, so that rows fall in different sets.
pub(crate) const LDA: usize = SEG + 16;

/// One B panel against many rows of A.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    pub slot: Slot,
    pub a: *const f32,
    /// Start of each segment, in slots from `a`.
    pub segments: &'a [usize],
    /// Slots of every segment but the last, which has what remains of `k`.
    pub segment_len: usize,
    /// Slots in all.
    pub k: usize,
    pub b: *const f32,
    pub c: *mut f32,
    pub ldc: usize,
    pub rows: usize,
    /// The columns to compute. C must have room for whole vectors.
    pub cols: usize,
    /// Whether the product is added to what C holds.
    pub accumulate: bool,
}

/// Computes C = A B, or C += A B with `accumulate`.
pub(crate) unsafe fn block(level: Level, t: &Block<'_>) {
    match t.slot {
        Slot::F32 => block_f32(level, t),
        Slot::Pair => pairs::block(t),
    }
}

/// How slots are multiplied.
pub(crate) trait Multiply<S: Simd> {
    /// Gives `c` and the products of the slots' values.
    ///
    /// # Safety
    /// The CPU must have the instructions.
    unsafe fn add_product(a: S::V, b: S::V, c: S::V) -> S::V;
}

/// Multiplies slots that are f32.
struct Values;

impl<S: Simd> Multiply<S> for Values {
    #[inline(always)]
    unsafe fn add_product(a: S::V, b: S::V, c: S::V) -> S::V {
        S::fma(a, b, c)
    }
}

dispatch! { fn block_f32(t: &Block<'_>) = block_f32_impl }

#[inline(always)]
unsafe fn block_f32_impl<S: Simd>(t: &Block<'_>) {
    block_impl::<S, Values>(t);
}

#[inline(always)]
pub(super) unsafe fn block_impl<S: Simd, M: Multiply<S>>(t: &Block<'_>) {
    let step = S::NV * S::LANES;
    let mut col = 0;
    while col < t.cols {
        let nv = (t.cols - col).div_ceil(S::LANES).min(S::NV);
        let tiles = t.rows.div_ceil(S::MR);
        let mut row = 0;
        for i in 0..tiles {
            // Tiles have even heights, because two of 8 keep the pipeline fuller than 14 and 2.
            let end = (i + 1) * t.rows / tiles;
            let sub = Block {
                a: t.a.add(row * LDA),
                b: t.b.add(col),
                c: t.c.add(row * t.ldc + col),
                ..*t
            };
            tile::<S, M>(nv, end - row, &sub);
            row = end;
        }
        col += step;
    }
}

macro_rules! heights {
    ($s:ty, $m:ty, $nv:literal, $rows:expr, $t:expr; $($mr:literal)*) => {
        match $rows {
            $($mr if $mr <= <$s>::MR => micro::<$s, $m, $mr, $nv>($t),)*
            _ => unreachable!("a tile has at most MR rows"),
        }
    };
}

#[inline(always)]
unsafe fn tile<S: Simd, M: Multiply<S>>(nv: usize, rows: usize, t: &Block<'_>) {
    match nv {
        1 => heights!(S, M, 1, rows, t; 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
        2 => heights!(S, M, 2, rows, t; 1 2 3 4 5 6 7 8 9 10 11 12 13 14),
        3 if S::NV > 2 => heights!(S, M, 3, rows, t; 1 2 3 4 5 6),
        _ if S::NV > 2 => heights!(S, M, 4, rows, t; 1 2 3 4 5 6),
        _ => unreachable!("a tile has at most NV vectors"),
    }
}

#[inline(always)]
unsafe fn micro<S: Simd, M: Multiply<S>, const MR: usize, const NV: usize>(t: &Block<'_>) {
    let mut acc = [[S::zero(); NV]; MR];
    if t.accumulate {
        for i in 0..MR {
            for j in 0..NV {
                acc[i][j] = S::load(t.c.add(i * t.ldc + j * S::LANES));
            }
        }
    }
    let mut b = t.b;
    let mut left = t.k;
    for &segment in t.segments {
        let mut a = t.a.add(segment);
        let len = left.min(t.segment_len);
        left -= len;
        for _ in 0..len {
            let mut bv = [S::zero(); NV];
            for j in 0..NV {
                bv[j] = S::load(b.add(j * S::LANES));
            }
            for i in 0..MR {
                let av = S::splat(*a.add(i * LDA));
                for j in 0..NV {
                    acc[i][j] = M::add_product(av, bv[j], acc[i][j]);
                }
            }
            a = a.add(1);
            b = b.add(PANEL);
        }
    }
    for i in 0..MR {
        for j in 0..NV {
            S::store(t.c.add(i * t.ldc + j * S::LANES), acc[i][j]);
        }
    }
}
