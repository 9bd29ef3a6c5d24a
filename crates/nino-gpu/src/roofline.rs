//! What the device can do at best: copy bandwidth and arithmetic, measured.

use nino_dtype::DType;

use crate::kernel::{Launch, View};
use crate::shader::KernelKey;
use crate::{Gpu, GpuError, Tier};

/// Measured ceilings.
#[derive(Clone, Copy, Debug)]
pub struct Roofline {
    /// Bytes a second, reads plus writes.
    pub copy_bytes: f64,
    /// f32 operations a second; a multiply-add is two.
    pub f32_flops: f64,
    /// f16-in, f32-accumulate operations a second on cooperative matrices.
    pub coop_flops: Option<f64>,
}

impl Gpu {
    /// Measures for about a second on a GPU; `copy_bytes` is the size of the two buffers copied.
    pub fn roofline(&self, copy_bytes: u64) -> Result<Roofline, GpuError> {
        let limit = self.limits.max_storage_buffer_binding_size;
        let bytes = copy_bytes.min(limit - 32).min(1 << 30) / 4096 * 4096;
        let from = self.buffer("copy source", bytes)?;
        let to = self.buffer("copy target", bytes)?;
        let words = (bytes / 16) as u32;
        let groups = (words / 256).clamp(1, 8192);
        let copy = Launch {
            kernel: KernelKey::new("copy").into(),
            views: vec![View::whole(&to, DType::F32), View::whole(&from, DType::F32)],
            writes: 1,
            params: vec![words, groups * 256],
            groups: [groups, 1, 1],
        };
        let seconds = self.settle(&copy)?;
        let copy_rate = 2.0 * bytes as f64 / seconds;
        let f32_flops = self.peak(&to, None)?;
        let coop = (self.caps.tier >= Tier::Coop)
            .then(|| self.peak(&to, Some(0)))
            .transpose()?;
        Ok(Roofline {
            copy_bytes: copy_rate,
            f32_flops,
            coop_flops: coop,
        })
    }

    /// Operations a second of the `peak` kernel; `coop` is how many operands each round of 16
    /// cooperative products reads from shared memory.
    pub fn peak(&self, out: &wgpu::Buffer, coop: Option<u32>) -> Result<f64, GpuError> {
        let software = self.info.kind == crate::AdapterKind::Software;
        let (groups, steps) = if software { (4, 64) } else { (2112, 512) };
        let side = self.caps.coop_size.unwrap_or(16);
        let mut key = KernelKey::new("peak");
        let mut flops = 256.0 * 128.0;
        if let Some(reads) = coop {
            let lanes = self.caps.subgroup_size();
            key = key
                .with("COOP", 1)
                .with("TS", side)
                .with("SH", reads)
                .with("SG", lanes);
            flops = f64::from(256 / lanes) * 16.0 * 2.0 * f64::from(side).powi(3);
        }
        let launch = Launch {
            kernel: key.into(),
            views: vec![View::whole(out, DType::F32)],
            writes: 1,
            params: vec![steps, 0.5f32.to_bits(), 1],
            groups: [groups, 1, 1],
        };
        let seconds = self.settle(&launch)?;
        Ok(flops * f64::from(groups) * f64::from(steps) / seconds)
    }

    /// Seconds a run takes once clocks have risen: median of batches after a warm-up.
    pub fn settle(&self, launch: &Launch<'_>) -> Result<f64, GpuError> {
        let dispatch = self.dispatch(launch)?;
        let once = self.time(&dispatch, 1)?.max(1e-6);
        let batch = ((0.02 / once) as u32).clamp(1, 1000);
        let warm = std::time::Instant::now();
        while warm.elapsed().as_secs_f64() < 0.2 {
            self.time(&dispatch, batch)?;
        }
        let mut times = Vec::new();
        for _ in 0..5 {
            times.push(self.time(&dispatch, batch)? / f64::from(batch));
        }
        times.sort_by(f64::total_cmp);
        Ok(times[2])
    }
}
