//! Kernels in PTX for NVIDIA devices whose Vulkan driver takes them (VK_NVX_binary_import): the
//! instructions that fill shared memory and feed the matrix units, which SPIR-V cannot say.
//!
//! This crate only writes text; `nino-gpu` chooses, compiles and launches.

mod asm;
pub mod attention;
pub mod gemm;
mod probe;
mod ring;
mod softmax;
mod swizzle;
mod wgmma;
pub mod wide;

pub use probe::PROBE_THREADS;

/// The multiprocessors of an H200, on which tiles were chosen. On another device the kernels work
/// as well, but another choice of tiles could be faster.
pub const MULTIPROCESSORS: u32 = 132;

/// The instructions that a kernel may use, as PTX names them. A device takes all targets up to its
/// own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Ampere and everything after it: `mma`, `cp.async`.
    Sm80,
    /// Hopper alone: `wgmma`.
    Sm90a,
}

impl Target {
    pub const fn name(self) -> &'static str {
        match self {
            Target::Sm80 => "sm_80",
            Target::Sm90a => "sm_90a",
        }
    }

    /// Bytes of shared memory that a kernel may use. More than 48 KiB are there on compute queues,
    /// where the driver then gives a multiprocessor one workgroup.
    pub const fn shared(self) -> u32 {
        match self {
            Target::Sm80 => 48 << 10,
            Target::Sm90a => 227 << 10,
        }
    }
}

/// Names a kernel. Two keys are equal where the texts of their kernels would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PtxKey {
    Attention(attention::AttentionKernel),
    Probe(Target),
    Gemm(gemm::GemmKernel),
    Wide(wide::WideKernel),
}

impl PtxKey {
    pub fn kernel(self) -> PtxKernel {
        match self {
            PtxKey::Attention(attention) => attention.kernel(),
            PtxKey::Probe(target) => probe::kernel(target),
            PtxKey::Gemm(gemm) => gemm.kernel(),
            PtxKey::Wide(wide) => wide.kernel(),
        }
    }
}

/// A kernel as text. Its parameters are the addresses of a launch's views (`.u64` each, of the byte
/// the view starts with), then the launch's words (`.u32` each).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxKernel {
    /// The entry's name, different for different texts.
    pub name: String,
    pub text: String,
    pub threads: u32,
    /// Bytes of shared memory, `Target::shared` at most: a device is lost above what it has.
    pub shared: u32,
}
