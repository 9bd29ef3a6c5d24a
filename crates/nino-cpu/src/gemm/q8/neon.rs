//! Int8 products of NEON's vectors (`usdot` of I8MM, four unsigned by four signed bytes a lane).
//! The contract of its functions is that of [`super`]'s entries.

use std::arch::aarch64::*;
use std::arch::asm;

use half::f16;

use super::{BLOCK, Int8Block, Int8Panel, PANEL, PANEL_BLOCK};

/// Lanes of a vector.
const LANES: usize = 4;
/// Rows and vectors of a register tile.
const MR: usize = 3;
const NV: usize = 4;

/// Gives `sum` and in each lane four products of bytes, those of `x` unsigned. The intrinsic is not
/// stable yet.
#[inline(always)]
unsafe fn dot(sum: int32x4_t, x: uint8x16_t, w: int8x16_t) -> int32x4_t {
    let mut sum = sum;
    asm!(
        ".arch_extension i8mm",
        "usdot {sum:v}.4s, {x:v}.16b, {w:v}.16b",
        sum = inout(vreg) sum,
        x = in(vreg) x,
        w = in(vreg) w,
        options(pure, nomem, nostack, preserves_flags)
    );
    sum
}

#[target_feature(enable = "neon")]
pub(crate) unsafe fn quantize(src: *const f32, n: usize, dst: *mut u8, scales: *mut f32) {
    for b in 0..n / BLOCK {
        let x = src.add(b * BLOCK);
        let mut most = vdupq_n_f32(0.0);
        for i in (0..BLOCK).step_by(LANES) {
            most = vmaxq_f32(most, vabsq_f32(vld1q_f32(x.add(i))));
        }
        let largest = vmaxvq_f32(most);
        *scales.add(b) = largest / 127.0;
        let inverse = vdupq_n_f32(if largest > 0.0 { 127.0 / largest } else { 0.0 });
        for i in (0..BLOCK).step_by(2 * LANES) {
            let low = vcvtnq_s32_f32(vmulq_f32(vld1q_f32(x.add(i)), inverse));
            let high = vcvtnq_s32_f32(vmulq_f32(vld1q_f32(x.add(i + LANES)), inverse));
            let q = vcombine_s16(vqmovn_s32(low), vqmovn_s32(high));
            let q = vqmovun_s16(vaddq_s16(q, vdupq_n_s16(128)));
            vst1_u8(dst.add(b * BLOCK + i), q);
        }
    }
}

/// Four f16 scales as f32.
#[inline(always)]
unsafe fn scales_at(halves: *const u8) -> float32x4_t {
    let four = halves.cast::<[u16; 4]>().read_unaligned();
    let four = four.map(|half| f16::from_bits(half).to_f32());
    vld1q_f32(four.as_ptr())
}

#[target_feature(enable = "neon")]
pub(crate) unsafe fn unpack_blocks(blocks: &[u8], dst: *mut f32) {
    for (b, block) in blocks.chunks_exact(PANEL_BLOCK).enumerate() {
        for v in (0..PANEL).step_by(LANES) {
            let scales = scales_at(block.as_ptr().add(2 * v));
            for group in 0..BLOCK / 4 {
                let at = 2 * PANEL + (group * PANEL + v) * 4;
                let bytes = vld1q_s32(block.as_ptr().add(at).cast());
                // Each lane has four values; shifts leave one of them with its sign.
                let values = [
                    vshlq_n_s32::<24>(bytes),
                    vshlq_n_s32::<16>(bytes),
                    vshlq_n_s32::<8>(bytes),
                    bytes,
                ];
                for (i, value) in values.into_iter().enumerate() {
                    let value = vcvtq_f32_s32(vshrq_n_s32::<24>(value));
                    let row = b * BLOCK + group * 4 + i;
                    vst1q_f32(dst.add(row * PANEL + v), vmulq_f32(value, scales));
                }
            }
        }
    }
}

#[target_feature(enable = "neon,i8mm")]
pub(crate) unsafe fn starts(b: &Int8Panel, start: *mut i32) {
    let factor = vdupq_n_u8(128);
    for i in 0..b.groups {
        for v in (0..PANEL).step_by(LANES) {
            let words = b.words.add(i * b.stride + v * 4);
            let mut sum = vdupq_n_s32(0);
            for word in 0..b.group {
                sum = dot(sum, factor, vld1q_s8(words.add(word * PANEL * 4).cast()));
            }
            vst1q_s32(start.add(i * PANEL + v), vnegq_s32(sum));
        }
    }
}

#[target_feature(enable = "neon,i8mm")]
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

#[target_feature(enable = "neon,i8mm")]
unsafe fn tile<const G: usize>(rows: usize, t: &Int8Block, col: usize) {
    match rows {
        1 => micro::<1, G>(t, col),
        2 => micro::<2, G>(t, col),
        _ => micro::<3, G>(t, col),
    }
}

/// `R` rows with groups of `G` words.
#[target_feature(enable = "neon,i8mm")]
unsafe fn micro<const R: usize, const G: usize>(t: &Int8Block, col: usize) {
    let mut acc = [[vdupq_n_f32(0.0); NV]; R];
    let c = t.c.add(col);
    if t.accumulate {
        for i in 0..R {
            for v in 0..NV {
                acc[i][v] = vld1q_f32(c.add(i * t.ldc + v * LANES));
            }
        }
    }
    let scale_ld = t.lda / BLOCK;
    for k in 0..t.b.groups {
        let start = t.b_start.add(k * PANEL + col);
        let mut first = [vdupq_n_s32(0); NV];
        for (v, first) in first.iter_mut().enumerate() {
            *first = vld1q_s32(start.add(v * LANES));
        }
        let mut sum = [first; R];
        let b = t.b.words.add(k * t.b.stride + 4 * col);
        let a = t.a.add(k * G * 4);
        for word in 0..G {
            let mut w = [vdupq_n_s8(0); NV];
            for (v, w) in w.iter_mut().enumerate() {
                *w = vld1q_s8(b.add(word * PANEL * 4 + v * 4 * LANES).cast());
            }
            for i in 0..R {
                let x = a.add(i * t.lda + word * 4).cast::<u32>().read_unaligned();
                let x = vreinterpretq_u8_u32(vdupq_n_u32(x));
                for v in 0..NV {
                    sum[i][v] = dot(sum[i][v], x, w[v]);
                }
            }
        }
        let scales = t.b_scales.add(k * PANEL + col);
        for i in 0..R {
            let s = vdupq_n_f32(*t.a_scales.add(i * scale_ld + k * G * 4 / BLOCK));
            for v in 0..NV {
                let scale = vld1q_f32(scales.add(v * LANES));
                let x = vmulq_f32(vcvtq_f32_s32(sum[i][v]), scale);
                acc[i][v] = vfmaq_f32(acc[i][v], x, s);
            }
        }
    }
    for i in 0..R {
        for v in 0..NV {
            vst1q_f32(c.add(i * t.ldc + v * LANES), acc[i][v]);
        }
    }
}
