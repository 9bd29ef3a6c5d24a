//! Recorded dispatches: chunks of a session's steps in secondary command buffers, replayed through
//! wgpu's encoders, so that submitting, waiting and losing the device stay wgpu's.

use std::collections::BTreeMap;
use std::sync::Arc;

use ash::vk;

use super::bind::Work;
use super::{Api, Vulkan, gpu_error};
use crate::hazard::Hazards;
use crate::kernel::Dispatch;
use crate::session::StepRun;
use crate::{Gpu, GpuError};

/// The chunks of one session. Whoever drops it has waited for the device.
#[derive(Debug)]
pub(crate) struct Recorder {
    vulkan: Arc<Vulkan>,
    pool: vk::CommandPool,
    /// The chunks of recorded steps, by the index of the first step.
    chunks: BTreeMap<usize, Chunk>,
}

#[derive(Clone, Copy, Debug)]
struct Chunk {
    n_steps: usize,
    commands: vk::CommandBuffer,
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // SAFETY: nothing recorded from this pool is running any more (`GpuSession::drop` waits).
        unsafe { self.vulkan.device.destroy_command_pool(self.pool, None) };
    }
}

impl Recorder {
    pub(crate) fn new(vulkan: &Arc<Vulkan>) -> Result<Recorder, GpuError> {
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(vulkan.family);
        // SAFETY: the family is that of the device's one queue.
        let pool = unsafe { vulkan.device.create_command_pool(&info, None) };
        Ok(Recorder {
            vulkan: Arc::clone(vulkan),
            pool: pool.map_err(|e| gpu_error("recording", e))?,
            chunks: BTreeMap::new(),
        })
    }

    /// How many steps the chunk that begins with step `first` has, if there is one.
    pub(crate) fn recorded(&self, first: usize) -> Option<usize> {
        self.chunks.get(&first).map(|chunk| chunk.n_steps)
    }

    /// Submits `steps`, recorded now if they are not yet. Nothing that begins with the same step
    /// may still be running.
    pub(crate) fn submit(
        &mut self,
        gpu: &Gpu,
        steps: &[StepRun],
    ) -> Result<wgpu::SubmissionIndex, GpuError> {
        let commands = self.chunk(steps)?;
        let vulkan = &self.vulkan;
        run(gpu, "submit", |primary| {
            vulkan.barrier(primary, EVERYTHING);
            // SAFETY: a finished recording that is not running, kept until the device is done.
            unsafe { vulkan.device.cmd_execute_commands(primary, &[commands]) };
            vulkan.barrier(primary, EVERYTHING);
        })
    }

    fn chunk(&mut self, steps: &[StepRun]) -> Result<vk::CommandBuffer, GpuError> {
        let first = steps[0].index;
        if let Some(old) = self.chunks.get(&first).copied() {
            if old.n_steps == steps.len() {
                return Ok(old.commands);
            }
            self.chunks.remove(&first);
            // SAFETY: not running, as the caller promises.
            unsafe {
                self.vulkan
                    .device
                    .free_command_buffers(self.pool, &[old.commands]);
            }
        }
        let commands = self.record(steps).map_err(|e| gpu_error("recording", e))?;
        let n_steps = steps.len();
        self.chunks.insert(first, Chunk { n_steps, commands });
        Ok(commands)
    }

    fn record(&self, steps: &[StepRun]) -> Result<vk::CommandBuffer, vk::Result> {
        let device = &self.vulkan.device;
        let info = vk::CommandBufferAllocateInfo::default()
            .command_pool(self.pool)
            .level(vk::CommandBufferLevel::SECONDARY)
            .command_buffer_count(1);
        let inherited = vk::CommandBufferInheritanceInfo::default();
        let begin = vk::CommandBufferBeginInfo::default().inheritance_info(&inherited);
        // SAFETY: `&mut self` of the callers keeps others from the pool.
        let made = unsafe { device.allocate_command_buffers(&info) }?;
        let commands = made.first().copied().ok_or(vk::Result::ERROR_UNKNOWN)?;
        // SAFETY: a new buffer, begun and ended here.
        unsafe { device.begin_command_buffer(commands, &begin) }?;
        let dispatches = steps.iter().flat_map(|s| &s.dispatches);
        let barriers = self.vulkan.record(commands, dispatches);
        let n: usize = steps.iter().map(|s| s.dispatches.len()).sum();
        tracing::debug!(dispatches = n, barriers, "recorded");
        // SAFETY: as above.
        unsafe { device.end_command_buffer(commands) }?;
        Ok(commands)
    }
}

/// Any use of memory before a barrier is over before any use after it.
const EVERYTHING: Uses = Uses {
    stages: vk::PipelineStageFlags::ALL_COMMANDS,
    writes: vk::AccessFlags::MEMORY_WRITE,
    reads: vk::AccessFlags::MEMORY_READ,
};

/// Kernels only: less to flush (2 of 40 ms of an SDXL step on an H200). Of which stage a PTX kernel
/// is, its extension does not say; its accesses are like a shader's.
const KERNELS: Uses = Uses {
    stages: vk::PipelineStageFlags::COMPUTE_SHADER,
    writes: vk::AccessFlags::SHADER_WRITE,
    reads: vk::AccessFlags::SHADER_READ,
};
const PTX_KERNELS: Uses = Uses {
    stages: vk::PipelineStageFlags::ALL_COMMANDS,
    ..KERNELS
};

/// What a barrier is between.
#[derive(Clone, Copy)]
struct Uses {
    stages: vk::PipelineStageFlags,
    writes: vk::AccessFlags,
    reads: vk::AccessFlags,
}

impl Vulkan {
    fn barrier(&self, commands: vk::CommandBuffer, uses: Uses) {
        let stages = uses.stages;
        let memory = vk::MemoryBarrier::default()
            .src_access_mask(uses.writes)
            .dst_access_mask(uses.reads | uses.writes);
        let flags = vk::DependencyFlags::empty();
        // SAFETY: `commands` is being recorded, outside any render pass.
        unsafe {
            self.device
                .cmd_pipeline_barrier(commands, stages, stages, flags, &[memory], &[], &[]);
        }
    }

    /// Records dispatches with barriers between those that need them, none before the first, and
    /// says how many.
    fn record<'a>(
        &self,
        commands: vk::CommandBuffer,
        dispatches: impl Iterator<Item = &'a Dispatch>,
    ) -> usize {
        let mut barriers = 0;
        let mut hazards = Hazards::default();
        let mut bound = vk::Pipeline::null();
        let mut uses = KERNELS;
        for dispatch in dispatches.filter(|d| !d.groups.contains(&0)) {
            let Some(kernel) = dispatch.recorded() else {
                continue;
            };
            if matches!(kernel.work, Work::Ptx { .. }) {
                uses = PTX_KERNELS;
            }
            if hazards.barrier_before(&kernel.touches) {
                self.barrier(commands, uses);
                barriers += 1;
            }
            match (&kernel.work, &self.cuda) {
                (Work::Shader { pipeline, set, .. }, _) => {
                    if bound != pipeline.raw {
                        let point = vk::PipelineBindPoint::COMPUTE;
                        // SAFETY: `commands` is being recorded; dispatches keep their pipelines.
                        unsafe {
                            self.device.cmd_bind_pipeline(commands, point, pipeline.raw);
                        }
                        bound = pipeline.raw;
                    }
                    self.dispatch(commands, pipeline.layout, *set, dispatch);
                }
                (
                    Work::Ptx {
                        function,
                        addresses,
                        words,
                    },
                    Some(cuda),
                ) => {
                    cuda.launch(commands, *function, (addresses, words), dispatch.groups);
                    // What a launch leaves bound, the extension does not say either.
                    bound = vk::Pipeline::null();
                }
                (Work::Ptx { .. }, None) => unreachable!("bound on another device"),
            }
        }
        barriers
    }

    fn dispatch(
        &self,
        commands: vk::CommandBuffer,
        layout: vk::PipelineLayout,
        set: vk::DescriptorSet,
        dispatch: &Dispatch,
    ) {
        let device = &self.device;
        let point = vk::PipelineBindPoint::COMPUTE;
        let [x, y, z] = dispatch.groups;
        // SAFETY: `commands` is being recorded; pipeline, layout and set agree, since they were
        // made for the same kernel; the parameters fit the layout's range.
        unsafe {
            device.cmd_bind_descriptor_sets(commands, point, layout, 0, &[set], &[]);
            if !dispatch.params.is_empty() {
                let stage = vk::ShaderStageFlags::COMPUTE;
                device.cmd_push_constants(commands, layout, stage, 0, &dispatch.params);
            }
            device.cmd_dispatch(commands, x, y, z);
        }
    }

    /// Runs each of `parts` after the one before it and gives the device's seconds for each.
    pub(crate) fn timed<'a, I>(
        &self,
        gpu: &Gpu,
        parts: impl ExactSizeIterator<Item = I>,
    ) -> Result<Vec<f64>, GpuError>
    where
        I: Iterator<Item = &'a Dispatch>,
    {
        let fail = |e| gpu_error("timestamps", e);
        let count = parts.len() as u32 * 2;
        let info = vk::QueryPoolCreateInfo::default()
            .query_type(vk::QueryType::TIMESTAMP)
            .query_count(count);
        // SAFETY: callers ask only where the device has timestamps.
        let pool = unsafe { self.device.create_query_pool(&info, None) }.map_err(fail)?;
        let mut ticks = vec![0u64; count as usize];
        let ran = run(gpu, "profile", |commands| {
            let stage = vk::PipelineStageFlags::BOTTOM_OF_PIPE;
            // SAFETY: `commands` is being recorded, and the pool lives until the device is done.
            unsafe { self.device.cmd_reset_query_pool(commands, pool, 0, count) };
            for (i, part) in parts.enumerate() {
                self.barrier(commands, EVERYTHING);
                let at = i as u32 * 2;
                // SAFETY: as above; each query is written once.
                unsafe { self.device.cmd_write_timestamp(commands, stage, pool, at) };
                self.record(commands, part);
                // SAFETY: as above.
                unsafe {
                    self.device
                        .cmd_write_timestamp(commands, stage, pool, at + 1);
                }
            }
            self.barrier(commands, EVERYTHING);
        });
        let waited = ran.and_then(|_| gpu.wait());
        let read = waited.and_then(|()| {
            let flags = vk::QueryResultFlags::TYPE_64;
            // SAFETY: the device is done with the pool, and `ticks` holds all of it.
            let read = unsafe {
                self.device
                    .get_query_pool_results(pool, 0, &mut ticks, flags)
            };
            read.map_err(fail)
        });
        // SAFETY: the device is done with the pool, or lost.
        unsafe { self.device.destroy_query_pool(pool, None) };
        read?;
        Ok(gpu.seconds(&ticks))
    }
}

/// Submits what `f` records.
fn run(
    gpu: &Gpu,
    what: &str,
    f: impl FnOnce(vk::CommandBuffer),
) -> Result<wgpu::SubmissionIndex, GpuError> {
    gpu.scoped(what, 0, || {
        let mut encoder = gpu
            .device
            .create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        // SAFETY: `f` only adds commands, and the encoder is not used meanwhile.
        unsafe {
            encoder.as_hal_mut::<Api, _, _>(|hal| hal.map(|hal| f(hal.raw_handle())));
        }
        gpu.queue.submit([encoder.finish()])
    })
}
