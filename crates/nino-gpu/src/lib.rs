//! Runs a planned graph on a GPU through wgpu.
//!
//! `Adapters` says what there is, `Gpu` is an open device, kernels are WGSL under `shaders/`.

#![cfg_attr(
    not(any(target_os = "linux", target_os = "windows")),
    allow(dead_code) // what only recordings for Vulkan use
)]

mod adapter;
mod block;
mod device;
mod error;
mod exec;
mod hazard;
mod kernel;
mod lower;
mod memory;
pub mod ops;
mod passes;
mod pipeline;
mod probe;
mod profile;
mod roofline;
mod session;
mod shader;
mod submit;
#[cfg(test)]
mod testing;
mod transfer;
#[cfg_attr(
    not(any(target_os = "linux", target_os = "windows")),
    path = "vulkan/absent.rs"
)]
mod vulkan;
mod weights;

pub use adapter::{AdapterInfo, AdapterKind, Adapters, Tier};
pub use device::{Gpu, OpenOptions};
pub use error::GpuError;
pub use exec::GpuDevice;
pub use kernel::{Dispatch, Launch, View};
pub use memory::{MemoryReading, MemorySource, host as host_memory};
pub use roofline::Roofline;
pub use shader::KernelKey;
