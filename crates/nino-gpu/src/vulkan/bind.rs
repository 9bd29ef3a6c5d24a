//! A kernel with the buffers it works on: descriptor sets, taken from pools that go when the last
//! dispatch that uses them goes.

use std::sync::{Arc, PoisonError};

use ash::vk;

use super::cuda::Function;
use super::{Api, Pipeline, Vulkan, gpu_error};
use crate::GpuError;
use crate::hazard::Touch;
use crate::kernel::{Binding, Launch};
use nino_ptx::PtxKey;

/// What a recording needs of one dispatch.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(super) work: Work,
    pub(super) touches: Vec<Touch>,
    /// wgpu does not see that these are used, so they are kept here.
    _buffers: Vec<wgpu::Buffer>,
}

#[derive(Debug)]
pub(super) enum Work {
    Shader {
        pipeline: Arc<Pipeline>,
        set: vk::DescriptorSet,
        _pool: Arc<SetPool>,
    },
    Ptx {
        function: Function,
        addresses: Vec<u64>,
        words: Vec<u32>,
    },
}

/// Sets of one pool, and storage buffers in all of them.
const POOL_SETS: u32 = 256;
const POOL_BUFFERS: u32 = 4 * POOL_SETS;

#[derive(Debug)]
pub(super) struct SetPool {
    raw: vk::DescriptorPool,
    vulkan: Arc<Vulkan>,
}

impl Drop for SetPool {
    fn drop(&mut self) {
        // SAFETY: dispatches keep their pool, and who runs them waits before dropping them.
        unsafe { self.vulkan.device.destroy_descriptor_pool(self.raw, None) };
    }
}

impl Vulkan {
    pub(crate) fn bind(
        self: &Arc<Vulkan>,
        pipeline: &Arc<Pipeline>,
        launch: &Launch<'_>,
        bindings: &[Binding<'_>],
    ) -> Result<Bound, GpuError> {
        assert!(
            pipeline.writes <= launch.writes,
            "{}: writes more than its launch says",
            launch.label()
        );
        let handles = bindings.iter().map(|b| handle(b.buffer));
        let handles = handles.collect::<Result<Vec<vk::Buffer>, _>>()?;
        let infos: Vec<_> = bindings
            .iter()
            .zip(&handles)
            .map(|(b, &buffer)| {
                [vk::DescriptorBufferInfo::default()
                    .buffer(buffer)
                    .offset(b.offset)
                    .range(b.bytes)]
            })
            .collect();
        let (set, pool) = self.set(pipeline).map_err(|e| gpu_error("a binding", e))?;
        let writes: Vec<_> = infos
            .iter()
            .enumerate()
            .map(|(i, info)| {
                vk::WriteDescriptorSet::default()
                    .dst_set(set)
                    .dst_binding(i as u32)
                    .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                    .buffer_info(info)
            })
            .collect();
        // SAFETY: a new set of the layout these bindings were counted for, in no use yet; offsets
        // are aligned and ranges inside their buffers (`Gpu::bindings`).
        unsafe { self.device.update_descriptor_sets(&writes, &[]) };
        let pipeline = Arc::clone(pipeline);
        Ok(Bound {
            work: Work::Shader {
                pipeline,
                set,
                _pool: pool,
            },
            touches: touches(launch, &handles),
            _buffers: bindings.iter().map(|b| b.buffer.clone()).collect(),
        })
    }

    pub(crate) fn bind_ptx(&self, key: PtxKey, launch: &Launch<'_>) -> Result<Bound, GpuError> {
        let cuda = self.cuda(key)?;
        let function = cuda.function(key)?;
        let handles = launch.views.iter().map(|v| handle(v.bound()?));
        let handles = handles.collect::<Result<Vec<vk::Buffer>, _>>()?;
        let starts = launch.views.iter().zip(&handles);
        let addresses = starts.map(|(view, &buffer)| cuda.address(buffer) + view.offset);
        Ok(Bound {
            work: Work::Ptx {
                function,
                addresses: addresses.collect(),
                words: launch.params.clone(),
            },
            touches: touches(launch, &handles),
            _buffers: launch
                .views
                .iter()
                .filter_map(|v| v.buffer.cloned())
                .collect(),
        })
    }

    fn set(
        self: &Arc<Vulkan>,
        pipeline: &Pipeline,
    ) -> Result<(vk::DescriptorSet, Arc<SetPool>), vk::Result> {
        let mut current = self.sets.lock().unwrap_or_else(PoisonError::into_inner);
        let layouts = [pipeline.sets];
        let take = |pool: Arc<SetPool>| {
            let info = vk::DescriptorSetAllocateInfo::default()
                .descriptor_pool(pool.raw)
                .set_layouts(&layouts);
            // SAFETY: the lock on `sets` keeps others from this pool meanwhile.
            let sets = unsafe { self.device.allocate_descriptor_sets(&info) }?;
            let set = sets.first().copied().ok_or(vk::Result::ERROR_UNKNOWN)?;
            Ok((set, pool))
        };
        if let Some(pool) = current.upgrade() {
            match take(pool) {
                Err(vk::Result::ERROR_OUT_OF_POOL_MEMORY | vk::Result::ERROR_FRAGMENTED_POOL) => {}
                taken => return taken,
            }
        }
        let sizes = [vk::DescriptorPoolSize::default()
            .ty(vk::DescriptorType::STORAGE_BUFFER)
            .descriptor_count(POOL_BUFFERS)];
        let info = vk::DescriptorPoolCreateInfo::default()
            .max_sets(POOL_SETS)
            .pool_sizes(&sizes);
        // SAFETY: a plain pool; it is destroyed with the last dispatch that took from it.
        let raw = unsafe { self.device.create_descriptor_pool(&info, None) }?;
        let pool = Arc::new(SetPool {
            raw,
            vulkan: Arc::clone(self),
        });
        *current = Arc::downgrade(&pool);
        take(pool)
    }
}

fn handle(buffer: &wgpu::Buffer) -> Result<vk::Buffer, GpuError> {
    // SAFETY: the dispatch that uses the handle keeps the buffer.
    let hal = unsafe { buffer.as_hal::<Api>() };
    let hal = hal.ok_or_else(|| gpu_error("a buffer", vk::Result::ERROR_DEVICE_LOST))?;
    // SAFETY: not destroyed here.
    Ok(unsafe { hal.raw_handle() })
}

fn touches(launch: &Launch<'_>, handles: &[vk::Buffer]) -> Vec<Touch> {
    use vk::Handle;
    let views = launch.views.iter().zip(handles).enumerate();
    views
        .map(|(i, (view, buffer))| {
            let bytes = view.offset..view.offset + view.bytes;
            Touch::new(buffer.as_raw(), bytes, i < launch.writes)
        })
        .collect()
}
