//! The transforms that end in int16, of vectors of 512 bits.
//! The contract of its functions is that of [`super`]'s buffers.

use std::arch::x86_64::*;

use super::super::points::{Fractions, Interpolation};
use super::super::transform::{self, IN, POINTS, Stored};
use super::{Filters, Tile};
use crate::gemm::micro::{LDA, PANEL};
use crate::simd::avx512::Avx512;

const LANES: usize = 16;
const INT16: f32 = 32767.0;
/// The norms that rows and columns are scaled to. Rounding adds at most 6 to the norm of 128
/// values, and (32750 + 6) × (65500 + 6) is less than 2³¹. A row with this norm has no value
/// beyond an int16, so that only columns look at their largest.
const ROW_NORM: f32 = 32750.0;
const COLUMN_NORM: f32 = 65500.0;
/// Sums of squares below this are taken for zero, as their inverse may be infinite.
const TINY: f32 = 1e-30;

fn lanes(n: usize) -> u16 {
    ((1u32 << n.min(LANES)) - 1) as u16
}

/// Gives a product that fits into an int16, rounded, in the low half of each lane. In floats from
/// 2²³ to 2²⁴ the last bit is a one, so one addition rounds.
#[inline(always)]
unsafe fn round(value: __m512, scale: __m512) -> __m512i {
    const ONES: f32 = 12_582_912.0;
    _mm512_castps_si512(_mm512_fmadd_ps(value, scale, _mm512_set1_ps(ONES)))
}

/// Transforms one 6×6 tile of `n` channels, whose pixels are [`LDA`] floats apart, by way of
/// `work`.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub(super) unsafe fn transform_tile(rows: &[*const f32; IN], n: usize, work: *mut f32, to: &Tile) {
    transform::input_at::<Avx512, Fractions>(rows, LDA, n, work, LDA);
    match n.div_ceil(2 * LANES) {
        1 => quantize::<1>(work, n, to),
        2 => quantize::<2>(work, n, to),
        3 => quantize::<3>(work, n, to),
        _ => quantize::<4>(work, n, to),
    }
}

/// Rounds 36 rows of at most `V` pairs of vectors.
#[inline(always)]
unsafe fn quantize<const V: usize>(work: *const f32, n: usize, to: &Tile) {
    let evens = _mm512_set_epi16(
        62, 60, 58, 56, 54, 52, 50, 48, 46, 44, 42, 40, 38, 36, 34, 32, 30, 28, 26, 24, 22, 20, 18,
        16, 14, 12, 10, 8, 6, 4, 2, 0,
    );
    let last = [
        lanes(n - (V - 1) * 2 * LANES),
        lanes((n - (V - 1) * 2 * LANES).saturating_sub(LANES)),
    ];
    for p in 0..POINTS {
        let row = work.add(p * LDA);
        let mut values = [[_mm512_setzero_ps(); 2]; V];
        let mut sums = [_mm512_setzero_ps(); 2];
        for i in 0..V {
            for j in 0..2 {
                let from = row.add((2 * i + j) * LANES);
                values[i][j] = if i + 1 == V {
                    _mm512_maskz_loadu_ps(last[j], from)
                } else {
                    _mm512_loadu_ps(from)
                };
                sums[j] = _mm512_fmadd_ps(values[i][j], values[i][j], sums[j]);
            }
        }
        let sum = _mm512_reduce_add_ps(_mm512_add_ps(sums[0], sums[1]));
        let (scale, unit) = if sum < TINY {
            (0.0, 0.0)
        } else {
            let norm = sum.sqrt();
            (ROW_NORM / norm, norm * (1.0 / ROW_NORM))
        };
        *to.scales.add(p * to.scales_point) = unit;
        let scale = _mm512_set1_ps(scale);
        let dst = to.at.add(p * to.point);
        for i in 0..V {
            let (low, high) = (round(values[i][0], scale), round(values[i][1], scale));
            let both = _mm512_permutex2var_epi16(low, evens, high);
            _mm512_storeu_si512(dst.add(i * LANES).cast(), both);
        }
    }
}

/// Transforms the sums of one tile, 36 rows `point` floats apart, as [`transform::output`] does.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub(super) unsafe fn transform_sums(
    src: *const f32,
    point: usize,
    n: usize,
    dst: *mut f32,
    row: usize,
) {
    transform::output_at::<Avx512, Fractions>(src, point, n, dst, row);
}

/// Transforms filters `[9][n][PANEL]` to their 36 panels.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
pub(super) unsafe fn transform_filters<F: Stored>(src: *const F::Value, n: usize, to: &Filters) {
    for half in 0..PANEL / LANES {
        let src = src.add(half * LANES);
        let scales = scales::<F>(src, n, to.scales.add(half * LANES));
        let dst = to.at.add(half * LANES);
        for i in 0..n / 2 {
            filters_pair::<F, true>(src, n, 2 * i, &scales, dst.add(i * PANEL), to.point);
        }
        if n % 2 == 1 {
            filters_pair::<F, false>(src, n, n - 1, &scales, dst.add(n / 2 * PANEL), to.point);
        }
    }
}

/// Finds by what the 36 products' filters of a vector of columns are multiplied to become integers,
/// and writes what a one of them stands for.
///
/// A norm over the channels of transformed filters is at most the sum of the taps' norms, times the
/// transform's factors without their signs, and likewise the largest value. This bound is about
/// twice what it bounds, but the norms of nine taps cost a quarter of those of 36 products.
#[inline(always)]
unsafe fn scales<F: Stored>(src: *const F::Value, n: usize, units: *mut f32) -> [__m512; POINTS] {
    let mut squares = [_mm512_setzero_ps(); 9];
    let mut most = [_mm512_setzero_ps(); 9];
    for c in 0..n {
        for tap in 0..9 {
            let value = F::load::<Avx512>(src.add((tap * n + c) * PANEL));
            squares[tap] = _mm512_fmadd_ps(value, value, squares[tap]);
            // The larger of two magnitudes.
            most[tap] = _mm512_range_ps::<0b1011>(value, most[tap]);
        }
    }
    for tap in 0..9 {
        squares[tap] = _mm512_sqrt_ps(squares[tap]);
    }
    let norms = bounds(squares);
    let most = bounds(most);
    let mut scales = [_mm512_setzero_ps(); POINTS];
    for p in 0..POINTS {
        let by_norm = _mm512_div_ps(_mm512_set1_ps(COLUMN_NORM), norms[p]);
        let by_most = _mm512_div_ps(_mm512_set1_ps(INT16), most[p]);
        let some = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(norms[p], _mm512_set1_ps(TINY));
        scales[p] = _mm512_maskz_min_ps(some, by_most, by_norm);
        let unit = _mm512_maskz_div_ps(some, _mm512_set1_ps(1.0), scales[p]);
        _mm512_storeu_ps(units.add(p * PANEL), unit);
    }
    scales
}

/// Transforms what is not negative with the factors' magnitudes: of two opposite points, the
/// positive one adds all it has.
#[inline(always)]
unsafe fn bounds(taps: [__m512; 9]) -> [__m512; POINTS] {
    let mut half = [[_mm512_setzero_ps(); 3]; IN];
    for x in 0..3 {
        let column = Fractions::filter::<Avx512>([taps[x], taps[3 + x], taps[6 + x]]);
        for y in 0..IN {
            half[y][x] = column[POSITIVE[y]];
        }
    }
    let mut all = [_mm512_setzero_ps(); POINTS];
    for y in 0..IN {
        let row = Fractions::filter::<Avx512>(half[y]);
        for x in 0..IN {
            all[y * IN + x] = row[POSITIVE[x]];
        }
    }
    all
}

const POSITIVE: [usize; IN] = [0, 1, 1, 3, 3, 5];

/// Transforms channel `c` and, if `TWO`, the next to a slot of each panel.
#[inline(always)]
unsafe fn filters_pair<F: Stored, const TWO: bool>(
    src: *const F::Value,
    n: usize,
    c: usize,
    scales: &[__m512; POINTS],
    dst: *mut i32,
    point: usize,
) {
    let mut halves = [[[_mm512_setzero_ps(); 3]; IN]; 2];
    for i in 0..=usize::from(TWO) {
        for x in 0..3 {
            let mut taps = [_mm512_setzero_ps(); 3];
            for y in 0..3 {
                taps[y] = F::load::<Avx512>(src.add(((3 * y + x) * n + c + i) * PANEL));
            }
            let column = Fractions::filter::<Avx512>(taps);
            for y in 0..IN {
                halves[i][y][x] = column[y];
            }
        }
    }
    for y in 0..IN {
        let low = Fractions::filter::<Avx512>(halves[0][y]);
        let high = Fractions::filter::<Avx512>(halves[1][y]);
        for x in 0..IN {
            let p = y * IN + x;
            let low = round(low[x], scales[p]);
            let both = if TWO {
                let high = _mm512_slli_epi32::<16>(round(high[x], scales[p]));
                _mm512_mask_blend_epi16(0xaaaa_aaaa, low, high)
            } else {
                _mm512_maskz_mov_epi16(0x5555_5555, low)
            };
            _mm512_storeu_si512(dst.add(p * point).cast(), both);
        }
    }
}
