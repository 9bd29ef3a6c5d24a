//! Decoders for one block of each block-quantized type, for kernels that decode as they go.
//!
//! All are `#[inline(always)]` and free of intrinsics: inlined into a function that enables AVX2 or
//! AVX-512 the compiler vectorizes them for it, and every build gives the same bits, because Rust
//! never contracts a multiply and an add. Layouts are ggml's, or, of types that are stored in
//! several tensors, ours (`packed`); results are bit-exact with the reference of each for any
//! bytes, except that which NaN a NaN scale gives is not specified.

mod iq4;
mod kquant;
mod legacy;
mod packed;

pub use iq4::{IQ4_VALUES, decode_iq4_nl, decode_iq4_xs};
pub use kquant::{
    decode_q2_k, decode_q3_k, decode_q4_k, decode_q5_k, decode_q6_k, k4_scale_min, q3_k_scales,
};
pub use legacy::{decode_q4_0, decode_q4_1, decode_q5_0, decode_q5_1, decode_q8_0};
pub use packed::{NF4_VALUES, decode_mxfp8, decode_nf4, decode_nvfp4};

use crate::float::f16_to_f32;

/// The f16 at byte `at` of a block, widened.
#[inline(always)]
fn half_at(block: &[u8], at: usize) -> f32 {
    f16_to_f32(u16::from_le_bytes([block[at], block[at + 1]]))
}

/// Keeps the compiler from vectorizing the caller's loop over blocks, with gathers, in place of the
/// loop inside one block.
#[inline(always)]
fn one_at_a_time<const B: usize>(block: &[u8; B]) -> &[u8; B] {
    std::hint::black_box(block)
}
