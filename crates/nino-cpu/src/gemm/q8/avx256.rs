//! Int8 products of vectors of 256 bits. `vex` is AVX-VNNI's `vpdpbusd`; `evex` is the same
//! instruction as AVX512-VNNI has it, so that machines with AVX-512 test both.
//! The contract of their functions is that of [`super`]'s entries.

macro_rules! kernel {
    ($name:ident, $features:literal, $dot:ident) => {
        pub(crate) mod $name {
            use std::arch::x86_64::*;

            use crate::gemm::micro::PANEL;
            use crate::gemm::q8::{BLOCK, Int8Block, Int8Panel, PANEL_BLOCK};

            /// Lanes of a vector.
            const LANES: usize = 8;
            /// Rows and vectors of a register tile: sums, their scaled totals, two vectors of
            /// weights and one of activations are 15 of the 16 registers.
            const MR: usize = 3;
            const NV: usize = 2;

            #[target_feature(enable = $features)]
            pub(crate) unsafe fn quantize(
                src: *const f32,
                n: usize,
                dst: *mut u8,
                scales: *mut f32,
            ) {
                let unsigned = _mm256_castsi256_ps(_mm256_set1_epi32(i32::MAX));
                for b in 0..n / BLOCK {
                    let mut x = [_mm256_setzero_ps(); 4];
                    let mut most = _mm256_setzero_ps();
                    for (i, x) in x.iter_mut().enumerate() {
                        *x = _mm256_loadu_ps(src.add(b * BLOCK + i * LANES));
                        most = _mm256_max_ps(most, _mm256_and_ps(*x, unsigned));
                    }
                    let mut lanes = [0.0f32; LANES];
                    _mm256_storeu_ps(lanes.as_mut_ptr(), most);
                    let largest = lanes.into_iter().fold(0.0, f32::max);
                    *scales.add(b) = largest / 127.0;
                    let inverse = if largest > 0.0 { 127.0 / largest } else { 0.0 };
                    let inverse = _mm256_set1_ps(inverse);
                    let q = x.map(|x| _mm256_cvtps_epi32(_mm256_mul_ps(x, inverse)));
                    let low = _mm256_packs_epi32(q[0], q[1]);
                    let high = _mm256_packs_epi32(q[2], q[3]);
                    // Packing works within halves of a vector; this puts fours back in order.
                    let order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
                    let bytes = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
                    // 128 more, as an unsigned byte.
                    let bytes = _mm256_xor_si256(bytes, _mm256_set1_epi8(-128));
                    _mm256_storeu_si256(dst.add(b * BLOCK).cast(), bytes);
                }
            }

            #[target_feature(enable = $features)]
            pub(crate) unsafe fn unpack_blocks(blocks: &[u8], dst: *mut f32) {
                for (b, block) in blocks.chunks_exact(PANEL_BLOCK).enumerate() {
                    for v in (0..PANEL).step_by(LANES) {
                        let halves = _mm_loadu_si128(block.as_ptr().add(2 * v).cast());
                        let scales = _mm256_cvtph_ps(halves);
                        for group in 0..BLOCK / 4 {
                            let at = 2 * PANEL + (group * PANEL + v) * 4;
                            let bytes = _mm256_loadu_si256(block.as_ptr().add(at).cast());
                            // Each lane has four values; shifts leave one of them with its sign.
                            let values = [
                                _mm256_slli_epi32::<24>(bytes),
                                _mm256_slli_epi32::<16>(bytes),
                                _mm256_slli_epi32::<8>(bytes),
                                bytes,
                            ];
                            for (i, value) in values.into_iter().enumerate() {
                                let value = _mm256_cvtepi32_ps(_mm256_srai_epi32::<24>(value));
                                let row = b * BLOCK + group * 4 + i;
                                let value = _mm256_mul_ps(value, scales);
                                _mm256_storeu_ps(dst.add(row * PANEL + v), value);
                            }
                        }
                    }
                }
            }

            #[target_feature(enable = $features)]
            pub(crate) unsafe fn starts(b: &Int8Panel, start: *mut i32) {
                // As an unsigned byte this is 128.
                let factor = _mm256_set1_epi8(-128);
                for i in 0..b.groups {
                    for v in (0..PANEL).step_by(LANES) {
                        let words = b.words.add(i * b.stride + v * 4);
                        let mut sum = _mm256_setzero_si256();
                        for word in 0..b.group {
                            let w = _mm256_loadu_si256(words.add(word * PANEL * 4).cast());
                            sum = $dot(sum, factor, w);
                        }
                        let sum = _mm256_sub_epi32(_mm256_setzero_si256(), sum);
                        _mm256_storeu_si256(start.add(i * PANEL + v).cast(), sum);
                    }
                }
            }

            #[target_feature(enable = $features)]
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
                    for col in (0..PANEL).step_by(NV * LANES) {
                        match t.b.group {
                            8 => tile::<8>(end - row, &sub, col),
                            _ => tile::<4>(end - row, &sub, col),
                        }
                    }
                    row = end;
                }
            }

            #[target_feature(enable = $features)]
            unsafe fn tile<const G: usize>(rows: usize, t: &Int8Block, col: usize) {
                match rows {
                    1 => micro::<1, G>(t, col),
                    2 => micro::<2, G>(t, col),
                    _ => micro::<3, G>(t, col),
                }
            }

            /// `R` rows with groups of `G` words.
            #[target_feature(enable = $features)]
            unsafe fn micro<const R: usize, const G: usize>(t: &Int8Block, col: usize) {
                let mut acc = [[_mm256_setzero_ps(); NV]; R];
                let c = t.c.add(col);
                if t.accumulate {
                    for i in 0..R {
                        for v in 0..NV {
                            acc[i][v] = _mm256_loadu_ps(c.add(i * t.ldc + v * LANES));
                        }
                    }
                }
                let scale_ld = t.lda / BLOCK;
                for k in 0..t.b.groups {
                    let start = t.b_start.add(k * PANEL + col);
                    let start = [
                        _mm256_loadu_si256(start.cast()),
                        _mm256_loadu_si256(start.add(LANES).cast()),
                    ];
                    let mut sum = [start; R];
                    let b = t.b.words.add(k * t.b.stride + 4 * col);
                    let a = t.a.add(k * G * 4);
                    for word in 0..G {
                        let w = b.add(word * PANEL * 4);
                        let w = [
                            _mm256_loadu_si256(w.cast()),
                            _mm256_loadu_si256(w.add(4 * LANES).cast()),
                        ];
                        for i in 0..R {
                            let x = a.add(i * t.lda + word * 4).cast::<i32>().read_unaligned();
                            let x = _mm256_set1_epi32(x);
                            for v in 0..NV {
                                sum[i][v] = $dot(sum[i][v], x, w[v]);
                            }
                        }
                    }
                    let scales = t.b_scales.add(k * PANEL + col);
                    let scales = [_mm256_loadu_ps(scales), _mm256_loadu_ps(scales.add(LANES))];
                    for i in 0..R {
                        let s = _mm256_set1_ps(*t.a_scales.add(i * scale_ld + k * G * 4 / BLOCK));
                        for v in 0..NV {
                            let x = _mm256_mul_ps(_mm256_cvtepi32_ps(sum[i][v]), scales[v]);
                            acc[i][v] = _mm256_fmadd_ps(x, s, acc[i][v]);
                        }
                    }
                }
                for i in 0..R {
                    for v in 0..NV {
                        _mm256_storeu_ps(c.add(i * t.ldc + v * LANES), acc[i][v]);
                    }
                }
            }
        }
    };
}

kernel!(vex, "avx2,fma,f16c,avxvnni", _mm256_dpbusd_avx_epi32);
kernel!(
    evex,
    "avx2,fma,f16c,avx512vl,avx512vnni",
    _mm256_dpbusd_epi32
);
