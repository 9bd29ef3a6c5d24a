//! Encoding of whole runs: plain types value by value, block types by a search for scales.

mod kquant;
mod legacy;
mod pack;
mod search;
mod superblock;

use crate::DType;
use crate::float::{f32_to_bf16, f32_to_f16};
use crate::fp8::{f32_to_e4m3, f32_to_e5m2};
use crate::simd::{self, Kernel, Level};

const F16_MAX: f32 = 65504.0;

// Macros for the reason given in `decode`.
macro_rules! blocks {
    ($level:ident, $values:ident, $out:ident, $encode:path) => {{
        struct Blocks<'a>(&'a [f32], &'a mut [u8]);
        impl Kernel for Blocks<'_> {
            #[inline(always)]
            fn run(self) {
                for (values, block) in self.0.as_chunks().0.iter().zip(self.1.as_chunks_mut().0) {
                    $encode(values, block);
                }
            }
        }
        simd::run($level, Blocks($values, $out))
    }};
}

/// Blocks of 32 values in `$bytes` bytes, up to `LANES` of them at a time.
macro_rules! runs {
    ($level:ident, $values:ident, $out:ident, $bytes:literal, $encode:path) => {{
        struct Runs<'a>(&'a [f32], &'a mut [u8]);
        impl Kernel for Runs<'_> {
            #[inline(always)]
            fn run(self) {
                let src = self.0.chunks(32 * legacy::LANES);
                for (values, bytes) in src.zip(self.1.chunks_mut($bytes * legacy::LANES)) {
                    $encode(values, bytes);
                }
            }
        }
        simd::run($level, Runs($values, $out))
    }};
}

macro_rules! each {
    ($level:ident, $values:ident, $out:ident, |$x:ident| $bytes:expr) => {{
        struct Each<'a>(&'a [f32], &'a mut [u8]);
        impl Kernel for Each<'_> {
            #[inline(always)]
            fn run(self) {
                for (&$x, bytes) in self.0.iter().zip(self.1.as_chunks_mut().0) {
                    *bytes = $bytes;
                }
            }
        }
        simd::run($level, Each($values, $out))
    }};
}

/// Encodes a run. The caller has checked the lengths, and that the type has an encoder.
pub(super) fn encode(level: Level, dtype: DType, values: &[f32], out: &mut [u8]) {
    match dtype {
        DType::F64 => each!(level, values, out, |x| (x as f64).to_le_bytes()),
        DType::F32 => each!(level, values, out, |x| x.to_le_bytes()),
        DType::F16 => each!(level, values, out, |x| f32_to_f16(x).to_le_bytes()),
        DType::BF16 => each!(level, values, out, |x| f32_to_bf16(x).to_le_bytes()),
        DType::F8E4M3 => each!(level, values, out, |x| [f32_to_e4m3(x)]),
        DType::F8E5M2 => each!(level, values, out, |x| [f32_to_e5m2(x)]),
        DType::Q8_0 => blocks!(level, values, out, legacy::encode_q8_0),
        DType::Q4_0 => runs!(level, values, out, 18, legacy::encode_q4_0),
        DType::Q4_1 => runs!(level, values, out, 20, legacy::encode_q4_1),
        DType::Q5_0 => runs!(level, values, out, 22, legacy::encode_q5_0),
        DType::Q5_1 => runs!(level, values, out, 24, legacy::encode_q5_1),
        DType::Q2_K => blocks!(level, values, out, kquant::encode_q2_k),
        DType::Q3_K => blocks!(level, values, out, kquant::encode_q3_k),
        DType::Q4_K => blocks!(level, values, out, kquant::encode_q4_k),
        DType::Q5_K => blocks!(level, values, out, kquant::encode_q5_k),
        DType::Q6_K => blocks!(level, values, out, kquant::encode_q6_k),
        other => unreachable!("{other} has no encoder"),
    }
}

/// Gives NaN as 0, and everything else within the limit.
#[inline(always)]
fn clean(v: f32, limit: f32) -> f32 {
    if v.is_nan() {
        0.0
    } else {
        v.clamp(-limit, limit)
    }
}

/// Gives the bits of the largest magnitude; they are above infinity's when there is a NaN.
#[inline(always)]
fn max_abs_bits<const N: usize>(x: &[f32; N]) -> u32 {
    x.iter().fold(0, |m, v| m.max(v.to_bits() & 0x7fff_ffff))
}
