//! AVX2 with FMA and F16C: 8 lanes, 16 registers.
//! The contract of its functions is that of [`Simd`].

use std::arch::x86_64::*;

use super::Simd;

#[derive(Clone, Copy)]
pub(crate) struct Avx2;

#[inline(always)]
unsafe fn mask(n: usize) -> __m256i {
    let lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    _mm256_cmpgt_epi32(_mm256_set1_epi32(n as i32), lane)
}

#[inline(always)]
unsafe fn halves(a: __m256) -> (__m128, __m128) {
    (_mm256_castps256_ps128(a), _mm256_extractf128_ps::<1>(a))
}

impl Simd for Avx2 {
    type V = __m256;
    const LANES: usize = 8;
    const MR: usize = 6;
    const NV: usize = 2;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m256 {
        _mm256_set1_ps(x)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m256 {
        _mm256_loadu_ps(p)
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m256) {
        _mm256_storeu_ps(p, v);
    }
    #[inline(always)]
    unsafe fn load_n(p: *const f32, n: usize) -> __m256 {
        _mm256_maskload_ps(p, mask(n))
    }
    #[inline(always)]
    unsafe fn store_n(p: *mut f32, v: __m256, n: usize) {
        _mm256_maskstore_ps(p, mask(n), v);
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> __m256 {
        _mm256_cvtph_ps(_mm_loadu_si128(p.cast()))
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, v: __m256) {
        _mm_storeu_si128(p.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v));
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> __m256 {
        let wide = _mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast()));
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(wide))
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> __m256 {
        _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast())))
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, v: __m256) {
        let bits = _mm256_castps_si256(v);
        let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
        let nan = _mm256_castps_si256(_mm256_cmp_ps::<_CMP_UNORD_Q>(v, v));
        let rounded = _mm256_blendv_epi8(rounded, _mm256_set1_epi32(0x7fc0_0000), nan);
        let high = _mm256_srli_epi32::<16>(rounded);
        let packed = _mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(high, high));
        _mm_storeu_si128(p.cast(), _mm256_castsi256_si128(packed));
    }
    #[inline(always)]
    unsafe fn add(a: __m256, b: __m256) -> __m256 {
        _mm256_add_ps(a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: __m256, b: __m256) -> __m256 {
        _mm256_sub_ps(a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: __m256, b: __m256) -> __m256 {
        _mm256_mul_ps(a, b)
    }
    #[inline(always)]
    unsafe fn div(a: __m256, b: __m256) -> __m256 {
        _mm256_div_ps(a, b)
    }
    #[inline(always)]
    unsafe fn reciprocal(a: __m256) -> __m256 {
        let guess = _mm256_rcp_ps(a);
        _mm256_mul_ps(guess, _mm256_fnmadd_ps(a, guess, _mm256_set1_ps(2.0)))
    }
    #[inline(always)]
    unsafe fn fma(a: __m256, b: __m256, c: __m256) -> __m256 {
        _mm256_fmadd_ps(a, b, c)
    }
    #[inline(always)]
    unsafe fn max(a: __m256, b: __m256) -> __m256 {
        _mm256_max_ps(a, b)
    }
    #[inline(always)]
    unsafe fn min(a: __m256, b: __m256) -> __m256 {
        _mm256_min_ps(a, b)
    }
    #[inline(always)]
    unsafe fn abs(a: __m256) -> __m256 {
        _mm256_andnot_ps(_mm256_set1_ps(-0.0), a)
    }
    #[inline(always)]
    unsafe fn copysign(a: __m256, s: __m256) -> __m256 {
        let sign = _mm256_and_ps(s, _mm256_set1_ps(-0.0));
        _mm256_or_ps(Self::abs(a), sign)
    }
    #[inline(always)]
    unsafe fn round(a: __m256) -> __m256 {
        _mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a)
    }
    #[inline(always)]
    unsafe fn ldexp(v: __m256, n: __m256) -> __m256 {
        let biased = _mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127));
        _mm256_mul_ps(v, _mm256_castsi256_ps(_mm256_slli_epi32::<23>(biased)))
    }
    #[inline(always)]
    unsafe fn keep_nan(x: __m256, v: __m256) -> __m256 {
        _mm256_blendv_ps(v, x, _mm256_cmp_ps::<_CMP_UNORD_Q>(x, x))
    }
    #[inline(always)]
    unsafe fn sum(a: __m256) -> f32 {
        let (lo, hi) = halves(a);
        let s = _mm_add_ps(lo, hi);
        let s = _mm_add_ps(s, _mm_movehl_ps(s, s));
        _mm_cvtss_f32(_mm_add_ss(s, _mm_shuffle_ps::<1>(s, s)))
    }
    #[inline(always)]
    unsafe fn hmax(a: __m256) -> f32 {
        let (lo, hi) = halves(a);
        let s = _mm_max_ps(lo, hi);
        let s = _mm_max_ps(s, _mm_movehl_ps(s, s));
        _mm_cvtss_f32(_mm_max_ss(s, _mm_shuffle_ps::<1>(s, s)))
    }
    #[inline(always)]
    unsafe fn transpose(src: *const f32, src_ld: usize, dst: *mut f32, dst_ld: usize) {
        let mut r = [_mm256_setzero_ps(); 8];
        for i in 0..8 {
            r[i] = _mm256_loadu_ps(src.add(i * src_ld));
        }
        let mut t = r;
        for i in 0..4 {
            t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
            t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
        }
        for i in 0..2 {
            let [a, b, c, d] = [t[4 * i], t[4 * i + 1], t[4 * i + 2], t[4 * i + 3]];
            r[4 * i] = _mm256_shuffle_ps::<0x44>(a, c);
            r[4 * i + 1] = _mm256_shuffle_ps::<0xee>(a, c);
            r[4 * i + 2] = _mm256_shuffle_ps::<0x44>(b, d);
            r[4 * i + 3] = _mm256_shuffle_ps::<0xee>(b, d);
        }
        for i in 0..4 {
            let (a, b) = (r[i], r[4 + i]);
            _mm256_storeu_ps(dst.add(i * dst_ld), _mm256_permute2f128_ps::<0x20>(a, b));
            _mm256_storeu_ps(
                dst.add((4 + i) * dst_ld),
                _mm256_permute2f128_ps::<0x31>(a, b),
            );
        }
    }
}
