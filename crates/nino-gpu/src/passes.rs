//! Dispatches in wgpu's compute passes: any backend, a barrier between any two dispatches.

use crate::kernel::Dispatch;
use crate::session::StepRun;
use crate::{Gpu, GpuError};

/// Parameters of a dispatch in the uniform table: one dynamic offset apart.
const SLOT: u32 = 256;

#[derive(Debug)]
pub(crate) struct Passes {
    /// Parameters of all dispatches where the device has no immediates.
    table: Option<wgpu::BindGroup>,
}

impl Passes {
    pub(crate) fn new<'a>(
        gpu: &Gpu,
        dispatches: impl Iterator<Item = &'a Dispatch>,
    ) -> Result<Passes, GpuError> {
        let table = if gpu.pipelines.immediates {
            None
        } else {
            Some(table(gpu, dispatches)?)
        };
        Ok(Passes { table })
    }

    pub(crate) fn submit(
        &self,
        gpu: &Gpu,
        steps: &[StepRun],
    ) -> Result<wgpu::SubmissionIndex, GpuError> {
        gpu.scoped("submit", 0, || {
            let mut encoder = gpu
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            self.encode(&mut pass, steps.iter().flat_map(|s| &s.dispatches));
            drop(pass);
            gpu.queue.submit([encoder.finish()])
        })
    }

    fn encode<'a>(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        dispatches: impl Iterator<Item = &'a Dispatch>,
    ) {
        for dispatch in dispatches {
            let slot = self.table.as_ref().map(|t| (t, dispatch.slot * SLOT));
            dispatch.encode(pass, slot);
        }
    }

    /// Runs each of `parts` in a pass of its own and gives the device's seconds for each. The
    /// device has timestamps.
    pub(crate) fn timed<'a, I>(
        &self,
        gpu: &Gpu,
        parts: impl ExactSizeIterator<Item = I>,
    ) -> Result<Vec<f64>, GpuError>
    where
        I: Iterator<Item = &'a Dispatch>,
    {
        let count = parts.len() as u32 * 2;
        let bytes = u64::from(count) * 8;
        let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
        let ticks = gpu.raw_buffer("timestamps", bytes, usage)?;
        gpu.scoped("profile", 0, || {
            let set = gpu.device.create_query_set(&wgpu::QuerySetDescriptor {
                label: None,
                ty: wgpu::QueryType::Timestamp,
                count,
            });
            let mut encoder = gpu
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            for (i, part) in parts.enumerate() {
                let writes = wgpu::ComputePassTimestampWrites {
                    query_set: &set,
                    beginning_of_pass_write_index: Some(i as u32 * 2),
                    end_of_pass_write_index: Some(i as u32 * 2 + 1),
                };
                let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor {
                    label: None,
                    timestamp_writes: Some(writes),
                });
                self.encode(&mut pass, part);
            }
            encoder.resolve_query_set(&set, 0..count, &ticks, 0);
            gpu.queue.submit([encoder.finish()]);
        })?;
        let raw = gpu.read(&ticks, 0, bytes as usize)?;
        let ticks: Vec<u64> = raw
            .chunks_exact(8)
            .map(|c| u64::from_le_bytes(c.try_into().unwrap_or_default()))
            .collect();
        Ok(gpu.seconds(&ticks))
    }

    /// Wall time of dispatches, for devices without timestamps.
    pub(crate) fn clocked<'a>(
        &self,
        gpu: &Gpu,
        dispatches: impl Iterator<Item = &'a Dispatch>,
    ) -> Result<f64, GpuError> {
        let start = std::time::Instant::now();
        gpu.scoped("profile", 0, || {
            let mut encoder = gpu
                .device
                .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            self.encode(&mut pass, dispatches);
            drop(pass);
            gpu.queue.submit([encoder.finish()]);
        })?;
        gpu.wait()?;
        Ok(start.elapsed().as_secs_f64())
    }
}

/// The parameters of all dispatches, each at its slot.
fn table<'a>(
    gpu: &Gpu,
    dispatches: impl Iterator<Item = &'a Dispatch>,
) -> Result<wgpu::BindGroup, GpuError> {
    let mut bytes = Vec::new();
    for dispatch in dispatches {
        bytes.resize((dispatch.slot * SLOT) as usize, 0);
        bytes.extend(&dispatch.params);
    }
    bytes.resize(
        bytes
            .len()
            .next_multiple_of(SLOT as usize)
            .max(SLOT as usize),
        0,
    );
    let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
    let buffer = gpu.raw_buffer("parameters", bytes.len() as u64, usage)?;
    gpu.write(&buffer, 0, &bytes)?;
    gpu.uniform_group(&buffer)
}
