//! Graphics adapters as facts.

use super::arch;
use super::facts::Adapter;
use nino_engine::device::{self, AdapterInfo, Budget, HostMemory};

/// Every adapter, or none and why. `cap` is what the user allows.
pub(super) fn found(memory: &HostMemory, cap: Option<u64>) -> (Vec<Adapter>, Option<String>) {
    match device::adapters() {
        Ok(found) => {
            let infos = found.infos.into_iter();
            (infos.map(|a| facts(a, memory, cap)).collect(), found.reason)
        }
        Err(e) => (Vec::new(), Some(e.to_string())),
    }
}

fn facts(info: AdapterInfo, memory: &HostMemory, cap: Option<u64>) -> Adapter {
    Adapter {
        device: format!("gpu:{}", info.index),
        kind: info.kind,
        vendor_id: info.vendor_id,
        device_id: info.device_id,
        architecture: arch::find(info.vendor_id, info.device_id, &info.name),
        tiers: info.tiers.iter().map(ToString::to_string).collect(),
        matrices_refused: info.matrices_refused,
        subgroup: (info.subgroup_min, info.subgroup_max),
        coop_size: info.coop_size,
        f16_arithmetic: info.f16_arithmetic,
        dot_products: info.dot_products,
        timestamps: info.timestamps,
        max_binding: info.max_binding_bytes,
        max_buffer: info.max_buffer_bytes,
        max_workgroup: info.max_workgroup_bytes,
        budget: Budget::adapter(info.kind, &info.memory, memory, cap),
        name: info.name,
        pci: info.pci_bus,
        backend: info.backend,
        driver: info.driver,
        driver_info: info.driver_info,
        memory: info.memory,
    }
}
