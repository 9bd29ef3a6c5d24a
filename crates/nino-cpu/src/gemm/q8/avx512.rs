//! Int8 products of vectors of 512 bits (AVX512-VNNI).
//! The contract of its functions is that of [`super`]'s entries.

use std::arch::x86_64::*;

use super::{BLOCK, Int8Block, Int8Panel, PANEL, PANEL_BLOCK};

/// Rows of a register tile: two accumulators of each kind per row and vector.
const MR: usize = 6;

/// Quantizes `n` values (whole blocks) of one row.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(crate) unsafe fn quantize(src: *const f32, n: usize, dst: *mut u8, scales: *mut f32) {
    for b in 0..n / BLOCK {
        let lo = _mm512_loadu_ps(src.add(b * BLOCK));
        let hi = _mm512_loadu_ps(src.add(b * BLOCK + 16));
        let largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(lo), _mm512_abs_ps(hi)));
        *scales.add(b) = largest / 127.0;
        let inverse = _mm512_set1_ps(if largest > 0.0 { 127.0 / largest } else { 0.0 });
        for (i, v) in [lo, hi].into_iter().enumerate() {
            let q = _mm512_cvtps_epi32(_mm512_mul_ps(v, inverse));
            let q = _mm512_add_epi32(q, _mm512_set1_epi32(128));
            _mm_storeu_si128(dst.add(b * BLOCK + i * 16).cast(), _mm512_cvtepi32_epi8(q));
        }
    }
}

/// Decodes whole blocks of a panel.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
pub(crate) unsafe fn unpack_blocks(blocks: &[u8], dst: *mut f32) {
    for (b, block) in blocks.chunks_exact(PANEL_BLOCK).enumerate() {
        for v in 0..2 {
            let halves = _mm256_loadu_si256(block.as_ptr().add(v * 32).cast());
            let scales = _mm512_cvtph_ps(halves);
            for group in 0..BLOCK / 4 {
                let at = 2 * PANEL + (group * PANEL + v * 16) * 4;
                let bytes = _mm512_loadu_si512(block.as_ptr().add(at).cast());
                // Each lane has four values; shifts leave one of them with its sign.
                let values = [
                    _mm512_slli_epi32::<24>(bytes),
                    _mm512_slli_epi32::<16>(bytes),
                    _mm512_slli_epi32::<8>(bytes),
                    bytes,
                ];
                for (i, value) in values.into_iter().enumerate() {
                    let value = _mm512_cvtepi32_ps(_mm512_srai_epi32::<24>(value));
                    let row = b * BLOCK + group * 4 + i;
                    let dst = dst.add(row * PANEL + v * 16);
                    _mm512_storeu_ps(dst, _mm512_mul_ps(value, scales));
                }
            }
        }
    }
}

/// Computes the start values of a panel's groups.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) unsafe fn starts(b: &Int8Panel, start: *mut i32) {
    // -128 as an unsigned byte is 128.
    let factor = _mm512_set1_epi8(-128);
    for i in 0..b.groups {
        for v in 0..2 {
            let words = b.words.add(i * b.stride + v * 64);
            let mut sum = _mm512_setzero_si512();
            for word in 0..b.group {
                let w = _mm512_loadu_si512(words.add(word * PANEL * 4).cast());
                sum = _mm512_dpbusd_epi32(sum, factor, w);
            }
            let start = start.add(i * PANEL + v * 16);
            _mm512_storeu_si512(start.cast(), _mm512_sub_epi32(_mm512_setzero_si512(), sum));
        }
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
pub(crate) unsafe fn block(t: &Int8Block) {
    let tiles = t.rows.div_ceil(MR);
    let mut row = 0;
    for i in 0..tiles {
        let end = (i + 1) * t.rows / tiles;
        let sub = Int8Block {
            a: t.a.add(row * t.lda),
            a_scales: t.a_scales.add(row * (t.lda / BLOCK)),
            c: t.c.add(row * t.ldc),
            ..*t
        };
        tile(end - row, &sub);
        row = end;
    }
}

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn tile(rows: usize, t: &Int8Block) {
    match rows {
        1 => micro::<1>(t),
        2 => micro::<2>(t),
        3 => micro::<3>(t),
        4 => micro::<4>(t),
        5 => micro::<5>(t),
        _ => micro::<6>(t),
    }
}

/// `R` rows. The words of a group are a loop at run time: where the compiler knows their number, it
/// unrolls them, has more values at once than there are registers, and takes 7 % longer.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
unsafe fn micro<const R: usize>(t: &Int8Block) {
    let mut acc = [[_mm512_setzero_ps(); 2]; R];
    if t.accumulate {
        for i in 0..R {
            for v in 0..2 {
                acc[i][v] = _mm512_loadu_ps(t.c.add(i * t.ldc + v * 16));
            }
        }
    }
    let scale_ld = t.lda / BLOCK;
    for k in 0..t.b.groups {
        let start = t.b_start.add(k * PANEL);
        let start = [
            _mm512_loadu_si512(start.cast()),
            _mm512_loadu_si512(start.add(16).cast()),
        ];
        let mut sum = [start; R];
        let mut b = t.b.words.add(k * t.b.stride);
        let mut a = t.a.add(k * t.b.group * 4);
        for _ in 0..t.b.group {
            let w = [
                _mm512_loadu_si512(b.cast()),
                _mm512_loadu_si512(b.add(64).cast()),
            ];
            for i in 0..R {
                let x = a.add(i * t.lda).cast::<i32>().read_unaligned();
                let x = _mm512_set1_epi32(x);
                for v in 0..2 {
                    sum[i][v] = _mm512_dpbusd_epi32(sum[i][v], x, w[v]);
                }
            }
            a = a.add(4);
            b = b.add(PANEL * 4);
        }
        let scales = t.b_scales.add(k * PANEL);
        let scales = [_mm512_loadu_ps(scales), _mm512_loadu_ps(scales.add(16))];
        for i in 0..R {
            let s = _mm512_set1_ps(*t.a_scales.add(i * scale_ld + k * t.b.group * 4 / BLOCK));
            for v in 0..2 {
                let x = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[i][v]), scales[v]);
                acc[i][v] = _mm512_fmadd_ps(x, s, acc[i][v]);
            }
        }
    }
    for i in 0..R {
        for v in 0..2 {
            _mm512_storeu_ps(t.c.add(i * t.ldc + v * 16), acc[i][v]);
        }
    }
}
