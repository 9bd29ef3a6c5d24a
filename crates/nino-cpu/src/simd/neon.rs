//! NEON (aarch64): 4 lanes, 32 registers.
//! The contract of its functions is that of [`Simd`].

use std::arch::aarch64::*;

use half::{bf16, f16};

use super::Simd;

#[derive(Clone, Copy)]
pub(crate) struct Neon;

#[inline(always)]
unsafe fn array(v: float32x4_t) -> [f32; 4] {
    let mut a = [0.0; 4];
    vst1q_f32(a.as_mut_ptr(), v);
    a
}

impl Simd for Neon {
    type V = float32x4_t;
    const LANES: usize = 4;
    const MR: usize = 6;
    const NV: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> float32x4_t {
        vdupq_n_f32(x)
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> float32x4_t {
        vld1q_f32(p)
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: float32x4_t) {
        vst1q_f32(p, v);
    }
    #[inline(always)]
    unsafe fn load_n(p: *const f32, n: usize) -> float32x4_t {
        let mut a = [0.0; 4];
        for (i, x) in a.iter_mut().enumerate().take(n) {
            *x = *p.add(i);
        }
        vld1q_f32(a.as_ptr())
    }
    #[inline(always)]
    unsafe fn store_n(p: *mut f32, v: float32x4_t, n: usize) {
        for (i, x) in array(v).iter().enumerate().take(n) {
            *p.add(i) = *x;
        }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> float32x4_t {
        let a = p
            .cast::<[u16; 4]>()
            .read_unaligned()
            .map(|x| f16::from_bits(x).to_f32());
        vld1q_f32(a.as_ptr())
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, v: float32x4_t) {
        p.cast::<[u16; 4]>()
            .write_unaligned(array(v).map(|x| f16::from_f32(x).to_bits()));
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> float32x4_t {
        vreinterpretq_f32_u32(vshll_n_u16::<16>(vld1_u16(p)))
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> float32x4_t {
        let values = p.cast::<[i8; 4]>().read_unaligned().map(f32::from);
        vld1q_f32(values.as_ptr())
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, v: float32x4_t) {
        p.cast::<[u16; 4]>()
            .write_unaligned(array(v).map(|x| bf16::from_f32(x).to_bits()));
    }
    #[inline(always)]
    unsafe fn add(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vaddq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn sub(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vsubq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn mul(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vmulq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn div(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vdivq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn reciprocal(a: float32x4_t) -> float32x4_t {
        let guess = vrecpeq_f32(a);
        vmulq_f32(guess, vrecpsq_f32(a, guess))
    }
    #[inline(always)]
    unsafe fn fma(a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        vfmaq_f32(c, a, b)
    }
    #[inline(always)]
    unsafe fn max(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vmaxq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn min(a: float32x4_t, b: float32x4_t) -> float32x4_t {
        vminq_f32(a, b)
    }
    #[inline(always)]
    unsafe fn abs(a: float32x4_t) -> float32x4_t {
        vabsq_f32(a)
    }
    #[inline(always)]
    unsafe fn copysign(a: float32x4_t, s: float32x4_t) -> float32x4_t {
        vbslq_f32(vdupq_n_u32(0x8000_0000), s, a)
    }
    #[inline(always)]
    unsafe fn round(a: float32x4_t) -> float32x4_t {
        vrndnq_f32(a)
    }
    #[inline(always)]
    unsafe fn ldexp(v: float32x4_t, n: float32x4_t) -> float32x4_t {
        let biased = vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127));
        vmulq_f32(v, vreinterpretq_f32_s32(vshlq_n_s32::<23>(biased)))
    }
    #[inline(always)]
    unsafe fn keep_nan(x: float32x4_t, v: float32x4_t) -> float32x4_t {
        vbslq_f32(vceqq_f32(x, x), v, x)
    }
    #[inline(always)]
    unsafe fn sum(a: float32x4_t) -> f32 {
        vaddvq_f32(a)
    }
    #[inline(always)]
    unsafe fn hmax(a: float32x4_t) -> f32 {
        vmaxvq_f32(a)
    }
    #[inline(always)]
    unsafe fn transpose(src: *const f32, src_ld: usize, dst: *mut f32, dst_ld: usize) {
        let r = [
            vld1q_f32(src),
            vld1q_f32(src.add(src_ld)),
            vld1q_f32(src.add(2 * src_ld)),
            vld1q_f32(src.add(3 * src_ld)),
        ];
        let (a, b) = (vtrnq_f32(r[0], r[1]), vtrnq_f32(r[2], r[3]));
        let low = |x, y| vcombine_f32(vget_low_f32(x), vget_low_f32(y));
        let high = |x, y| vcombine_f32(vget_high_f32(x), vget_high_f32(y));
        vst1q_f32(dst, low(a.0, b.0));
        vst1q_f32(dst.add(dst_ld), low(a.1, b.1));
        vst1q_f32(dst.add(2 * dst_ld), high(a.0, b.0));
        vst1q_f32(dst.add(3 * dst_ld), high(a.1, b.1));
    }
}
