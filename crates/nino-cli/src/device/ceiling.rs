//! What a device can do at best, measured: copy bandwidth and arithmetic.

use anyhow::{Context, Result};
use nino_cpu::Cpu;
use nino_gpu::Gpu;

/// Rates a second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ceiling {
    /// Reads plus writes.
    pub(crate) copy_bytes: f64,
    /// A multiply-add is two.
    pub(crate) flops: f64,
}

/// Well beyond any cache.
const GPU_COPY_BYTES: u64 = 256 << 20;

pub(super) fn gpu(gpu: &Gpu) -> Result<Ceiling> {
    let roofline = gpu.roofline(GPU_COPY_BYTES)?;
    Ok(Ceiling {
        copy_bytes: roofline.copy_bytes,
        flops: roofline.coop_flops.unwrap_or(roofline.f32_flops),
    })
}

pub(super) fn cpu(cpu: &Cpu) -> Result<Ceiling> {
    let copy = cpu
        .copy_bandwidth()
        .context("no memory to measure the copy bandwidth with")?;
    Ok(Ceiling {
        copy_bytes: copy * 1e9,
        flops: cpu.peak_gflops() * 1e9,
    })
}
