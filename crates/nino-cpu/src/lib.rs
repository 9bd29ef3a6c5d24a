//! Runs a planned graph on the CPU.
//!
//! Kernels are generic over a vector level chosen at run time (`simd`); products, convolutions and
//! attention share one register-tile kernel (`gemm::micro`). [`Cpu`] is the device: it owns its
//! threads, loads weights into the layouts the kernels read (`params`), and opens sessions (`exec`).

// Kernels are unsafe from end to end: each states its contract once, at the function.
#![allow(unsafe_op_in_unsafe_fn)]
// Vector code must end up inside the function that enables an instruction set; see `simd`.
#![allow(clippy::inline_always)]
// Register tiles are indexed in lockstep.
#![allow(clippy::needless_range_loop)]
// Intrinsics are named by the hundred.
#![allow(clippy::wildcard_imports)]

mod act;
mod attention;
mod conv;
mod device;
mod exec;
mod gemm;
mod memory;
mod ops;
mod params;
mod roofline;
mod simd;
mod spill;
mod stream;
mod team;
#[cfg(test)]
mod testing;
mod threads;

pub use device::{Cpu, CpuError, CpuOptions};
pub use roofline::features;
pub use simd::Level;
