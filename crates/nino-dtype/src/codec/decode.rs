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

/// The same of a type whose values are integers with scales and, where `has_offset`, offsets.
macro_rules! integers {
    ($level:ident, $bytes:ident, $out:ident, $integers:path, $len:literal, $has_offset:literal) => {{
        struct Integers<'a>(&'a [u8], &'a mut [f32]);
        impl Kernel for Integers<'_> {
            #[inline(always)]
            fn run(self) {
                for (block, out) in self.0.as_chunks().0.iter().zip(self.1.as_chunks_mut().0) {
                    let mut q = [0i8; _];
                    let (mut scales, mut offsets) = ([0.0f32; _], [0.0f32; _]);
                    $integers(block, &mut q, &mut scales, &mut offsets);
                    let offsets = $has_offset.then_some(&offsets);
                    scaled::<_, _, $len>(&q, &scales, offsets, out);
                }
            }
        }
        simd::run($level, Integers($bytes, $out))
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

/// Values of integers in groups of `L`.
#[inline(always)]
fn scaled<const N: usize, const G: usize, const L: usize>(
    q: &[i8; N],
    scales: &[f32; G],
    offsets: Option<&[f32; G]>,
    out: &mut [f32; N],
) {
    let (q, out) = (q.as_chunks::<L>().0, out.as_chunks_mut::<L>().0);
    for group in 0..G {
        let mut values = [0.0; L];
        for i in 0..L {
            let value = scales[group] * q[group][i] as f32;
            // A sum with 0 would lose the sign of a zero.
            values[i] = match offsets {
                Some(offsets) => value + offsets[group],
                None => value,
            };
        }
        out[group] = values;
    }
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
        DType::Q4_0 => integers!(level, bytes, out, block::q4_0, 32, false),
        DType::Q4_1 => integers!(level, bytes, out, block::q4_1, 32, true),
        DType::Q5_0 => integers!(level, bytes, out, block::q5_0, 32, false),
        DType::Q5_1 => integers!(level, bytes, out, block::q5_1, 32, true),
        DType::Q8_0 => integers!(level, bytes, out, block::q8_0, 32, false),
        DType::Q2_K => integers!(level, bytes, out, block::q2_k, 16, true),
        DType::Q3_K => integers!(level, bytes, out, block::q3_k, 16, false),
        DType::Q4_K => integers!(level, bytes, out, block::q4_k, 32, true),
        DType::Q5_K => integers!(level, bytes, out, block::q5_k, 32, true),
        DType::Q6_K => integers!(level, bytes, out, block::q6_k, 16, false),
        DType::IQ4_NL => integers!(level, bytes, out, block::iq4_nl, 32, false),
        DType::IQ4_XS => integers!(level, bytes, out, block::iq4_xs, 32, false),
        DType::NVFP4 => blocks!(level, bytes, out, block::decode_nvfp4),
        DType::MXFP8 => blocks!(level, bytes, out, block::decode_mxfp8),
        DType::NF4 => blocks!(level, bytes, out, block::decode_nf4),
    }
}
