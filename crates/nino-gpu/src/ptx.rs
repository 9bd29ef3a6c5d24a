//! Kernels in PTX for NVIDIA devices whose Vulkan driver takes them (VK_NVX_binary_import): the
//! instructions that fill shared memory and feed the matrix units, which SPIR-V cannot say.

pub(crate) mod asm;

/// A kernel as text. Its parameters are the addresses of a launch's views (`.u64` each, of the byte
/// the view starts with), then the launch's words (`.u32` each).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PtxKernel {
    /// The entry's name, different for different texts.
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) threads: u32,
    /// Bytes of shared memory, 48 KiB at most: drivers lose the device above that.
    pub(crate) shared: u32,
}
