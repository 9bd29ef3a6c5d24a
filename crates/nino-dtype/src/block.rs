//! The layouts of one block of each block-quantized type.
//!
//! Most types are integers: `scale * q`, or `scale * q + offset`, with one scale and one offset for
//! each group of values. A function of such a type gives these; where a type has no offsets, it
//! leaves them as they are. The others give values.
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

pub use iq4::IQ4_VALUES;
pub(crate) use iq4::{iq4_nl, iq4_xs};
pub use kquant::{k4_scale_min, q3_k_scales};
pub(crate) use kquant::{q2_k, q3_k, q4_k, q5_k, q6_k};
pub(crate) use legacy::{q4_0, q4_1, q5_0, q5_1, q8_0};
pub use packed::NF4_VALUES;
pub(crate) use packed::{decode_mxfp8, decode_nf4, decode_nvfp4};

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
