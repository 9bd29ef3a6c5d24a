//! Opening a Vulkan adapter through wgpu's own layer, so that its handles can be used here.

use std::ffi::CStr;
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use ash::vk;
use wgpu::hal::vulkan::CreateDeviceCallback;

use super::cuda::{self, Cuda};
use super::{Api, Vulkan, pipeline};

impl Vulkan {
    /// Opens the adapter, for PTX too where `ptx` and the driver say so; `Ok(None)` where it is not a
    /// Vulkan one.
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
        let mut addresses =
            vk::PhysicalDeviceBufferDeviceAddressFeatures::default().buffer_device_address(true);
        let callback = ptx.then(|| {
            let add: Box<CreateDeviceCallback<'_>> = Box::new(|args| {
                args.extensions.extend(cuda::EXTENSIONS);
                *args.create_info = args.create_info.push_next(&mut addresses);
            });
            add
        });
        let hints = &desc.memory_hints;
        // SAFETY: features and limits are the adapter's own; the callback adds extensions it has.
        let opened = unsafe { hal.open_with_callback(features, limits, hints, callback) };
        let opened = opened.map_err(|e| e.to_string())?;
        let version = hal.physical_device_capabilities().properties().api_version;
        drop(hal);
        // SAFETY: opened from this adapter with the same features just above.
        let made = unsafe { adapter.create_device_from_hal::<Api>(opened, desc) };
        let (device, queue) = made.map_err(|e| e.to_string())?;
        // SAFETY: the handles taken from `hal` stay valid as long as `device` is kept.
        let Some(hal) = (unsafe { device.as_hal::<Api>() }) else {
            return Err("the device is lost".to_owned());
        };
        let raw = hal.raw_device().clone();
        let family = hal.queue_family_index();
        let cuda = ptx.then(|| Cuda::new(hal.shared_instance().raw_instance(), &raw));
        drop(hal);
        let cache_file = cache_dir.map(|dir| dir.join(pipeline::cache_name(&adapter.get_info())));
        let cache = pipeline::load_cache(&raw, cache_file.as_deref()).map_err(|e| e.to_string())?;
        let vulkan = Vulkan {
            device: raw,
            family,
            spirv: match version {
                ..vk::API_VERSION_1_1 => (1, 0),
                vk::API_VERSION_1_1..vk::API_VERSION_1_2 => (1, 3),
                vk::API_VERSION_1_2..vk::API_VERSION_1_3 => (1, 5),
                _ => (1, 6),
            },
            subgroups: features.contains(wgpu::Features::SUBGROUP),
            cache,
            cache_file,
            sets: Mutex::new(Weak::new()),
            cuda,
            owner: device.clone(),
        };
        Ok(Some((device, queue, Arc::new(vulkan))))
    }
}
