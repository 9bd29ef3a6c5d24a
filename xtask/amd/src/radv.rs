//! AMD's Vulkan driver of Mesa (RADV) as a compiler: it opens a device for hardware that is not
//! there (`card`), compiles kernels for it and tells registers, waves, spills and the machine code.
//! A process knows one family.

use std::ffi::CStr;

use anyhow::{Context, Result, bail, ensure};
use ash::vk;
use nino_gpu::{AdapterKind, Arch, Caps, KernelKey, PARAM_BYTES, Tier, Tiles, spirv_version};
use serde::{Deserialize, Serialize};

use crate::card::device_suffix;

/// What the compiler says of one kernel.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Stats {
    pub vgprs: u64,
    pub sgprs: u64,
    pub lds: u64,
    pub spilled_vgprs: u64,
    pub spilled_sgprs: u64,
    pub scratch: u64,
    pub code_bytes: u64,
    /// Lanes of a wave and of a workgroup.
    pub lanes: u32,
    pub group_lanes: u32,
}

/// A device without hardware.
pub struct Radv {
    // Kept loaded: the device's functions are in it.
    _entry: ash::Entry,
    device: ash::Device,
    executables: ash::khr::pipeline_executable_properties::Device,
    spirv: (u8, u8),
    pub name: String,
    pub caps: Caps,
}

/// The driver offers no device here: a library that it needs is missing, say.
#[derive(Debug)]
pub struct Unavailable(pub String);

impl std::fmt::Display for Unavailable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the driver offers no device: {}", self.0)
    }
}

impl std::error::Error for Unavailable {}

impl Radv {
    /// Opens the device of this family.
    pub fn open(family: &str) -> Result<Radv, Unavailable> {
        Radv::of(family).map_err(|e| Unavailable(format!("{e:#}")))
    }

    fn of(family: &str) -> Result<Radv> {
        // SAFETY: the loader is a well-behaved library; nothing else in this process uses it.
        let entry = unsafe { ash::Entry::load() }.context("no Vulkan loader (libvulkan.so.1)")?;
        let app = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
        let info = vk::InstanceCreateInfo::default().application_info(&app);
        // SAFETY: `info` is complete and outlives the call.
        let instance = unsafe { entry.create_instance(&info, None) }.context("no Vulkan")?;
        // SAFETY: the instance is alive.
        let all = unsafe { instance.enumerate_physical_devices() }.context("no device")?;
        let suffix = device_suffix(family).context("no such family")?;
        // The machine may have a card of its own.
        let of_family = |&&device: &&vk::PhysicalDevice| {
            // SAFETY: the device is the instance's own.
            let properties = unsafe { instance.get_physical_device_properties(device) };
            text(&properties.device_name).ends_with(&suffix)
        };
        let Some(&physical) = all.iter().find(of_family) else {
            bail!("it does not know this family");
        };
        let facts = Facts::read(&entry, &instance, physical)?;
        let device = facts.open(&instance, physical)?;
        let executables = ash::khr::pipeline_executable_properties::Device::new(&instance, &device);
        Ok(Radv {
            _entry: entry,
            device,
            executables,
            spirv: spirv_version(facts.api_version),
            name: facts.name,
            caps: facts.caps,
        })
    }

    /// Compiles a kernel as nino-gpu would; gives the compiler's numbers and the machine code.
    pub fn compile(&self, key: &KernelKey) -> Result<(Stats, String)> {
        let spirv = key.spirv(self.spirv)?;
        let (wants, has) = (spirv.shared_bytes, self.caps.max_workgroup_bytes);
        // The compiler divides by how many workgroups fit.
        ensure!(
            wants <= has,
            "it takes {wants} bytes of shared memory, of {has}"
        );
        let binding = |i| {
            vk::DescriptorSetLayoutBinding::default()
                .binding(i)
                .descriptor_type(vk::DescriptorType::STORAGE_BUFFER)
                .descriptor_count(1)
                .stage_flags(vk::ShaderStageFlags::COMPUTE)
        };
        let bindings: Vec<_> = (0..spirv.n_bindings).map(binding).collect();
        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings);
        // SAFETY: distinct bindings of a kind that every device has.
        let sets = unsafe { self.device.create_descriptor_set_layout(&info, None) }?;
        let layouts = [sets];
        let ranges = [vk::PushConstantRange::default()
            .stage_flags(vk::ShaderStageFlags::COMPUTE)
            .size(PARAM_BYTES)];
        let info = vk::PipelineLayoutCreateInfo::default()
            .set_layouts(&layouts)
            .push_constant_ranges(&ranges);
        // SAFETY: every device takes so many constants.
        let layout = unsafe { self.device.create_pipeline_layout(&info, None) }?;
        let info = vk::ShaderModuleCreateInfo::default().code(&spirv.words);
        // SAFETY: the words are SPIR-V from a validated module.
        let module = unsafe { self.device.create_shader_module(&info, None) }?;
        let lanes = key.required_lanes(&self.caps);
        let pipeline = self.pipeline(module, layout, lanes);
        let read = pipeline.and_then(|p| {
            let read = self.read(p);
            // SAFETY: nothing else knows the pipeline.
            unsafe { self.device.destroy_pipeline(p, None) };
            read
        });
        // SAFETY: what was made from these is gone.
        unsafe {
            self.device.destroy_shader_module(module, None);
            self.device.destroy_pipeline_layout(layout, None);
            self.device.destroy_descriptor_set_layout(sets, None);
        }
        let (mut stats, text) = read.with_context(|| key.label())?;
        stats.group_lanes = group_lanes(&spirv.words);
        Ok((stats, text))
    }

    fn pipeline(
        &self,
        module: vk::ShaderModule,
        layout: vk::PipelineLayout,
        lanes: Option<u32>,
    ) -> Result<vk::Pipeline> {
        let mut required = vk::PipelineShaderStageRequiredSubgroupSizeCreateInfo::default()
            .required_subgroup_size(lanes.unwrap_or(0));
        let mut flags = vk::PipelineShaderStageCreateFlags::empty();
        if lanes.is_none() {
            flags |= vk::PipelineShaderStageCreateFlags::ALLOW_VARYING_SUBGROUP_SIZE;
        }
        let mut stage = vk::PipelineShaderStageCreateInfo::default()
            .flags(flags)
            .stage(vk::ShaderStageFlags::COMPUTE)
            .module(module)
            .name(c"main");
        if lanes.is_some() {
            stage = stage.push_next(&mut required);
        }
        let capture = vk::PipelineCreateFlags::CAPTURE_STATISTICS_KHR
            | vk::PipelineCreateFlags::CAPTURE_INTERNAL_REPRESENTATIONS_KHR;
        let info = [vk::ComputePipelineCreateInfo::default()
            .flags(capture)
            .stage(stage)
            .layout(layout)];
        // SAFETY: module and layout come from the same kernel text.
        let made = unsafe {
            self.device
                .create_compute_pipelines(vk::PipelineCache::null(), &info, None)
        };
        let made = made.map_err(|(_, e)| e)?;
        made.first().copied().context("no pipeline")
    }

    fn read(&self, pipeline: vk::Pipeline) -> Result<(Stats, String)> {
        let info = vk::PipelineInfoKHR::default().pipeline(pipeline);
        // SAFETY: the pipeline was made with both captures.
        let properties = unsafe { self.executables.get_pipeline_executable_properties(&info)? };
        let info = vk::PipelineExecutableInfoKHR::default().pipeline(pipeline);
        // SAFETY: as above; it has one executable, number 0.
        let statistics = unsafe { self.executables.get_pipeline_executable_statistics(&info)? };
        let mut stats = Stats {
            lanes: properties.first().map_or(0, |p| p.subgroup_size),
            ..Stats::default()
        };
        for s in &statistics {
            // SAFETY: RADV's statistics are all unsigned numbers of 64 bits.
            let value = unsafe { s.value.u64 };
            match text(&s.name).as_str() {
                "VGPRs" => stats.vgprs = value,
                "SGPRs" => stats.sgprs = value,
                "LDS size" => stats.lds = value,
                "Spilled VGPRs" => stats.spilled_vgprs = value,
                "Spilled SGPRs" => stats.spilled_sgprs = value,
                "Scratch size" => stats.scratch = value,
                "Code size" => stats.code_bytes = value,
                _ => {}
            }
        }
        Ok((stats, self.assembly(&info)?))
    }

    fn assembly(&self, info: &vk::PipelineExecutableInfoKHR<'_>) -> Result<String> {
        let query = self
            .executables
            .fp()
            .get_pipeline_executable_internal_representations_khr;
        let device = self.device.handle();
        let mut count = 0;
        // SAFETY: asks how many there are.
        unsafe { query(device, info, &raw mut count, std::ptr::null_mut()) }.result()?;
        let mut all =
            vec![vk::PipelineExecutableInternalRepresentationKHR::default(); count as usize];
        // SAFETY: room for that many; without data, sizes are told.
        unsafe { query(device, info, &raw mut count, all.as_mut_ptr()) }.result()?;
        let mut texts: Vec<Vec<u8>> = all.iter().map(|r| vec![0; r.data_size]).collect();
        for (r, text) in all.iter_mut().zip(&mut texts) {
            r.p_data = text.as_mut_ptr().cast();
        }
        // SAFETY: every `p_data` has the room that was just told.
        unsafe { query(device, info, &raw mut count, all.as_mut_ptr()) }.result()?;
        let found = all
            .iter()
            .zip(texts)
            .find(|(r, _)| text(&r.name) == "Assembly");
        let (_, bytes) = found.context("the driver gives no assembly")?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.trim_end_matches('\0').to_owned())
    }
}

/// What the driver says of the device.
struct Facts {
    name: String,
    api_version: u32,
    caps: Caps,
}

impl Facts {
    fn read(
        entry: &ash::Entry,
        instance: &ash::Instance,
        physical: vk::PhysicalDevice,
    ) -> Result<Facts> {
        let mut v13 = vk::PhysicalDeviceVulkan13Properties::default();
        let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut v13);
        // SAFETY: the driver knows Vulkan 1.3's properties.
        unsafe { instance.get_physical_device_properties2(physical, &mut all) };
        let properties = all.properties;
        let name = text(&properties.device_name);
        if properties.vendor_id != 0x1002 {
            bail!("{name} is no AMD device");
        }
        let coop_size = has_coop(entry, instance, physical)?.then_some(16);
        let (min, max) = (v13.min_subgroup_size, v13.max_subgroup_size);
        let limits = properties.limits;
        let arch = Arch::of(properties.vendor_id, properties.device_id, min, coop_size);
        Ok(Facts {
            name,
            api_version: properties.api_version,
            caps: Caps {
                kind: match properties.device_type {
                    vk::PhysicalDeviceType::INTEGRATED_GPU => AdapterKind::Integrated,
                    _ => AdapterKind::Discrete,
                },
                arch,
                tier: if coop_size.is_some() {
                    Tier::Coop
                } else {
                    Tier::Subgroup
                },
                coop_size,
                subgroup_min: min,
                subgroup_max: max,
                subgroup_choice: v13
                    .required_subgroup_size_stages
                    .contains(vk::ShaderStageFlags::COMPUTE),
                max_workgroup_bytes: limits.max_compute_shared_memory_size,
                // wgpu's own limits with Mesa.
                max_binding_bytes: u64::from(limits.max_storage_buffer_range.min(i32::MAX as u32)),
                max_buffer_bytes: i32::MAX as u64,
                offset_alignment: limits.min_storage_buffer_offset_alignment.max(16),
                dot_products: v13.integer_dot_product4x8_bit_packed_signed_accelerated != 0,
                immediates: true,
                ptx: None,
                tiles: Tiles::default(),
            },
        })
    }

    fn open(&self, instance: &ash::Instance, physical: vk::PhysicalDevice) -> Result<ash::Device> {
        let coop = self.caps.coop_size.is_some();
        let mut names = vec![c"VK_KHR_pipeline_executable_properties".as_ptr()];
        names.extend(coop.then_some(c"VK_KHR_cooperative_matrix".as_ptr()));
        let mut v11 = vk::PhysicalDeviceVulkan11Features::default();
        let mut v12 = vk::PhysicalDeviceVulkan12Features::default();
        let mut v13 = vk::PhysicalDeviceVulkan13Features::default();
        let mut executables = vk::PhysicalDevicePipelineExecutablePropertiesFeaturesKHR::default();
        let mut matrices = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
        let mut all = vk::PhysicalDeviceFeatures2::default()
            .push_next(&mut v11)
            .push_next(&mut v12)
            .push_next(&mut v13)
            .push_next(&mut executables);
        if coop {
            all = all.push_next(&mut matrices);
        }
        // SAFETY: fills the chain with what the device has.
        unsafe { instance.get_physical_device_features2(physical, &mut all) };
        let queues = [vk::DeviceQueueCreateInfo::default()
            .queue_family_index(0)
            .queue_priorities(&[1.0])];
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&names)
            .push_next(&mut all);
        // SAFETY: only what the device offers is asked for.
        unsafe { instance.create_device(physical, &info, None) }.context("no device")
    }
}

/// Whether there are matrices of 16 × 16 × 16, f16 in and f32 accumulated.
fn has_coop(
    entry: &ash::Entry,
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
) -> Result<bool> {
    // SAFETY: the device is the instance's own.
    let extensions = unsafe { instance.enumerate_device_extension_properties(physical) }?;
    let name = "VK_KHR_cooperative_matrix";
    if extensions.iter().all(|e| text(&e.extension_name) != name) {
        return Ok(false);
    }
    let matrices = ash::khr::cooperative_matrix::Instance::new(entry, instance);
    // SAFETY: the device has the extension.
    let kinds = unsafe { matrices.get_physical_device_cooperative_matrix_properties(physical) }?;
    let (half, single) = (vk::ComponentTypeKHR::FLOAT16, vk::ComponentTypeKHR::FLOAT32);
    Ok(kinds.iter().any(|k| {
        (k.m_size, k.n_size, k.k_size) == (16, 16, 16)
            && [k.a_type, k.b_type] == [half; 2]
            && [k.c_type, k.result_type] == [single; 2]
            && k.scope == vk::ScopeKHR::SUBGROUP
    }))
}

/// Lanes of a workgroup, by the module's `OpExecutionMode .. LocalSize x y z`.
fn group_lanes(words: &[u32]) -> u32 {
    let mut at = 5; // behind the header
    while let Some(&head) = words.get(at) {
        if let (16, Some([17, x, y, z])) = (head & 0xffff, words.get(at + 2..at + 6)) {
            return x * y * z;
        }
        at += (head >> 16).max(1) as usize;
    }
    0
}

fn text(name: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = name.iter().map(|&c| c as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).unwrap_or_default();
    text.to_string_lossy().into_owned()
}
