//! Scores become weights in pairs of bf16, two keys at a time.

#[cfg(target_arch = "x86_64")]
pub(super) use x86::weigh;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::super::columns::{Softmax, column_max};
    use crate::gemm::micro::PANEL;
    use crate::gemm::pairs::pair;
    use crate::simd::avx512::Avx512;
    use crate::simd::math;

    /// As [`weigh`](super::super::columns::weigh), with scores that are multiplied with `scale`
    /// here. Weights are left as pairs `[keys / 2][PANEL]` where the scores were.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")]
    pub(crate) unsafe fn weigh(t: &Softmax, scale: f32) {
        for lane in (0..PANEL).step_by(16) {
            let (scores, by) = (t.scores.add(lane), _mm512_set1_ps(scale));
            let lowest = _mm512_set1_ps(f32::NEG_INFINITY);
            let most = column_max::<Avx512>(scores, t.keys, lowest);
            let before = _mm512_loadu_ps(t.largest.add(lane));
            let most = _mm512_max_ps(before, _mm512_mul_ps(most, by));
            // A query that is masked in full is shifted by a finite number, so that no NaN arises.
            let shift = _mm512_max_ps(most, _mm512_set1_ps(f32::MIN));
            let sum = column_exp(scores, t.keys, by, shift);
            _mm512_storeu_ps(t.largest.add(lane), most);
            let total = _mm512_loadu_ps(t.total.add(lane));
            // This is rare, since the largest score is mostly found in an early block.
            if _mm512_cmp_ps_mask::<_CMP_GT_OQ>(shift, before) != 0 {
                let keep = math::exp2_falling::<Avx512>(_mm512_sub_ps(before, shift));
                let total = _mm512_fmadd_ps(total, keep, sum);
                _mm512_storeu_ps(t.total.add(lane), total);
                for d in 0..t.hd {
                    let out = t.out.add(d * PANEL + lane);
                    _mm512_storeu_ps(out, _mm512_mul_ps(_mm512_loadu_ps(out), keep));
                }
            } else {
                _mm512_storeu_ps(t.total.add(lane), _mm512_add_ps(total, sum));
            }
        }
    }

    /// Replaces a column of vectors by pairs of 2^(x scale - shift) and gives the sums. A row of
    /// pairs is written where both of its scores have been read.
    #[inline(always)]
    unsafe fn column_exp(scores: *mut f32, keys: usize, scale: __m512, shift: __m512) -> __m512 {
        let mut sum = [_mm512_setzero_ps(); 2];
        for i in 0..keys / 2 {
            let lo = weight(scores.add(2 * i * PANEL), scale, shift);
            let hi = weight(scores.add((2 * i + 1) * PANEL), scale, shift);
            sum = [_mm512_add_ps(sum[0], lo), _mm512_add_ps(sum[1], hi)];
            _mm512_storeu_ps(scores.add(i * PANEL), pair(lo, hi));
        }
        if keys % 2 == 1 {
            let last = weight(scores.add((keys - 1) * PANEL), scale, shift);
            sum[0] = _mm512_add_ps(sum[0], last);
            let pairs = pair(last, _mm512_setzero_ps());
            _mm512_storeu_ps(scores.add(keys / 2 * PANEL), pairs);
        }
        _mm512_add_ps(sum[0], sum[1])
    }

    #[inline(always)]
    unsafe fn weight(score: *const f32, scale: __m512, shift: __m512) -> __m512 {
        exp2(_mm512_fmsub_ps(_mm512_loadu_ps(score), scale, shift))
    }

    /// As [`math::exp2_coarse`], but the polynomial is for fractions from 0 to 1, not from -1/2 to
    /// 1/2. Nothing needs to be clamped, because `vscalefps` gives 0 for what is too small, -inf
    /// included.
    #[inline(always)]
    unsafe fn exp2(x: __m512) -> __m512 {
        let fraction = _mm512_reduce_ps::<{ _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC }>(x);
        let mut p = _mm512_set1_ps(7.802_397e-2);
        p = _mm512_fmadd_ps(p, fraction, _mm512_set1_ps(2.260_670_3e-1));
        p = _mm512_fmadd_ps(p, fraction, _mm512_set1_ps(6.958_341e-1));
        p = _mm512_fmadd_ps(p, fraction, _mm512_set1_ps(9.999_251e-1));
        _mm512_scalef_ps(p, x)
    }
}

/// As x86's, in two passes: weights in f32 first.
#[cfg(not(target_arch = "x86_64"))]
pub(super) unsafe fn weigh(t: &super::columns::Softmax, scale: f32) {
    use super::columns;
    use crate::gemm::micro::PANEL;
    use crate::gemm::pairs::interleave_f32;
    use crate::simd::Level;

    let level = Level::best();
    columns::scale(level, t.scores, t.keys * PANEL, scale);
    columns::weigh(level, t);
    interleave_f32(t.scores, PANEL, t.keys, t.scores);
}
