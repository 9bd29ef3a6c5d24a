//! Runs a planned graph on the CPU.
//!
//! Kernels are generic over a vector level chosen at run time (`simd`); products, convolutions and
//! attention share one register-tile kernel (`gemm::micro`). [`Cpu`] is the device: it owns its
//! threads, loads weights into the layouts the kernels read (`params`), and opens sessions
//! (`exec`).
//!
//! # Safety
//!
//! Kernels take raw pointers, because the plan and not the borrow checker decides which bytes of
//! the arena an op reads and writes. `exec::bind` is where kernels are called from. It keeps the
//! following promises, and every `unsafe fn` of this crate may rely on them; what a module or a
//! function needs beyond is in its own `# Safety` section.
//!
//! - **Level.** A [`Level`] that is passed down is one that this machine has.
//! - **Views.** A `View` stands for a whole tensor of the shape that the op was planned with,
//!   aligned to its dtype. Only the elements that the step's rows depend on are sure to be in
//!   memory, and only those may be touched.
//! - **Rows.** The `Range` of rows that a kernel gets lies within the output's shape. No other code
//!   touches these rows of the output meanwhile. They do not overlap an operand, except where the
//!   graph lets an op work in place; such an op reads each element before it writes it.
//! - **Tasks.** The tasks that a kernel hands to its `Team` write disjoint parts of the output.
//! - **Scratch.** A `Carver` gives memory of the running thread alone, and checks its size. The
//!   memory is initialized, but holds what earlier tasks left there.

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
mod split;
mod stream;
mod team;
#[cfg(test)]
mod testing;
mod threads;
mod topology;

pub use device::{Cpu, CpuError, CpuOptions};
pub use roofline::{bf16_products, features};
pub use simd::Level;
