//! Storage types of tensors and their codecs: f16, bf16, fp8 and block quantizations, of GGUF files
//! and others.
//!
//! Pure values: bytes in, numbers out. Files (`nino-weights`), graphs (`nino-graph`) and kernels
//! (`nino-cpu`) share this one list of encodings.

// Kernels must end up inside the function that enables an instruction set; see `simd`.
#![allow(clippy::inline_always)]
// Type names such as Q4_K are read as words, not as code.
#![allow(clippy::doc_markdown)]
// Block layouts are index arithmetic over several arrays at once.
#![allow(clippy::needless_range_loop)]

pub mod block;
mod codec;
mod dtype;
mod float;
mod fp8;
mod simd;

pub use codec::{CodecError, decode, encode, has_encoder};
pub use codec::{Int8Groups, decode_int8, int8_group, int8_has_offset};
pub use dtype::{DType, UnknownDType};
pub use float::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
pub use fp8::{e4m3_to_f32, e5m2_to_f32, f32_to_e4m3, f32_to_e5m2};
