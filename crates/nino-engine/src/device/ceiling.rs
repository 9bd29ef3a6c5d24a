//! What a device can do at best, measured: copy bandwidth and arithmetic.

use super::DeviceError;
use nino_cpu::Cpu;
use nino_gpu::{AdapterKind, Gpu};

/// Rates a second.
#[derive(Clone, Copy, Debug)]
pub struct Ceiling {
    /// Bytes of a copy, reads plus writes.
    pub copy_bytes: f64,
    /// Arithmetic; a multiply-add is two.
    pub flops: f64,
}

/// The size of each of the two blocks that are copied.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyBytes {
    cpu: usize,
    gpu: u64,
}

/// Well beyond any cache, for a bench.
pub(super) const LARGE: CopyBytes = CopyBytes {
    cpu: 128 << 20,
    gpu: 256 << 20,
};

/// For an estimate, beside a plan that may need all memory there is. A last cache of more than the
/// two blocks together makes copies look faster than they are.
pub(super) const SMALL: CopyBytes = CopyBytes {
    cpu: 16 << 20,
    gpu: 24 << 20,
};

/// For an estimate on a GPU. A card's own memory is not the program's, and its caches may be larger
/// than the small blocks.
pub(super) fn beside_a_plan(gpu: &Gpu) -> CopyBytes {
    match gpu.info.kind {
        AdapterKind::Discrete => LARGE,
        _ => SMALL,
    }
}

pub(super) fn gpu(gpu: &Gpu, copy: CopyBytes) -> Result<Ceiling, DeviceError> {
    let roofline = gpu.roofline(copy.gpu)?;
    Ok(Ceiling {
        copy_bytes: roofline.copy_bytes,
        flops: roofline.coop_flops.unwrap_or(roofline.f32_flops),
    })
}

pub(super) fn cpu(cpu: &Cpu, copy: CopyBytes) -> Result<Ceiling, DeviceError> {
    let bytes = 2 * copy.cpu;
    let rate = cpu
        .copy_bandwidth(copy.cpu)
        .ok_or(DeviceError::NoMemory { bytes })?;
    Ok(Ceiling {
        copy_bytes: rate * 1e9,
        flops: cpu.peak_gflops() * 1e9,
    })
}
