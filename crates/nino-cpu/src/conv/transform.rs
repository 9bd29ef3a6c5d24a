//! Winograd's minimal filtering F(4×4, 3×3): the transforms of input tiles, filters and sums.
//!
//! Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (2015), with the points of
//! `points`. 36 products make 16 outputs instead of 144.

use super::points::{Integers, Interpolation};
use crate::gemm::micro::PANEL;
use crate::simd::{Simd, dispatch};

/// Products per tile.
pub(crate) const POINTS: usize = 36;
/// Outputs per tile and axis.
pub(crate) const OUT: usize = 4;
/// Inputs per tile and axis.
pub(crate) const IN: usize = 6;

dispatch! {
    /// Transforms one 6×6 tile of `n` channels. Its rows begin at `rows`, with pixels `pixel`
    /// floats apart; the result is 36 rows `point` floats apart. Whole vectors are read and
    /// written.
    pub(crate) fn input(rows: &[*const f32; 6], pixel: usize, n: usize, dst: *mut f32, point: usize) = input_impl
}

#[inline(always)]
unsafe fn input_impl<S: Simd>(
    rows: &[*const f32; 6],
    pixel: usize,
    n: usize,
    dst: *mut f32,
    point: usize,
) {
    input_at::<S, Integers>(rows, pixel, n, dst, point);
}

#[inline(always)]
pub(super) unsafe fn input_at<S: Simd, P: Interpolation>(
    rows: &[*const f32; 6],
    pixel: usize,
    n: usize,
    dst: *mut f32,
    point: usize,
) {
    let mut c = 0;
    while c < n {
        let mut half = [[S::zero(); 6]; 6];
        for x in 0..6 {
            let mut column = [S::zero(); 6];
            for y in 0..6 {
                column[y] = S::load(rows[y].add(x * pixel + c));
            }
            let column = P::input::<S>(column);
            for y in 0..6 {
                half[y][x] = column[y];
            }
        }
        for y in 0..6 {
            let row = P::input::<S>(half[y]);
            for x in 0..6 {
                S::store(dst.add((y * 6 + x) * point + c), row[x]);
            }
        }
        c += S::LANES;
    }
}

dispatch! {
    /// Transforms filters `[9][n][PANEL]`, with taps `tap` values apart, to 36 pieces of
    /// `[n][PANEL]` that are `point` floats apart.
    pub(crate) fn filter(src: *const f32, tap: usize, n: usize, dst: *mut f32, point: usize) = filter_f32
}
dispatch! {
    /// As [`filter`], from f16.
    pub(crate) fn filter_from_f16(src: *const u16, tap: usize, n: usize, dst: *mut f32, point: usize) = filter_f16
}
dispatch! {
    /// As [`filter`], from bf16.
    pub(crate) fn filter_from_bf16(src: *const u16, tap: usize, n: usize, dst: *mut f32, point: usize) = filter_bf16
}

/// How filters are stored.
pub(super) trait Stored {
    type Value;
    /// Loads a vector of values.
    ///
    /// # Safety
    /// They must be there, and the CPU must have the level.
    unsafe fn load<S: Simd>(p: *const Self::Value) -> S::V;
}

macro_rules! stored {
    ($name:ident, $value:ty, $load:ident, $filter:ident) => {
        pub(super) struct $name;

        impl Stored for $name {
            type Value = $value;

            #[inline(always)]
            unsafe fn load<S: Simd>(p: *const $value) -> S::V {
                S::$load(p)
            }
        }

        #[inline(always)]
        unsafe fn $filter<S: Simd>(
            src: *const $value,
            tap: usize,
            n: usize,
            dst: *mut f32,
            point: usize,
        ) {
            filter_impl::<S, $name>(src, tap, n, dst, point);
        }
    };
}

stored! { F32, f32, load, filter_f32 }
stored! { F16, u16, load_f16, filter_f16 }
stored! { Bf16, u16, load_bf16, filter_bf16 }

#[inline(always)]
unsafe fn filter_impl<S: Simd, F: Stored>(
    src: *const F::Value,
    tap: usize,
    n: usize,
    dst: *mut f32,
    point: usize,
) {
    let mut i = 0;
    while i < n * PANEL {
        let mut half = [[S::zero(); 3]; 6];
        for x in 0..3 {
            let column = [
                F::load::<S>(src.add(x * tap + i)),
                F::load::<S>(src.add((3 + x) * tap + i)),
                F::load::<S>(src.add((6 + x) * tap + i)),
            ];
            let column = Integers::filter::<S>(column);
            for y in 0..6 {
                half[y][x] = column[y];
            }
        }
        for y in 0..6 {
            let row = Integers::filter::<S>(half[y]);
            for x in 0..6 {
                S::store(dst.add((y * 6 + x) * point + i), row[x]);
            }
        }
        i += S::LANES;
    }
}

dispatch! {
    /// Transforms the sums of one tile, 36 rows `point` floats apart, to 4×4 pixels of `n`
    /// channels. Pixels are [`PANEL`] floats apart, and rows `row`.
    pub(crate) fn output(src: *const f32, point: usize, n: usize, dst: *mut f32, row: usize) = output_impl
}

#[inline(always)]
unsafe fn output_impl<S: Simd>(src: *const f32, point: usize, n: usize, dst: *mut f32, row: usize) {
    output_at::<S, Integers>(src, point, n, dst, row);
}

#[inline(always)]
pub(super) unsafe fn output_at<S: Simd, P: Interpolation>(
    src: *const f32,
    point: usize,
    n: usize,
    dst: *mut f32,
    row: usize,
) {
    let mut c = 0;
    while c < n {
        let mut half = [[S::zero(); 6]; 4];
        for x in 0..6 {
            let mut column = [S::zero(); 6];
            for y in 0..6 {
                column[y] = S::load(src.add((y * 6 + x) * point + c));
            }
            let column = P::output::<S>(column);
            for y in 0..4 {
                half[y][x] = column[y];
            }
        }
        for y in 0..4 {
            let out = P::output::<S>(half[y]);
            for x in 0..4 {
                S::store(dst.add(y * row + x * PANEL + c), out[x]);
            }
        }
        c += S::LANES;
    }
}
