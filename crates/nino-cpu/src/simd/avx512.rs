//! AVX-512 (F, BW, DQ, VL): 16 lanes, 32 registers, masked tails.
//! The contract of its functions is that of [`Simd`].

use std::arch::x86_64::*;

use super::Simd;

#[derive(Clone, Copy)]
pub(crate) struct Avx512;

#[inline(always)]
fn mask(n: usize) -> __mmask16 {
    ((1u32 << n) - 1) as __mmask16
}

impl Simd for Avx512 {
    type V = __m512;
    const LANES: usize = 16;
    const MR: usize = 14;
    const NV: usize = 2;

    #[inline(always)]
    unsafe fn splat(x: f32) -> __m512 {
        _mm512_set1_ps(x)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> __m512 {
        _mm512_loadu_ps(p)
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: __m512) {
        _mm512_storeu_ps(p, v);
    }
    #[inline(always)]
    unsafe fn load_n(p: *const f32, n: usize) -> __m512 {
        _mm512_maskz_loadu_ps(mask(n), p)
    }
    #[inline(always)]
    unsafe fn store_n(p: *mut f32, v: __m512, n: usize) {
        _mm512_mask_storeu_ps(p, mask(n), v);
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> __m512 {
        _mm512_cvtph_ps(_mm256_loadu_si256(p.cast()))
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, v: __m512) {
        _mm256_storeu_si256(p.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v));
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> __m512 {
        let wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast()));
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(wide))
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> __m512 {
        _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast())))
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, v: __m512) {
        let bits = _mm512_castps_si512(v);
        let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
        let nan = _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(v, v);
        let rounded = _mm512_mask_mov_epi32(rounded, nan, _mm512_set1_epi32(0x7fc0_0000));
        _mm256_storeu_si256(
            p.cast(),
            _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded)),
        );
    }
    #[inline(always)]
    unsafe fn add(a: __m512, b: __m512) -> __m512 {
        _mm512_add_ps(a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: __m512, b: __m512) -> __m512 {
        _mm512_sub_ps(a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: __m512, b: __m512) -> __m512 {
        _mm512_mul_ps(a, b)
    }
    #[inline(always)]
    unsafe fn div(a: __m512, b: __m512) -> __m512 {
        _mm512_div_ps(a, b)
    }
    #[inline(always)]
    unsafe fn reciprocal(a: __m512) -> __m512 {
        _mm512_rcp14_ps(a)
    }
    #[inline(always)]
    unsafe fn fma(a: __m512, b: __m512, c: __m512) -> __m512 {
        _mm512_fmadd_ps(a, b, c)
    }
    #[inline(always)]
    unsafe fn max(a: __m512, b: __m512) -> __m512 {
        _mm512_max_ps(a, b)
    }
    #[inline(always)]
    unsafe fn min(a: __m512, b: __m512) -> __m512 {
        _mm512_min_ps(a, b)
    }
    #[inline(always)]
    unsafe fn abs(a: __m512) -> __m512 {
        _mm512_abs_ps(a)
    }
    #[inline(always)]
    unsafe fn copysign(a: __m512, s: __m512) -> __m512 {
        let sign = _mm512_and_ps(s, _mm512_set1_ps(-0.0));
        _mm512_or_ps(_mm512_abs_ps(a), sign)
    }
    #[inline(always)]
    unsafe fn round(a: __m512) -> __m512 {
        _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(a)
    }
    #[inline(always)]
    unsafe fn ldexp(v: __m512, n: __m512) -> __m512 {
        _mm512_scalef_ps(v, n)
    }
    #[inline(always)]
    unsafe fn keep_nan(x: __m512, v: __m512) -> __m512 {
        _mm512_mask_mov_ps(v, _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x), x)
    }
    #[inline(always)]
    unsafe fn sum(a: __m512) -> f32 {
        _mm512_reduce_add_ps(a)
    }
    #[inline(always)]
    unsafe fn hmax(a: __m512) -> f32 {
        _mm512_reduce_max_ps(a)
    }
    #[inline(always)]
    unsafe fn transpose(src: *const f32, src_ld: usize, dst: *mut f32, dst_ld: usize) {
        let mut r = [_mm512_setzero_ps(); 16];
        for i in 0..16 {
            r[i] = _mm512_loadu_ps(src.add(i * src_ld));
        }
        let mut t = r;
        for i in 0..8 {
            t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
            t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
        }
        for i in 0..4 {
            let [a, b, c, d] = [t[4 * i], t[4 * i + 1], t[4 * i + 2], t[4 * i + 3]];
            r[4 * i] = _mm512_shuffle_ps::<0x44>(a, c);
            r[4 * i + 1] = _mm512_shuffle_ps::<0xee>(a, c);
            r[4 * i + 2] = _mm512_shuffle_ps::<0x44>(b, d);
            r[4 * i + 3] = _mm512_shuffle_ps::<0xee>(b, d);
        }
        for i in 0..4 {
            let [a, b, c, d] = [r[i], r[4 + i], r[8 + i], r[12 + i]];
            let ab_even = _mm512_shuffle_f32x4::<0x88>(a, b);
            let ab_odd = _mm512_shuffle_f32x4::<0xdd>(a, b);
            let cd_even = _mm512_shuffle_f32x4::<0x88>(c, d);
            let cd_odd = _mm512_shuffle_f32x4::<0xdd>(c, d);
            let out = [
                _mm512_shuffle_f32x4::<0x88>(ab_even, cd_even),
                _mm512_shuffle_f32x4::<0x88>(ab_odd, cd_odd),
                _mm512_shuffle_f32x4::<0xdd>(ab_even, cd_even),
                _mm512_shuffle_f32x4::<0xdd>(ab_odd, cd_odd),
            ];
            for (j, v) in out.into_iter().enumerate() {
                _mm512_storeu_ps(dst.add((4 * j + i) * dst_ld), v);
            }
        }
    }
}
