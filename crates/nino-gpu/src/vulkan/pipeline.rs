//! Kernels as pipelines of Vulkan, and the driver's cache of compiled pipelines on disk.

use std::path::Path;
use std::sync::Arc;

use ash::vk;

use super::{Vulkan, gpu_error};
use crate::pipeline::PARAM_BYTES;
use crate::shader::KernelKey;
use crate::{Caps, GpuError};

/// A compiled kernel and the layouts it is bound through.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(super) raw: vk::Pipeline,
    pub(super) layout: vk::PipelineLayout,
    pub(super) sets: vk::DescriptorSetLayout,
    /// Bindings up to the last one the kernel writes.
    pub(super) writes: usize,
    vulkan: Arc<Vulkan>,
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        let device = &self.vulkan.device;
        // SAFETY: what was recorded with these keeps them through an `Arc`, and waits for the
        // device before it goes.
        unsafe {
            device.destroy_pipeline(self.raw, None);
            device.destroy_pipeline_layout(self.layout, None);
            device.destroy_descriptor_set_layout(self.sets, None);
        }
    }
}

impl Vulkan {
    pub(crate) fn compile(
        self: &Arc<Vulkan>,
        key: &KernelKey,
        caps: &Caps,
    ) -> Result<(Pipeline, u32), GpuError> {
        let spirv = key.spirv(self.spirv)?;
        let fail = |e| gpu_error(&key.label(), e);
        let binding = |i| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(i)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let bindings: Vec<_> = (0..spirv.n_bindings).map(binding).collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: `info` lists distinct bindings of a kind every device has.
        let sets = unsafe { self.device.create_descriptor_set_layout(&info, None) };
        let mut made = Pipeline {
            raw: vk::Pipeline::null(),
            layout: vk::PipelineLayout::null(),
            sets: sets.map_err(fail)?,
            writes: spirv.writes,
            vulkan: Arc::clone(self),
        };
        let constants = vk::PushConstantRange::default()
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
            .size(PARAM_BYTES);
        let (layouts, ranges) = ([made.sets], [constants]);
        let info = vk::PipelineLayoutCreateInfo::default()
            .set_layouts(&layouts)
            .push_constant_ranges(&ranges);
        // SAFETY: 128 bytes of constants are what every device takes.
        made.layout = unsafe { self.device.create_pipeline_layout(&info, None) }.map_err(fail)?;
        made.raw = self
            .stage(&spirv.words, made.layout, key.required_lanes(caps))
            .map_err(fail)?;
        Ok((made, spirv.n_bindings))
    }

    fn stage(
        &self,
        words: &[u32],
        layout: vk::PipelineLayout,
        lanes: Option<u32>,
    ) -> Result<vk::Pipeline, vk::Result> {
        let info = vk::ShaderModuleCreateInfo::default().code(words);
        // SAFETY: the words are SPIR-V from a validated module.
        let module = unsafe { self.device.create_shader_module(&info, None) }?;
        let mut flags = vk::PipelineShaderStageCreateFlags::empty();
        if self.subgroups && lanes.is_none() {
            // As wgpu does, which is what enables it: RADV then picks the larger subgroup.
            flags |= vk::PipelineShaderStageCreateFlags::ALLOW_VARYING_SUBGROUP_SIZE;
        }
        let mut required = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
            .required_subgroup_size(lanes.unwrap_or(0));
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .flags(flags)
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        if lanes.is_some() {
            stage = stage.push_next(&mut required);
        }
        let info = vk::ComputePipelineCreateInfo::default()
            .layout(layout)
            .stage(stage);
        // SAFETY: module and layout agree: both come from the same kernel text.
        let made = unsafe {
            self.device
                .create_compute_pipelines(self.cache, &[info], None)
        };
        // SAFETY: pipelines do not need their modules once they are made.
        unsafe { self.device.destroy_shader_module(module, None) };
        let made = made.map_err(|(_, e)| e)?;
        made.first().copied().ok_or(vk::Result::ERROR_UNKNOWN)
    }

    /// Writes the compiled pipelines for the next process; a failure only costs it compile time.
    pub(crate) fn save(&self) {
        let Some(path) = &self.cache_file else { return };
        // SAFETY: a query of a cache that lives as long as `self`.
        let Ok(data) = (unsafe { self.device.get_pipeline_cache_data(self.cache) }) else {
            return;
        };
        let mut file = checksum(&data).to_le_bytes().to_vec();
        file.extend(data);
        crate::pipeline::replace(path, &file);
    }
}

pub(super) fn cache_name(info: &wgpu::AdapterInfo) -> String {
    format!("vulkan_{:x}_{:x}", info.vendor, info.device)
}

/// The cache of an earlier process where it is whole, else an empty one. Drivers check what they
/// are given for device and version, not for damage.
pub(super) fn load_cache(
    device: &ash::Device,
    path: Option<&Path>,
) -> Result<vk::PipelineCache, vk::Result> {
    let file = path
        .and_then(crate::pipeline::read_cache)
        .unwrap_or_default();
    let whole = file.split_at_checked(8).filter(|(sum, data)| {
        <[u8; 8]>::try_from(*sum).is_ok_and(|sum| u64::from_le_bytes(sum) == checksum(data))
    });
    let data = whole.map_or(&[][..], |(_, data)| data);
    let info = vk::PipelineCacheCreateInfo::default().initial_data(data);
    // SAFETY: the data is empty or what the driver gave, by its checksum.
    unsafe { device.create_pipeline_cache(&info, None) }
}

/// FNV-1a.
fn checksum(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |sum, &byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
