//! Graphics adapters as facts.

use super::arch;
use super::facts::{Adapter, Kind, Reading, Source};
use crate::device;
use nino_gpu::{AdapterInfo, AdapterKind, MemorySource};

/// Every adapter, or none and why.
pub(super) fn found() -> (Vec<Adapter>, Option<String>) {
    match device::adapters() {
        Ok(found) => (found.infos.iter().map(facts).collect(), found.reason),
        Err(e) => (Vec::new(), Some(e.to_string())),
    }
}

pub(super) fn facts(info: &AdapterInfo) -> Adapter {
    Adapter {
        device: format!("gpu:{}", info.index),
        name: info.name.clone(),
        kind: match info.kind {
            AdapterKind::Discrete => Kind::Discrete,
            AdapterKind::Integrated => Kind::Integrated,
            AdapterKind::Virtual => Kind::Virtual,
            AdapterKind::Software => Kind::Software,
            AdapterKind::Other => Kind::Other,
        },
        vendor_id: info.vendor_id,
        device_id: info.device_id,
        pci: info.pci_bus.clone(),
        architecture: arch::find(info.vendor_id, info.device_id, &info.name),
        backend: info.backend.clone(),
        driver: info.driver.clone(),
        driver_info: info.driver_info.clone(),
        tiers: info.tiers.iter().map(ToString::to_string).collect(),
        subgroup: (info.subgroup_min, info.subgroup_max),
        coop_size: info.coop_size,
        f16_arithmetic: info.f16_arithmetic,
        timestamps: info.timestamps,
        max_binding: info.max_binding_bytes,
        max_buffer: info.max_buffer_bytes,
        max_workgroup: info.max_workgroup_bytes,
        memory: info
            .memory
            .iter()
            .map(|m| reading(m.source, m.total, m.free))
            .collect(),
        budget: None,
    }
}

fn reading(source: MemorySource, total: u64, free: Option<u64>) -> Reading {
    let source = match source {
        MemorySource::VulkanHeaps => Source::VulkanHeaps,
        MemorySource::VulkanBudget => Source::VulkanBudget,
        MemorySource::AmdVram => Source::AmdVram,
        MemorySource::AmdGtt => Source::AmdGtt,
        MemorySource::Host => Source::Host,
    };
    Reading {
        source,
        total,
        free,
    }
}
