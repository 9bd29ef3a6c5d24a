//! What unit tests share.

use crate::{AdapterInfo, AdapterKind, Adapters, Gpu, Tier};

/// Opens every adapter of this machine, at its best tier or at a lower one; the list is empty where
/// a test without a GPU may be skipped.
pub(crate) fn gpus(tier: Option<Tier>) -> Vec<Gpu> {
    let adapters = Adapters::enumerate();
    nino_testing::gpu_or_skip(adapters.reason.as_deref());
    Gpu::open_all(&adapters, tier).unwrap()
}

/// An adapter of AMD's with matrix units, as a value.
pub(crate) fn some_adapter() -> AdapterInfo {
    AdapterInfo {
        index: 0,
        name: "made up".to_owned(),
        kind: AdapterKind::Discrete,
        backend: "vulkan".to_owned(),
        vendor_id: 0x1002,
        device_id: 0x744c,
        pci_bus: String::new(),
        driver: "driver".to_owned(),
        driver_info: "1.0".to_owned(),
        subgroup_min: 32,
        subgroup_max: 64,
        max_binding_bytes: 1 << 31,
        max_buffer_bytes: 1 << 31,
        max_workgroup_bytes: 1 << 16,
        max_storage_bindings: 8,
        f16_arithmetic: true,
        dot_products: Some(true),
        timestamps: true,
        pipeline_cache: true,
        coop_size: Some(16),
        tiers: Tier::ALL.to_vec(),
        matrices_refused: None,
        memory: Vec::new(),
    }
}
