//! Decoding of whole runs: one kernel per type, compiled per instruction set.

use crate::DType;
use crate::block;
use crate::float::{bf16_to_f32, f16_to_f32};
use crate::fp8::{e4m3_to_f32, e5m2_to_f32};
use crate::simd::{self, Kernel, Level};

// A function passed as a value is compiled on its own, without the instruction set of the kernel
// that calls it. These macros put the call itself into the kernel.
macro_rules! blocks {
    ($level:ident, $bytes:ident, $out:ident, $decode:path) => {{
        struct Blocks<'a>(&'a [u8], &'a mut [f32]);
        impl Kernel for Blocks<'_> {
            #[inline(always)]
            fn run(self) {
                for (block, values) in self.0.as_chunks().0.iter().zip(self.1.as_chunks_mut().0) {
                    $decode(block, values);
                }
            }
        }
        simd::run($level, Blocks($bytes, $out))
    }};
}

macro_rules! each {
    ($level:ident, $bytes:ident, $out:ident, |$b:pat_param| $value:expr) => {{
        struct Each<'a>(&'a [u8], &'a mut [f32]);
        impl Kernel for Each<'_> {
            #[inline(always)]
            fn run(self) {
                for (&$b, value) in self.0.as_chunks().0.iter().zip(self.1) {
                    *value = $value;
                }
            }
        }
        simd::run($level, Each($bytes, $out))
    }};
}

/// Decodes a run. The caller has checked the lengths.
pub(super) fn decode(level: Level, dtype: DType, bytes: &[u8], out: &mut [f32]) {
    match dtype {
        DType::F64 => each!(level, bytes, out, |b| f64::from_le_bytes(b) as f32),
        DType::F32 => each!(level, bytes, out, |b| f32::from_le_bytes(b)),
        DType::F16 => each!(level, bytes, out, |b| f16_to_f32(u16::from_le_bytes(b))),
        DType::BF16 => each!(level, bytes, out, |b| bf16_to_f32(u16::from_le_bytes(b))),
        DType::F8E4M3 => each!(level, bytes, out, |[b]| e4m3_to_f32(b)),
        DType::F8E5M2 => each!(level, bytes, out, |[b]| e5m2_to_f32(b)),
        DType::I64 => each!(level, bytes, out, |b| i64::from_le_bytes(b) as f32),
        DType::I32 => each!(level, bytes, out, |b| i32::from_le_bytes(b) as f32),
        DType::I16 => each!(level, bytes, out, |b| i16::from_le_bytes(b) as f32),
        DType::I8 => each!(level, bytes, out, |[b]| b as i8 as f32),
        DType::U64 => each!(level, bytes, out, |b| u64::from_le_bytes(b) as f32),
        DType::U32 => each!(level, bytes, out, |b| u32::from_le_bytes(b) as f32),
        DType::U16 => each!(level, bytes, out, |b| u16::from_le_bytes(b) as f32),
        DType::U8 => each!(level, bytes, out, |[b]| b as f32),
        DType::Bool => each!(level, bytes, out, |[b]| (b != 0) as u8 as f32),
        DType::Q4_0 => blocks!(level, bytes, out, block::decode_q4_0),
        DType::Q4_1 => blocks!(level, bytes, out, block::decode_q4_1),
        DType::Q5_0 => blocks!(level, bytes, out, block::decode_q5_0),
        DType::Q5_1 => blocks!(level, bytes, out, block::decode_q5_1),
        DType::Q8_0 => blocks!(level, bytes, out, block::decode_q8_0),
        DType::Q2_K => blocks!(level, bytes, out, block::decode_q2_k),
        DType::Q3_K => blocks!(level, bytes, out, block::decode_q3_k),
        DType::Q4_K => blocks!(level, bytes, out, block::decode_q4_k),
        DType::Q5_K => blocks!(level, bytes, out, block::decode_q5_k),
        DType::Q6_K => blocks!(level, bytes, out, block::decode_q6_k),
        DType::IQ4_NL => blocks!(level, bytes, out, block::decode_iq4_nl),
        DType::IQ4_XS => blocks!(level, bytes, out, block::decode_iq4_xs),
        DType::NVFP4 => blocks!(level, bytes, out, block::decode_nvfp4),
        DType::MXFP8 => blocks!(level, bytes, out, block::decode_mxfp8),
        DType::NF4 => blocks!(level, bytes, out, block::decode_nf4),
    }
}
