//! The vector parts of attention, over columns of scores `[keys][PANEL queries]`.

use crate::gemm::micro::PANEL;
use crate::simd::{Simd, dispatch, math};

dispatch! { pub(super) fn scale(values: *mut f32, n: usize, by: f32) = scale_impl }

/// Multiplies `n` values, a multiple of the lanes, by `by`.
#[inline(always)]
unsafe fn scale_impl<S: Simd>(values: *mut f32, n: usize, by: f32) {
    let by = S::splat(by);
    let mut i = 0;
    while i < n {
        S::store(values.add(i), S::mul(S::load(values.add(i)), by));
        i += S::LANES;
    }
}

dispatch! {
    /// Writes the transpose of `rows x cols` values, both multiples of the lanes.
    pub(super) fn turn(src: *const f32, ld: usize, size: [usize; 2], dst: *mut f32, dst_ld: usize) = turn_impl
}

#[inline(always)]
unsafe fn turn_impl<S: Simd>(
    src: *const f32,
    ld: usize,
    [rows, cols]: [usize; 2],
    dst: *mut f32,
    dst_ld: usize,
) {
    let mut i = 0;
    while i < rows {
        let mut j = 0;
        while j < cols {
            S::transpose(src.add(i * ld + j), ld, dst.add(j * dst_ld + i), dst_ld);
            j += S::LANES;
        }
        i += S::LANES;
    }
}

/// One block of a panel's scores, in units of log2. [`weigh`] turns them into weights, and rescales
/// the sums over earlier blocks where the largest score has grown.
pub(super) struct Softmax {
    pub(super) scores: *mut f32,
    pub(super) keys: usize,
    pub(super) largest: *mut f32,
    pub(super) total: *mut f32,
    pub(super) out: *mut f32,
    pub(super) hd: usize,
}

dispatch! { pub(super) fn weigh(t: &Softmax) = weigh_impl }

#[inline(always)]
unsafe fn weigh_impl<S: Simd>(t: &Softmax) {
    let mut lane = 0;
    while lane < PANEL {
        let scores = t.scores.add(lane);
        let before = S::load(t.largest.add(lane));
        let most = column_max::<S>(scores, t.keys, before);
        // A query that is masked in full keeps -inf, and is shifted by a finite number so that no
        // NaN arises.
        let shift = S::max(most, S::splat(f32::MIN));
        let sum = column_exp::<S>(scores, t.keys, shift);
        S::store(t.largest.add(lane), most);
        let total = S::load(t.total.add(lane));
        // This is rare, since the largest score is mostly found in an early block.
        if S::hmax(S::sub(shift, before)) > 0.0 {
            let keep = math::exp2_falling::<S>(S::sub(before, shift));
            S::store(t.total.add(lane), S::fma(total, keep, sum));
            for d in 0..t.hd {
                let out = t.out.add(d * PANEL + lane);
                S::store(out, S::mul(S::load(out), keep));
            }
        } else {
            S::store(t.total.add(lane), S::add(total, sum));
        }
        lane += S::LANES;
    }
}

// These two use no closures: a closure keeps its own target features unless it is inlined.
#[inline(always)]
pub(super) unsafe fn column_max<S: Simd>(scores: *const f32, keys: usize, start: S::V) -> S::V {
    let mut most = [start; 4];
    let whole = keys - keys % 4;
    let mut key = 0;
    while key < whole {
        for i in 0..4 {
            most[i] = S::max(most[i], S::load(scores.add((key + i) * PANEL)));
        }
        key += 4;
    }
    while key < keys {
        most[0] = S::max(most[0], S::load(scores.add(key * PANEL)));
        key += 1;
    }
    S::max(S::max(most[0], most[1]), S::max(most[2], most[3]))
}

/// Replaces a column of vectors by 2^(x - shift) and gives the sums.
#[inline(always)]
unsafe fn column_exp<S: Simd>(scores: *mut f32, keys: usize, shift: S::V) -> S::V {
    let mut sum = [S::zero(); 2];
    let whole = keys - keys % 2;
    let mut key = 0;
    while key < whole {
        for i in 0..2 {
            let p = scores.add((key + i) * PANEL);
            let e = math::exp2_falling::<S>(S::sub(S::load(p), shift));
            S::store(p, e);
            sum[i] = S::add(sum[i], e);
        }
        key += 2;
    }
    if key < keys {
        let p = scores.add(key * PANEL);
        let e = math::exp2_falling::<S>(S::sub(S::load(p), shift));
        S::store(p, e);
        sum[0] = S::add(sum[0], e);
    }
    S::add(sum[0], sum[1])
}

dispatch! {
    /// Divides `[n][PANEL]` values by a row of [`PANEL`] totals.
    pub(super) fn divide(values: *mut f32, n: usize, totals: *const f32) = divide_impl
}

#[inline(always)]
unsafe fn divide_impl<S: Simd>(values: *mut f32, n: usize, totals: *const f32) {
    let mut lane = 0;
    while lane < PANEL {
        let by = S::div(S::splat(1.0), S::load(totals.add(lane)));
        for i in 0..n {
            let p = values.add(i * PANEL + lane);
            S::store(p, S::mul(S::load(p), by));
        }
        lane += S::LANES;
    }
}
