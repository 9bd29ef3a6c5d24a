//! Factors in pairs of bf16, for AVX512-BF16 (`vdpbf16ps`) and ARM's BF16 (`bfdot`): two products a
//! lane, summed in f32.
//!
//! A row of A is its bf16 values one after the other. A panel of B is `[k / 2][PANEL]` pairs: rows
//! of the f32 layout, two by two. AMX's tiles (`amx`) have the same layouts.

use super::micro::{Block, PANEL};
use super::rates;
use crate::simd::Level;

/// Whether the CPU has products of pairs at this level.
pub(crate) fn exists(level: Level) -> bool {
    #[cfg(target_arch = "x86_64")]
    return level == Level::Avx512 && is_x86_feature_detected!("avx512bf16");
    #[cfg(target_arch = "aarch64")]
    return level == Level::Neon && std::arch::is_aarch64_feature_detected!("bf16");
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    {
        let _ = level;
        false
    }
}

/// Whether products of pairs are faster than those of f32 at this level, as measured once.
pub(crate) fn supported(level: Level) -> bool {
    rates::of(level).pairs_pay()
}

/// Whether products are made by matrix tiles, which leave vectors far behind.
pub(crate) fn by_tiles() -> bool {
    #[cfg(target_arch = "x86_64")]
    return super::amx::available();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// Stands for the row after the last where their number is odd.
static ZEROS: [f32; PANEL] = [0.0; PANEL];

/// Copies `n` values that are bf16 already, in a row that ends with a whole pair.
#[inline(always)]
pub(crate) unsafe fn copy(src: *const u16, n: usize, dst: *mut f32) {
    std::ptr::copy_nonoverlapping(src, dst.cast(), n);
    if n % 2 == 1 {
        *dst.cast::<u16>().add(n) = 0;
    }
}

#[cfg(target_arch = "x86_64")]
pub(crate) use x86::*;

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use nino_dtype::DType;

    use super::{Block, PANEL, ZEROS};
    use crate::gemm::amx;
    use crate::gemm::micro::{self, LDA, Multiply};
    use crate::simd::Simd;
    use crate::simd::avx512::Avx512;

    /// Multiplies slots that are pairs.
    struct Pairs;

    impl Multiply<Avx512> for Pairs {
        #[inline(always)]
        unsafe fn add_product(a: __m512, b: __m512, c: __m512) -> __m512 {
            _mm512_dpbf16_ps(c, as_pairs(a), as_pairs(b))
        }
    }

    #[inline(always)]
    unsafe fn as_pairs(v: __m512) -> __m512bh {
        std::mem::transmute(v)
    }

    /// Computes C = A B, or C += A B with `accumulate`.
    pub(crate) unsafe fn block(t: &Block<'_>) {
        if amx::available() {
            amx::block(t);
        } else {
            by_vectors(t);
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma,f16c")]
    unsafe fn by_vectors(t: &Block<'_>) {
        micro::block_impl::<Avx512, Pairs>(t);
    }

    /// Rounds `n` values to bf16, in a row that ends with a whole pair. `dst` may be `src`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")]
    pub(crate) unsafe fn narrow(src: *const f32, n: usize, dst: *mut f32) {
        let whole = n - n % 32;
        for i in (0..whole).step_by(32) {
            let (lo, hi) = (
                _mm512_loadu_ps(src.add(i)),
                _mm512_loadu_ps(src.add(i + 16)),
            );
            store_row(dst.add(i / 2), lo, hi, u16::MAX);
        }
        if whole < n {
            let left = n - whole;
            let lanes = |n: usize| ((1u32 << n.min(16)) - 1) as u16;
            let lo = _mm512_maskz_loadu_ps(lanes(left), src.add(whole));
            let hi = _mm512_maskz_loadu_ps(lanes(left.saturating_sub(16)), src.add(whole + 16));
            store_row(dst.add(whole / 2), lo, hi, lanes(left.div_ceil(2)));
        }
    }

    #[inline(always)]
    unsafe fn store_row(dst: *mut f32, lo: __m512, hi: __m512, lanes: u16) {
        let row: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(hi, lo));
        _mm512_mask_storeu_epi32(dst.cast(), lanes, row);
    }

    /// Gives the bf16 of `lo` and `hi` as pairs.
    #[inline(always)]
    pub(crate) unsafe fn pair(lo: __m512, hi: __m512) -> __m512 {
        let both: __m512i = std::mem::transmute(_mm512_cvtne2ps_pbh(hi, lo));
        let by_pairs = _mm512_set_epi16(
            31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20,
            4, 19, 3, 18, 2, 17, 1, 16, 0,
        );
        _mm512_castsi512_ps(_mm512_permutexvar_epi16(by_pairs, both))
    }

    #[inline(always)]
    unsafe fn pair_f32(lo: *const f32, hi: *const f32) -> __m512 {
        pair(_mm512_loadu_ps(lo), _mm512_loadu_ps(hi))
    }

    #[inline(always)]
    unsafe fn pair_f16(lo: *const u16, hi: *const u16) -> __m512 {
        pair(Avx512::load_f16(lo), Avx512::load_f16(hi))
    }

    #[inline(always)]
    unsafe fn pair_bf16(lo: *const u16, hi: *const u16) -> __m512 {
        let lo = _mm512_cvtepu16_epi32(_mm256_loadu_si256(lo.cast()));
        let hi = _mm512_castps_si512(Avx512::load_bf16(hi));
        _mm512_castsi512_ps(_mm512_or_si512(lo, hi))
    }

    macro_rules! interleave {
        ($(#[$meta:meta])* $name:ident, $from:ty, $pair:ident) => {
            $(#[$meta])*
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,f16c")]
            pub(crate) unsafe fn $name(src: *const $from, ld: usize, n: usize, dst: *mut f32) {
                for i in 0..n.div_ceil(2) {
                    let lo = src.add(2 * i * ld);
                    let hi = if 2 * i + 1 < n { lo.add(ld) } else { ZEROS.as_ptr().cast() };
                    let dst = dst.add(i * PANEL);
                    _mm512_storeu_ps(dst, $pair(lo, hi));
                    _mm512_storeu_ps(dst.add(16), $pair(lo.add(16), hi.add(16)));
                }
            }
        };
    }

    interleave! {
        /// Makes `n` rows of [`PANEL`] values, `ld` apart, a panel of pairs. `dst` may be `src`.
        interleave_f32, f32, pair_f32
    }
    interleave! {
        /// As [`interleave_f32`], from f16.
        interleave_f16, u16, pair_f16
    }
    interleave! {
        /// As [`interleave_f32`], from bf16.
        interleave_bf16, u16, pair_bf16
    }

    /// Makes an even number of rows of [`PANEL`] values, f16 or bf16, a panel of pairs of bf16
    /// where they lie.
    pub(crate) unsafe fn pair_up(dtype: DType, panel: *mut u16, rows: usize) {
        for i in (0..rows).step_by(2) {
            let at = panel.add(i * PANEL);
            let mut two = [0u16; 2 * PANEL];
            two.as_mut_ptr().copy_from_nonoverlapping(at, 2 * PANEL);
            match dtype {
                DType::F16 => interleave_f16(two.as_ptr(), PANEL, 2, at.cast()),
                _ => interleave_bf16(two.as_ptr(), PANEL, 2, at.cast()),
            }
        }
    }

    /// Gives the values of a panel of pairs as `rows` rows of f32.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(crate) unsafe fn unpair(pairs: *const f32, rows: usize, dst: *mut f32) {
        for i in 0..rows / 2 {
            for v in (0..PANEL).step_by(16) {
                let both = _mm512_loadu_si512(pairs.add(i * PANEL + v).cast());
                let hi = _mm512_and_si512(both, _mm512_set1_epi32(0xffff_0000_u32.cast_signed()));
                let dst = dst.add(2 * i * PANEL + v);
                _mm512_storeu_si512(dst.cast(), _mm512_slli_epi32::<16>(both));
                _mm512_storeu_si512(dst.add(PANEL).cast(), hi);
            }
        }
    }

    /// Copies `rows` rows of `n` bf16 values, `ld` apart, to rows [`LDA`] slots apart. It writes
    /// whole vectors, of zeros beyond the values; a row has at most `SEG` slots.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(crate) unsafe fn copy_rows(
        src: *const u16,
        ld: usize,
        n: usize,
        rows: usize,
        dst: *mut f32,
    ) {
        for row in 0..rows {
            let (src, dst) = (src.add(row * ld), dst.add(row * LDA));
            for i in (0..n).step_by(32) {
                let lanes = ((1u64 << (n - i).min(32)) - 1) as u32;
                let values = _mm512_maskz_loadu_epi16(lanes, src.add(i).cast());
                _mm512_storeu_si512(dst.add(i / 2).cast(), values);
            }
        }
    }

    /// Makes pairs of two rows of `n` bf16 values, of which `hi` may be null for zeros. It writes
    /// whole vectors.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    pub(crate) unsafe fn pair_rows(lo: *const u16, hi: *const u16, n: usize, dst: *mut f32) {
        for i in (0..n).step_by(16) {
            let lanes = ((1u32 << (n - i).min(16)) - 1) as u16;
            let wide = |p: *const u16| {
                _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(lanes, p.add(i).cast()))
            };
            let low = wide(lo);
            let both = if hi.is_null() {
                low
            } else {
                _mm512_or_si512(low, _mm512_slli_epi32::<16>(wide(hi)))
            };
            _mm512_storeu_si512(dst.add(i).cast(), both);
        }
    }
}

#[cfg(any(test, not(target_arch = "x86_64")))]
mod portable;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use portable::*;

#[cfg(target_arch = "aarch64")]
mod arm {
    use std::arch::aarch64::float32x4_t;
    use std::arch::asm;

    use super::Block;
    use crate::gemm::micro::{self, Multiply};
    use crate::simd::neon::Neon;

    /// Multiplies slots that are pairs. The intrinsic is not stable yet.
    struct Pairs;

    impl Multiply<Neon> for Pairs {
        #[inline(always)]
        unsafe fn add_product(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
            let mut sum = c;
            asm!(
                ".arch_extension bf16",
                "bfdot {sum:v}.4s, {a:v}.8h, {b:v}.8h",
                sum = inout(vreg) sum,
                a = in(vreg) a,
                b = in(vreg) b,
                options(pure, nomem, nostack, preserves_flags)
            );
            sum
        }
    }

    /// Computes C = A B, or C += A B with `accumulate`.
    #[target_feature(enable = "neon,bf16")]
    pub(crate) unsafe fn block(t: &Block<'_>) {
        micro::block_impl::<Neon, Pairs>(t);
    }
}
#[cfg(target_arch = "aarch64")]
pub(crate) use arm::block;

/// A stand-in where the CPU has no such products; `supported` keeps it from being called.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(crate) unsafe fn block(_: &Block<'_>) {}

#[cfg(test)]
mod tests;
