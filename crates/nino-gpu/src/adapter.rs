//! Which GPUs there are and what each can do, as plain values.

use std::fmt;
use std::str::FromStr;

use crate::GpuError;
use crate::memory::{MemoryReading, read_memory};

/// A level of kernels, each needing what the ones before it need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// Any WebGPU device.
    F32,
    /// 16-bit storage, f32 math; packs in u32 words, so it needs no f16 feature.
    F16,
    /// Subgroup reductions.
    Subgroup,
    /// Cooperative matrices, f16 in and f32 accumulated.
    Coop,
}

impl Tier {
    pub const ALL: [Tier; 4] = [Tier::F32, Tier::F16, Tier::Subgroup, Tier::Coop];

    pub const fn name(self) -> &'static str {
        match self {
            Tier::F32 => "f32",
            Tier::F16 => "f16",
            Tier::Subgroup => "subgroup",
            Tier::Coop => "coop",
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Tier {
    type Err = GpuError;

    fn from_str(s: &str) -> Result<Tier, GpuError> {
        let found = Tier::ALL.into_iter().find(|t| t.name() == s);
        found.ok_or_else(|| GpuError::UnknownTier { name: s.to_owned() })
    }
}

/// What kind of thing an adapter is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdapterKind {
    Discrete,
    Integrated,
    Virtual,
    /// Runs on the CPU (lavapipe, WARP): used only when named.
    Software,
    #[default]
    Other,
}

/// One adapter as found; `index` is its number in `gpu:N`.
#[derive(Clone, Debug)]
pub struct AdapterInfo {
    pub index: usize,
    pub name: String,
    pub kind: AdapterKind,
    pub backend: String,
    pub vendor_id: u32,
    pub device_id: u32,
    pub pci_bus: String,
    pub driver: String,
    pub driver_info: String,
    pub subgroup_min: u32,
    pub subgroup_max: u32,
    pub max_binding_bytes: u64,
    pub max_buffer_bytes: u64,
    pub max_workgroup_bytes: u32,
    pub max_storage_bindings: u32,
    pub f16_arithmetic: bool,
    /// Whether products of packed bytes are an instruction; nothing where kernels cannot have them.
    pub dot_products: Option<bool>,
    pub timestamps: bool,
    pub pipeline_cache: bool,
    /// Side of the f16-to-f32 cooperative matrices used, if there are any.
    pub coop_size: Option<u32>,
    pub tiers: Vec<Tier>,
    /// Why its matrix units are not among the tiers, where they did not pass a trial.
    pub matrices_refused: Option<String>,
    pub memory: Vec<MemoryReading>,
}

/// Every adapter of this machine, or an empty list and why it is empty.
#[derive(Debug)]
pub struct Adapters {
    pub(crate) raw: Vec<wgpu::Adapter>,
    pub infos: Vec<AdapterInfo>,
    /// Set when nothing was found.
    pub reason: Option<String>,
}

impl Adapters {
    /// Asks Vulkan, DX12 and Metal. A missing loader or driver gives an empty list.
    pub fn enumerate() -> Adapters {
        let backends = wgpu::Backends::VULKAN | wgpu::Backends::DX12 | wgpu::Backends::METAL;
        let mut desc = wgpu::InstanceDescriptor::new_without_display_handle();
        desc.backends = backends;
        desc.flags = wgpu::InstanceFlags::empty();
        let instance = wgpu::Instance::new(desc);
        let raw = pollster::block_on(instance.enumerate_adapters(backends));
        let infos: Vec<AdapterInfo> = raw
            .iter()
            .enumerate()
            .map(|(index, adapter)| describe(index, adapter))
            .collect();
        let reason = infos.is_empty().then(no_adapter_reason);
        Adapters { raw, infos, reason }
    }

    /// The adapter for `auto` (best real GPU), `N`, or part of a name.
    pub fn pick(&self, wanted: &str) -> Result<&AdapterInfo, GpuError> {
        if let Some(reason) = &self.reason {
            return Err(GpuError::NoAdapter {
                reason: reason.clone(),
            });
        }
        let found = if wanted == "auto" {
            let real = self
                .infos
                .iter()
                .filter(|a| a.kind != AdapterKind::Software);
            let best = real.min_by_key(|a| match a.kind {
                AdapterKind::Discrete => 0,
                AdapterKind::Integrated => 1,
                _ => 2,
            });
            return best.ok_or_else(|| GpuError::NoAdapter {
                reason: format!("only software adapters found ({})", self.names().join(", ")),
            });
        } else if let Ok(index) = wanted.parse::<usize>() {
            self.infos.get(index)
        } else {
            let lower = wanted.to_lowercase();
            self.infos
                .iter()
                .find(|a| a.name.to_lowercase().contains(&lower))
        };
        found.ok_or_else(|| GpuError::NoSuchAdapter {
            wanted: wanted.to_owned(),
            found: self.names(),
        })
    }

    fn names(&self) -> Vec<String> {
        self.infos
            .iter()
            .map(|a| format!("{} {}", a.index, a.name))
            .collect()
    }
}

/// Features used when present; each missing one costs a tier or a convenience.
pub(crate) const WANTED: wgpu::Features = wgpu::Features::IMMEDIATES
    .union(wgpu::Features::SHADER_F16)
    .union(wgpu::Features::SUBGROUP)
    .union(wgpu::Features::TIMESTAMP_QUERY)
    .union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS)
    .union(wgpu::Features::TIMESTAMP_QUERY_INSIDE_PASSES)
    .union(wgpu::Features::PIPELINE_CACHE)
    .union(wgpu::Features::MAPPABLE_PRIMARY_BUFFERS)
    .union(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX);

fn describe(index: usize, adapter: &wgpu::Adapter) -> AdapterInfo {
    let info = adapter.get_info();
    let limits = adapter.limits();
    let features = adapter.features();
    let coop_size = coop_size(adapter);
    let mut tiers = vec![Tier::F32, Tier::F16];
    if features.contains(wgpu::Features::SUBGROUP) {
        tiers.push(Tier::Subgroup);
        if coop_size.is_some() {
            tiers.push(Tier::Coop);
        }
    }
    AdapterInfo {
        index,
        kind: match info.device_type {
            wgpu::DeviceType::DiscreteGpu => AdapterKind::Discrete,
            wgpu::DeviceType::IntegratedGpu => AdapterKind::Integrated,
            wgpu::DeviceType::VirtualGpu => AdapterKind::Virtual,
            wgpu::DeviceType::Cpu => AdapterKind::Software,
            wgpu::DeviceType::Other => AdapterKind::Other,
        },
        backend: info.backend.to_string(),
        vendor_id: info.vendor,
        device_id: info.device,
        pci_bus: info.device_pci_bus_id.clone(),
        driver: info.driver.clone(),
        driver_info: info.driver_info.clone(),
        subgroup_min: info.subgroup_min_size,
        subgroup_max: info.subgroup_max_size,
        max_binding_bytes: limits.max_storage_buffer_binding_size,
        max_buffer_bytes: limits.max_buffer_size,
        max_workgroup_bytes: limits.max_compute_workgroup_storage_size,
        max_storage_bindings: limits.max_storage_buffers_per_shader_stage,
        f16_arithmetic: features.contains(wgpu::Features::SHADER_F16),
        dot_products: crate::vulkan::dot_products(adapter),
        timestamps: features.contains(wgpu::Features::TIMESTAMP_QUERY),
        pipeline_cache: features.contains(wgpu::Features::PIPELINE_CACHE),
        coop_size,
        tiers,
        matrices_refused: None,
        memory: read_memory(adapter, &info),
        name: info.name,
    }
}

/// 16 where the hardware has it (RDNA3+, NVIDIA), else 8 (lavapipe), else none.
fn coop_size(adapter: &wgpu::Adapter) -> Option<u32> {
    let features = adapter.features();
    if !features
        .contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX | wgpu::Features::SHADER_F16)
    {
        return None;
    }
    let found = adapter.cooperative_matrix_properties();
    [16, 8].into_iter().find(|&s| {
        found.iter().any(|c| {
            (c.m_size, c.n_size, c.k_size) == (s, s, s)
                && c.ab_type == wgpu::CooperativeScalarType::F16
                && c.cr_type == wgpu::CooperativeScalarType::F32
        })
    })
}

fn no_adapter_reason() -> String {
    let loader = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/lib/x86_64-linux-gnu",
    ]
    .iter()
    .any(|dir| std::path::Path::new(dir).join("libvulkan.so.1").exists());
    if cfg!(target_os = "linux") && !loader {
        "no Vulkan loader (libvulkan.so.1) found; install libvulkan1 and a Vulkan driver".to_owned()
    } else {
        "no graphics driver reported a device".to_owned()
    }
}
