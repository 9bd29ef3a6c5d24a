//! Memory of an adapter: how much, how much is free, and who says so. The sources disagree on
//! unified-memory machines, so all are kept and the budget takes the smallest.

use crate::GpuError;

/// One source's figures in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryReading {
    pub source: MemorySource,
    pub total: u64,
    pub free: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemorySource {
    /// Device-local Vulkan heaps, without a figure for what is free.
    VulkanHeaps,
    /// The same heaps through `VK_EXT_memory_budget`.
    VulkanBudget,
    /// amdgpu's `mem_info_vram_*` in sysfs.
    AmdVram,
    /// amdgpu's `mem_info_gtt_*`: host memory the GPU may use.
    AmdGtt,
    /// `MemAvailable` of the host; what a software or integrated adapter lives in.
    Host,
}

impl MemorySource {
    pub const fn name(self) -> &'static str {
        match self {
            MemorySource::VulkanHeaps => "Vulkan heaps",
            MemorySource::VulkanBudget => "VK_EXT_memory_budget",
            MemorySource::AmdVram => "amdgpu mem_info_vram",
            MemorySource::AmdGtt => "amdgpu mem_info_gtt",
            MemorySource::Host => "MemAvailable",
        }
    }
}

pub(crate) fn read_memory(adapter: &wgpu::Adapter, info: &wgpu::AdapterInfo) -> Vec<MemoryReading> {
    let mut readings = Vec::new();
    readings.extend(vulkan(adapter));
    if info.vendor == 0x1002 {
        readings.extend(amdgpu(
            &info.device_pci_bus_id,
            "vram",
            MemorySource::AmdVram,
        ));
        readings.extend(amdgpu(&info.device_pci_bus_id, "gtt", MemorySource::AmdGtt));
    }
    if matches!(
        info.device_type,
        wgpu::DeviceType::IntegratedGpu | wgpu::DeviceType::Cpu
    ) {
        readings.extend(host());
    }
    readings
}

/// Host memory as `/proc/meminfo` gives it.
pub fn host() -> Option<MemoryReading> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find(|l| l.starts_with(name))?;
        Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
    };
    Some(MemoryReading {
        source: MemorySource::Host,
        total: field("MemTotal:")?,
        free: field("MemAvailable:"),
    })
}

/// Host memory that copies may take and others will not miss.
pub(crate) fn spare_host_bytes() -> usize {
    const WHERE_NOT_TOLD: u64 = 1 << 30;
    let free = host().and_then(|m| m.free);
    free.map_or(WHERE_NOT_TOLD, |free| free / 4) as usize
}

/// Whether the host has so many bytes to spare, as far as it says: before the first is taken.
pub(crate) fn ask_host(bytes: usize) -> Result<(), GpuError> {
    let wanted = bytes as u64;
    match host().and_then(|m| m.free) {
        Some(free) if wanted > free => Err(GpuError::HostMemory { wanted, free }),
        _ => Ok(()),
    }
}

fn amdgpu(pci_bus: &str, kind: &str, source: MemorySource) -> Option<MemoryReading> {
    let dir = std::path::Path::new("/sys/bus/pci/devices").join(pci_bus);
    let read = |what: &str| -> Option<u64> {
        let path = dir.join(format!("mem_info_{kind}_{what}"));
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    };
    let total = read("total")?;
    Some(MemoryReading {
        source,
        total,
        free: read("used").map(|used| total.saturating_sub(used)),
    })
}

#[cfg(not(any(target_os = "linux", target_os = "windows")))]
fn vulkan(_: &wgpu::Adapter) -> Option<MemoryReading> {
    None
}

#[cfg(any(target_os = "linux", target_os = "windows"))]
fn vulkan(adapter: &wgpu::Adapter) -> Option<MemoryReading> {
    use ash::vk;
    // SAFETY: the handles are only used for queries while `hal` keeps them alive.
    let hal = unsafe { adapter.as_hal::<wgpu::hal::api::Vulkan>() }?;
    let has_budget = hal
        .physical_device_capabilities()
        .supports_extension(vk::EXT_MEMORY_BUDGET_NAME);
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut props = vk::PhysicalDeviceMemoryProperties2::default();
    if has_budget {
        props = props.push_next(&mut budget);
    }
    let instance = hal.shared_instance().raw_instance();
    // SAFETY: a query into structs of the right types, chained only when the extension exists.
    unsafe {
        instance.get_physical_device_memory_properties2(hal.raw_physical_device(), &mut props);
    }
    let memory = props.memory_properties;
    let heaps = memory
        .memory_heaps
        .iter()
        .enumerate()
        .take(memory.memory_heap_count as usize);
    let local: Vec<(usize, u64)> = heaps
        .filter(|(_, heap)| heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL))
        .map(|(i, heap)| (i, heap.size))
        .collect();
    let total = local.iter().map(|(_, size)| size).sum();
    if !has_budget {
        return Some(MemoryReading {
            source: MemorySource::VulkanHeaps,
            total,
            free: None,
        });
    }
    let free = local.iter().map(|(i, size)| {
        budget.heap_budget[*i]
            .min(*size)
            .saturating_sub(budget.heap_usage[*i])
    });
    Some(MemoryReading {
        source: MemorySource::VulkanBudget,
        total,
        free: Some(free.sum()),
    })
}
