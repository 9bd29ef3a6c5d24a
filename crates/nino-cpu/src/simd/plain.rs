//! No vector instructions: arrays of 4 floats, which compilers map to whatever the target has.
//! The contract of its functions is that of [`Simd`]; every CPU has this level.

use half::{bf16, f16};

use super::Simd;

#[derive(Clone, Copy)]
pub(crate) struct Plain;

const L: usize = 4;
type V = [f32; L];

#[inline(always)]
fn each(f: impl Fn(usize) -> f32) -> V {
    [f(0), f(1), f(2), f(3)]
}

impl Simd for Plain {
    type V = V;
    const LANES: usize = L;
    const MR: usize = 4;
    const NV: usize = 2;

    #[inline(always)]
    unsafe fn splat(x: f32) -> V {
        [x; L]
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> V {
        p.cast::<V>().read_unaligned()
    }
    #[inline(always)]
    unsafe fn store(p: *mut f32, v: V) {
        p.cast::<V>().write_unaligned(v);
    }
    #[inline(always)]
    unsafe fn load_n(p: *const f32, n: usize) -> V {
        let mut v = [0.0; L];
        for (i, x) in v.iter_mut().enumerate().take(n) {
            *x = *p.add(i);
        }
        v
    }
    #[inline(always)]
    unsafe fn store_n(p: *mut f32, v: V, n: usize) {
        for (i, x) in v.iter().enumerate().take(n) {
            *p.add(i) = *x;
        }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> V {
        let bits = p.cast::<[u16; L]>().read_unaligned();
        each(|i| f16::from_bits(bits[i]).to_f32())
    }
    #[inline(always)]
    unsafe fn store_f16(p: *mut u16, v: V) {
        p.cast::<[u16; L]>()
            .write_unaligned(v.map(|x| f16::from_f32(x).to_bits()));
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> V {
        let bits = p.cast::<[u16; L]>().read_unaligned();
        each(|i| bf16::from_bits(bits[i]).to_f32())
    }
    #[inline(always)]
    unsafe fn load_i8(p: *const i8) -> V {
        let values = p.cast::<[i8; L]>().read_unaligned();
        each(|i| f32::from(values[i]))
    }
    #[inline(always)]
    unsafe fn store_bf16(p: *mut u16, v: V) {
        p.cast::<[u16; L]>()
            .write_unaligned(v.map(|x| bf16::from_f32(x).to_bits()));
    }
    #[inline(always)]
    unsafe fn add(a: V, b: V) -> V {
        each(|i| a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn sub(a: V, b: V) -> V {
        each(|i| a[i] - b[i])
    }
    #[inline(always)]
    unsafe fn mul(a: V, b: V) -> V {
        each(|i| a[i] * b[i])
    }
    #[inline(always)]
    unsafe fn div(a: V, b: V) -> V {
        each(|i| a[i] / b[i])
    }
    #[inline(always)]
    unsafe fn reciprocal(a: V) -> V {
        a.map(f32::recip)
    }
    #[inline(always)]
    unsafe fn fma(a: V, b: V, c: V) -> V {
        each(|i| a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn max(a: V, b: V) -> V {
        each(|i| if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn min(a: V, b: V) -> V {
        each(|i| if a[i] < b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn abs(a: V) -> V {
        a.map(f32::abs)
    }
    #[inline(always)]
    unsafe fn copysign(a: V, s: V) -> V {
        each(|i| a[i].copysign(s[i]))
    }
    #[inline(always)]
    unsafe fn round(a: V) -> V {
        // Ties to even for |a| < 2^22, which is all the callers need; no libm call.
        const MAGIC: f32 = 12_582_912.0;
        each(|i| (a[i] + MAGIC) - MAGIC)
    }
    #[inline(always)]
    unsafe fn ldexp(v: V, n: V) -> V {
        each(|i| v[i] * f32::from_bits(((n[i] as i32 + 127) as u32) << 23))
    }
    #[inline(always)]
    unsafe fn keep_nan(x: V, v: V) -> V {
        each(|i| if x[i].is_nan() { x[i] } else { v[i] })
    }
    #[inline(always)]
    unsafe fn sum(a: V) -> f32 {
        (a[0] + a[2]) + (a[1] + a[3])
    }
    #[inline(always)]
    unsafe fn hmax(a: V) -> f32 {
        a[0].max(a[1]).max(a[2].max(a[3]))
    }
    #[inline(always)]
    unsafe fn transpose(src: *const f32, src_ld: usize, dst: *mut f32, dst_ld: usize) {
        for i in 0..L {
            for j in 0..L {
                *dst.add(j * dst_ld + i) = *src.add(i * src_ld + j);
            }
        }
    }
}
