//! Runs a planned graph on a GPU through wgpu.
//!
//! `Adapters` says what there is, `Gpu` is an open device, kernels are WGSL under `shaders/`.

#![cfg_attr(
    not(any(target_os = "linux", target_os = "windows")),
    allow(dead_code) // what only recordings for Vulkan use
)]

mod adapter;
mod block;
mod caps;
mod device;
mod error;
mod exec;
mod hazard;
mod kernel;
mod kernels;
mod lower;
mod memory;
pub mod ops;
mod pages;
mod passes;
mod pipeline;
mod probe;
mod profile;
mod roofline;
mod session;
mod shader;
mod shares;
#[cfg(any(target_os = "linux", target_os = "windows"))]
mod spirv;
mod submit;
#[cfg(test)]
mod testing;
mod transfer;
mod trial;
mod tune;
mod tuning;
#[cfg_attr(
    not(any(target_os = "linux", target_os = "windows")),
    path = "vulkan/absent.rs"
)]
mod vulkan;
mod weights;

pub use adapter::{AdapterInfo, AdapterKind, Adapters, Tier};
pub use caps::{Arch, Caps};
pub use device::{Gpu, OpenOptions};
pub use error::GpuError;
pub use exec::GpuDevice;
pub use kernel::{Dispatch, Launch, View};
pub use kernels::{PlannedLaunch, kernels};
pub use memory::{MemoryReading, MemorySource, host as host_memory};
pub use roofline::Roofline;
pub use shader::KernelKey;
pub use shares::Shares;
#[cfg(any(target_os = "linux", target_os = "windows"))]
pub use spirv::{PARAM_BYTES, Spirv, spirv_version};
pub use trial::Trial;
pub use tune::{Tuned, problems};
pub use tuning::{Choices, Numbers, Problem, TiledKernel, Tiles};
