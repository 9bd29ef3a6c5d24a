//! Device-event times: what a dispatch takes on the GPU itself.

use crate::kernel::Dispatch;
use crate::{Gpu, GpuError};

impl Gpu {
    /// Seconds for `repeats` runs of `dispatch` back to back, by timestamp queries; wall time
    /// where the device has none.
    pub fn time(&self, dispatch: &Dispatch, repeats: u32) -> Result<f64, GpuError> {
        let sets = self
            .features
            .contains(wgpu::Features::TIMESTAMP_QUERY)
            .then(|| {
                self.device.create_query_set(&wgpu::QuerySetDescriptor {
                    label: None,
                    ty: wgpu::QueryType::Timestamp,
                    count: 2,
                })
            });
        let out = self.raw_buffer(
            "timestamps",
            16,
            wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC,
            false,
        )?;
        let table = if self.pipelines.immediates {
            None
        } else {
            Some(crate::submit::table(self, std::iter::once(dispatch))?)
        };
        let start = std::time::Instant::now();
        self.scoped(&dispatch.pipeline.label, 0, || {
            let mut encoder = self
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            {
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                    label: None,
                    timestamp_writes: sets.as_ref().map(|query_set| {
                        wgpu::ComputePassTimestampWrites {
                            query_set,
                            beginning_of_pass_write_index: Some(0),
                            end_of_pass_write_index: Some(1),
                        }
                    }),
                });
                for _ in 0..repeats {
                    dispatch.encode(&mut pass, table.as_ref().map(|t| (t, 0)));
                }
            }
            if let Some(set) = &sets {
                encoder.resolve_query_set(set, 0..2, &out, 0);
            }
            self.queue.submit([encoder.finish()]);
        })?;
        self.wait()?;
        if sets.is_none() {
            return Ok(start.elapsed().as_secs_f64());
        }
        let bytes = self.read(&out, 0, 16)?;
        let tick =
            |i: usize| u64::from_le_bytes(bytes[i * 8..i * 8 + 8].try_into().unwrap_or([0; 8]));
        let ticks = tick(1).saturating_sub(tick(0));
        Ok(ticks as f64 * f64::from(self.queue.get_timestamp_period()) * 1e-9)
    }
}
