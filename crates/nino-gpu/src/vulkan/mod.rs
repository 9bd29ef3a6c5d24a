//! A Vulkan device used beside wgpu: wgpu owns it, its memory and its submissions; kernels,
//! descriptor sets and recorded commands are made here. wgpu's compute passes put a barrier between
//! any two dispatches and are recorded anew for every run; these are recorded once, with barriers
//! where one dispatch needs another.

mod bind;
mod cuda;
mod open;
mod pipeline;
mod record;

use std::path::PathBuf;
use std::sync::{Mutex, Weak};

use ash::vk;

use crate::pipeline::no_ptx;
use crate::{Gpu, GpuError};
use nino_ptx::PtxKey;

pub(crate) use bind::Bound;
pub(crate) use open::dot_products;
pub(crate) use pipeline::Pipeline;
pub(crate) use record::Recorder;

type Api = wgpu::hal::api::Vulkan;

/// What is needed of an open device. Everything made here keeps it, and with it the device, alive.
pub(crate) struct Vulkan {
    device: ash::Device,
    family: u32,
    /// Version of SPIR-V the device takes.
    spirv: (u8, u8),
    subgroups: bool,
    /// Kernels may ask for a subgroup size.
    subgroup_choice: bool,
    cache: vk::PipelineCache,
    cache_file: Option<PathBuf>,
    /// Where the next descriptor set is taken from; dispatches keep it.
    sets: Mutex<Weak<bind::SetPool>>,
    /// Where the driver takes PTX.
    cuda: Option<cuda::Cuda>,
    /// Last, so that it is dropped after all that needs it.
    owner: wgpu::Device,
}

impl std::fmt::Debug for Vulkan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vulkan").finish_non_exhaustive()
    }
}

impl Drop for Vulkan {
    fn drop(&mut self) {
        if let Some(cuda) = &self.cuda {
            cuda.clear();
        }
        // SAFETY: `owner` keeps the device alive, and nothing else refers to the cache any more.
        unsafe { self.device.destroy_pipeline_cache(self.cache, None) };
    }
}

impl Vulkan {
    pub(crate) fn chooses_subgroups(&self) -> bool {
        self.subgroup_choice
    }

    /// Whether kernels in PTX can be launched.
    pub(crate) fn takes_ptx(&self) -> bool {
        self.cuda.is_some()
    }

    pub(crate) fn compile_ptx(&self, key: PtxKey) -> Result<(), GpuError> {
        self.cuda(key)?.function(key).map(|_| ())
    }

    fn cuda(&self, key: PtxKey) -> Result<&cuda::Cuda, GpuError> {
        self.cuda.as_ref().ok_or_else(|| no_ptx(key))
    }

    /// A buffer that wgpu takes for initialized: it does not see what kernels write, and would
    /// clear before the first copy.
    pub(crate) fn buffer(
        &self,
        gpu: &Gpu,
        desc: &wgpu::BufferDescriptor<'_>,
    ) -> Result<wgpu::Buffer, GpuError> {
        use wgpu::hal::Device as _;
        let mut usage = wgpu::BufferUses::STORAGE_READ_WRITE;
        for (wanted, hal) in [
            (wgpu::BufferUsages::COPY_SRC, wgpu::BufferUses::COPY_SRC),
            (wgpu::BufferUsages::COPY_DST, wgpu::BufferUses::COPY_DST),
        ] {
            usage.set(hal, desc.usage.contains(wanted));
        }
        // Gives the buffer an address, which nothing else wgpu offers without ray tracing does.
        let scratch = wgpu::BufferUses::ACCELERATION_STRUCTURE_SCRATCH;
        usage.set(scratch, self.cuda.is_some());
        let what = desc.label.unwrap_or("buffer");
        gpu.check_lost()?;
        // SAFETY: the handle is used only while `hal` keeps it.
        let hal = unsafe { self.owner.as_hal::<Api>() };
        let hal = hal.ok_or_else(|| gpu_error(what, vk::Result::ERROR_DEVICE_LOST))?;
        // SAFETY: the size is not zero and within the device's limits, as the caller checked.
        let made = unsafe {
            hal.create_buffer(&wgpu::hal::BufferDescriptor {
                label: desc.label,
                size: desc.size,
                usage,
                memory_flags: wgpu::hal::MemoryFlags::empty(),
            })
        };
        drop(hal);
        let made = made.map_err(|e| match e {
            wgpu::hal::DeviceError::OutOfMemory => GpuError::OutOfMemory {
                what: what.to_owned(),
                wanted: desc.size,
                free: gpu.free_memory(),
            },
            other => GpuError::Validation {
                what: what.to_owned(),
                reason: other.to_string(),
            },
        })?;
        gpu.scoped(what, desc.size, || {
            // SAFETY: made above by this device from `desc`; kernels take any content.
            unsafe { self.owner.create_buffer_from_hal::<Api>(made, desc) }
        })
    }
}

/// A failed call in this crate's words.
fn gpu_error(what: &str, e: vk::Result) -> GpuError {
    match e {
        vk::Result::ERROR_DEVICE_LOST => GpuError::DeviceLost {
            reason: what.to_owned(),
        },
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
            GpuError::OutOfMemory {
                what: what.to_owned(),
                wanted: 0,
                free: None,
            }
        }
        other => GpuError::Validation {
            what: what.to_owned(),
            reason: other.to_string(),
        },
    }
}
