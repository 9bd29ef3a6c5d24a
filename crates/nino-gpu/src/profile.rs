//! Device-event times: what a dispatch takes on the GPU itself.

use crate::kernel::Dispatch;
use crate::passes::Passes;
use crate::{Gpu, GpuError};

impl Gpu {
    /// Seconds for `repeats` runs of `dispatch` back to back, by timestamp queries; wall time
    /// where the device has none.
    pub fn time(&self, dispatch: &Dispatch, repeats: u32) -> Result<f64, GpuError> {
        let all = std::iter::repeat_n(dispatch, repeats as usize);
        if let Some(vulkan) = &self.vulkan {
            let times = vulkan.timed(self, std::iter::once(all))?;
            return Ok(times.iter().sum());
        }
        let passes = Passes::new(self, std::iter::once(dispatch))?;
        if !self.has_timestamps() {
            return passes.clocked(self, all);
        }
        let times = passes.timed(self, std::iter::once(all))?;
        Ok(times.iter().sum())
    }

    pub(crate) fn has_timestamps(&self) -> bool {
        self.features.contains(wgpu::Features::TIMESTAMP_QUERY)
    }

    /// Seconds between each pair of timestamps.
    pub(crate) fn seconds(&self, ticks: &[u64]) -> Vec<f64> {
        let period = f64::from(self.queue.get_timestamp_period()) * 1e-9;
        let pairs = ticks.chunks_exact(2);
        pairs
            .map(|t| t[1].saturating_sub(t[0]) as f64 * period)
            .collect()
    }
}
