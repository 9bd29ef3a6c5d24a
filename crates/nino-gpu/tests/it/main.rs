//! The GPU executor on every adapter of this machine. Where there is none, each test says so and
//! passes, or fails under `NINO_REQUIRE_GPU=1`.

#![allow(clippy::unwrap_used, clippy::print_stdout)] // helpers outside test functions

mod amd;
mod halves;
mod int8;
mod large;
mod open;
mod record;
mod spill;
mod stream;
mod suite;
mod waves;

use nino_gpu::{Adapters, Gpu, GpuDevice, Tier};

/// The adapters of this machine; none where a test without a GPU may be skipped.
fn adapters() -> Adapters {
    let adapters = Adapters::enumerate();
    nino_testing::gpu_or_skip(adapters.reason.as_deref());
    adapters
}

/// Opens every adapter, at its best tier or at a lower one.
fn devices(tier: Option<Tier>) -> Vec<GpuDevice> {
    let gpus = Gpu::open_all(&adapters(), tier).unwrap();
    gpus.into_iter().map(GpuDevice::new).collect()
}
