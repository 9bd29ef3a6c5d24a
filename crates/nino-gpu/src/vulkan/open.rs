//! Opening a Vulkan adapter through wgpu's own layer, so that its handles can be used here.

use std::ffi::CStr;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use ash::vk;
use wgpu::hal::vulkan::Adapter;

use super::cuda::{self, Cuda};
use super::{Api, Vulkan, pipeline};
use crate::spirv::spirv_version;

impl Vulkan {
    /// Opens the adapter, for PTX too where `ptx` and the driver say so; `Ok(None)` where it is not
    /// a Vulkan one.
    pub(crate) fn open(
        adapter: &wgpu::Adapter,
        desc: &wgpu::DeviceDescriptor<'_>,
        cache_dir: Option<&Path>,
        ptx: bool,
    ) -> Result<Option<(wgpu::Device, wgpu::Queue, Arc<Vulkan>)>, String> {
        // SAFETY: the handle is used only while `hal` keeps it.
        let Some(hal) = (unsafe { adapter.as_hal::<Api>() }) else {
            return Ok(None);
        };
        let (features, limits) = (desc.required_features, &desc.required_limits);
        let capabilities = hal.physical_device_capabilities();
        let has = |name: &&'static CStr| capabilities.supports_extension(name);
        let ptx = ptx && cuda::EXTENSIONS.iter().all(has);
        let mut extensions = hal.required_device_extensions(features);
        extensions.extend(cuda::EXTENSIONS.iter().filter(|_| ptx));
        let family = queue_family(&hal);
        let raw = create_device(&hal, &extensions, features, family)?;
        let hints = &desc.memory_hints;
        // SAFETY: the device was made from this adapter with these extensions, features and queue.
        let opened = unsafe {
            hal.device_from_raw(raw, None, &extensions, features, limits, hints, family, 0)
        };
        let opened = opened.map_err(|e| e.to_string())?;
        let version = hal.physical_device_capabilities().properties().api_version;
        let subgroups = features.contains(wgpu::Features::SUBGROUP);
        let subgroup_choice = subgroups && takes_subgroup_sizes(&hal, version);
        drop(hal);
        // SAFETY: opened from this adapter with the same features just above.
        let made = unsafe { adapter.create_device_from_hal::<Api>(opened, desc) };
        let (device, queue) = made.map_err(|e| e.to_string())?;
        // SAFETY: the handles taken from `hal` stay valid as long as `device` is kept.
        let Some(hal) = (unsafe { device.as_hal::<Api>() }) else {
            return Err("the device is lost".to_owned());
        };
        let raw = hal.raw_device().clone();
        let cuda = ptx.then(|| Cuda::new(hal.shared_instance().raw_instance(), &raw));
        drop(hal);
        let cache_file = cache_dir.map(|dir| dir.join(pipeline::cache_name(&adapter.get_info())));
        let cache = pipeline::load_cache(&raw, cache_file.as_deref()).map_err(|e| e.to_string())?;
        let vulkan = Vulkan {
            device: raw,
            family,
            spirv: spirv_version(version),
            subgroups,
            subgroup_choice,
            cache,
            cache_file,
            sets: Mutex::new(Weak::new()),
            cuda,
            owner: device.clone(),
        };
        Ok(Some((device, queue, Arc::new(vulkan))))
    }
}

/// Whether a compute kernel may ask for a subgroup size. wgpu enables the feature with subgroups.
fn takes_subgroup_sizes(adapter: &Adapter, version: u32) -> bool {
    if version < vk::API_VERSION_1_3 {
        return false;
    }
    let mut sizes = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
    let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut sizes);
    let instance = adapter.shared_instance().raw_instance();
    // SAFETY: the physical device is the instance's own and knows Vulkan 1.3's properties.
    unsafe { instance.get_physical_device_properties2(adapter.raw_physical_device(), &mut all) };
    let stages = sizes.required_subgroup_size_stages;
    stages.contains(vk::ShaderStageFlags::COMPUTE)
}

/// Whether products of packed bytes are an instruction of the adapter's; nothing where it is not a
/// Vulkan one of version 1.3, which has them, as instructions or not.
pub(crate) fn dot_products(adapter: &wgpu::Adapter) -> Option<bool> {
    // SAFETY: the handle is used only while `hal` keeps it.
    let hal = unsafe { adapter.as_hal::<Api>() }?;
    let version = hal.physical_device_capabilities().properties().api_version;
    if version < vk::API_VERSION_1_3 {
        return None;
    }
    let mut dots = vk::PhysicalDeviceShaderIntegerDotProductProperties::default();
    let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut dots);
    let instance = hal.shared_instance().raw_instance();
    // SAFETY: the physical device is the instance's own and knows Vulkan 1.3's properties.
    unsafe { instance.get_physical_device_properties2(hal.raw_physical_device(), &mut all) };
    Some(dots.integer_dot_product4x8_bit_packed_signed_accelerated != 0)
}

const NVIDIA: u32 = 0x10de;

/// The first family, as wgpu takes it; on NVIDIA's devices one that cannot draw, since kernels of a
/// queue that can have 64 KiB of shared memory a multiprocessor, and on a compute queue all of it
/// (228 on an H200: four workgroups of 48 KiB instead of one).
fn queue_family(adapter: &Adapter) -> u32 {
    let capabilities = adapter.physical_device_capabilities();
    if capabilities.properties().vendor_id != NVIDIA {
        return 0;
    }
    let instance = adapter.shared_instance().raw_instance();
    // SAFETY: the physical device is the instance's own.
    let families = unsafe {
        instance.get_physical_device_queue_family_properties(adapter.raw_physical_device())
    };
    let computes = |f: &vk::QueueFamilyProperties| {
        let wanted = vk::QueueFlags::COMPUTE | vk::QueueFlags::TRANSFER;
        let draws = f.queue_flags.contains(vk::QueueFlags::GRAPHICS);
        f.queue_flags.contains(wanted) && !draws && f.timestamp_valid_bits > 0
    };
    families.iter().position(computes).unwrap_or(0) as u32
}

/// Creates a device as wgpu does, with the family and the extensions given.
fn create_device(
    adapter: &Adapter,
    extensions: &[&'static CStr],
    features: wgpu::Features,
    family: u32,
) -> Result<ash::Device, String> {
    let mut enabled = adapter.physical_device_features(extensions, features);
    let names: Vec<_> = extensions.iter().map(|name| name.as_ptr()).collect();
    let queues = [vk::DeviceQueueCreateInfo::default()
        .queue_family_index(family)
        .queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default()
        .queue_create_infos(&queues)
        .enabled_extension_names(&names);
    let info = enabled.add_to_device_create(info);
    let instance = adapter.shared_instance().raw_instance();
    // SAFETY: everything `info` points to outlives the call, and the adapter has what it asks for.
    let device = unsafe { instance.create_device(adapter.raw_physical_device(), &info, None) };
    device.map_err(|e| e.to_string())
}
