//! Encoding of whole runs: plain types value by value, block types by a search for scales.

mod kquant;
mod legacy;
mod pack;
mod search;

use crate::DType;
use crate::float::{f32_to_bf16, f32_to_f16};
use crate::fp8::{f32_to_e4m3, f32_to_e5m2};
use crate::simd::{self, Kernel, Level};

const F16_MAX: f32 = 65504.0;

/// Lengths are checked by the caller, and that the type has an encoder.
pub(super) fn encode(level: Level, dtype: DType, values: &[f32], out: &mut [u8]) {
    match dtype {
        DType::F64 => each(level, values, out, |x| (x as f64).to_le_bytes()),
        DType::F32 => each(level, values, out, f32::to_le_bytes),
        DType::F16 => each(level, values, out, |x| f32_to_f16(x).to_le_bytes()),
        DType::BF16 => each(level, values, out, |x| f32_to_bf16(x).to_le_bytes()),
        DType::F8E4M3 => each(level, values, out, |x| [f32_to_e4m3(x)]),
        DType::F8E5M2 => each(level, values, out, |x| [f32_to_e5m2(x)]),
        DType::Q8_0 => blocks(level, values, out, legacy::encode_q8_0),
        DType::Q4_0 => runs::<18>(level, values, out, legacy::encode_q4_0),
        DType::Q4_1 => runs::<20>(level, values, out, legacy::encode_q4_1),
        DType::Q5_0 => runs::<22>(level, values, out, legacy::encode_q5_0),
        DType::Q5_1 => runs::<24>(level, values, out, legacy::encode_q5_1),
        DType::Q2_K => blocks(level, values, out, kquant::encode_q2_k),
        DType::Q3_K => blocks(level, values, out, kquant::encode_q3_k),
        DType::Q4_K => blocks(level, values, out, kquant::encode_q4_k),
        DType::Q5_K => blocks(level, values, out, kquant::encode_q5_k),
        DType::Q6_K => blocks(level, values, out, kquant::encode_q6_k),
        other => unreachable!("{other} has no encoder"),
    }
}

struct Blocks<'a, const B: usize, const N: usize, F> {
    values: &'a [f32],
    out: &'a mut [u8],
    encode: F,
}

impl<const B: usize, const N: usize, F: Fn(&[f32; N], &mut [u8; B])> Kernel
    for Blocks<'_, B, N, F>
{
    #[inline(always)]
    fn run(self) {
        let (src, _) = self.values.as_chunks::<N>();
        let (dst, _) = self.out.as_chunks_mut::<B>();
        for (values, block) in src.iter().zip(dst) {
            (self.encode)(values, block);
        }
    }
}

fn blocks<const B: usize, const N: usize>(
    level: Level,
    values: &[f32],
    out: &mut [u8],
    encode: impl Fn(&[f32; N], &mut [u8; B]),
) {
    simd::run(
        level,
        Blocks {
            values,
            out,
            encode,
        },
    );
}

struct Runs<'a, const B: usize, F> {
    values: &'a [f32],
    out: &'a mut [u8],
    encode: F,
}

impl<const B: usize, F: Fn(&[f32], &mut [u8])> Kernel for Runs<'_, B, F> {
    #[inline(always)]
    fn run(self) {
        let src = self.values.chunks(32 * legacy::LANES);
        for (values, bytes) in src.zip(self.out.chunks_mut(B * legacy::LANES)) {
            (self.encode)(values, bytes);
        }
    }
}

/// Blocks of 32 values in `B` bytes, up to `LANES` of them at a time.
fn runs<const B: usize>(
    level: Level,
    values: &[f32],
    out: &mut [u8],
    encode: impl Fn(&[f32], &mut [u8]),
) {
    simd::run(
        level,
        Runs::<B, _> {
            values,
            out,
            encode,
        },
    );
}

struct Each<'a, const B: usize, F> {
    values: &'a [f32],
    out: &'a mut [u8],
    encode: F,
}

impl<const B: usize, F: Fn(f32) -> [u8; B]> Kernel for Each<'_, B, F> {
    #[inline(always)]
    fn run(self) {
        let (dst, _) = self.out.as_chunks_mut::<B>();
        for (bytes, value) in dst.iter_mut().zip(self.values) {
            *bytes = (self.encode)(*value);
        }
    }
}

fn each<const B: usize>(
    level: Level,
    values: &[f32],
    out: &mut [u8],
    encode: impl Fn(f32) -> [u8; B],
) {
    simd::run(
        level,
        Each {
            values,
            out,
            encode,
        },
    );
}

/// NaN as 0, everything else inside the limit.
#[inline(always)]
fn clean(v: f32, limit: f32) -> f32 {
    if v.is_nan() {
        0.0
    } else {
        v.clamp(-limit, limit)
    }
}

/// The largest magnitude as bits; above infinity's when there is a NaN.
#[inline(always)]
fn max_abs_bits<const N: usize>(x: &[f32; N]) -> u32 {
    x.iter().fold(0, |m, v| m.max(v.to_bits() & 0x7fff_ffff))
}
