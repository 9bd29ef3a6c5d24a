//! Matrix products: the register-tile kernel, weights in panels, linear layers and batched
//! products. Factors are packed as f32 or as pairs of bf16 ([`slot::Slot`]).
//!
//! # Safety
//!
//! Beyond the crate's contract: packs and sums (`a`, `b`, `c`, `pack`, `rows`) are scratch of the
//! running thread with the sizes that `scratch_bytes` counted, rounded up to whole vectors.
//! `Packed` holds `[n, taps, cin]` values in its layout, zero beyond `n`. Vectors such as a bias
//! are f32, valid for the columns used, or null where a field says so. A `Tile` lies within the
//! `Grid` that made it.

// Nearly every expression here is an unsafe operation under the contract above, so blocks around
// each would say nothing and hide the arithmetic.
#![allow(unsafe_op_in_unsafe_fn)]

pub(crate) mod activations;
#[cfg(target_arch = "x86_64")]
mod amx;
pub(crate) mod epilogue;
pub(crate) mod grid;
pub(crate) mod int16;
pub(crate) mod int8;
pub(crate) mod int8_rows;
pub(crate) mod linear;
pub(crate) mod matmul;
pub(crate) mod micro;
pub(crate) mod pair_panels;
pub(crate) mod pairs;
pub(crate) mod panels;
pub(crate) mod prologue;
pub(crate) mod q8;
pub(crate) mod q8_panels;
pub(crate) mod rates;
pub(crate) mod slot;
pub(crate) mod weights;

#[cfg(test)]
mod tests;
