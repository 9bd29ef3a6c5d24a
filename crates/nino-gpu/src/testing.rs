//! What unit tests share.

use crate::{Adapters, Gpu, Tier};

/// Opens every adapter of this machine, at its best tier or at a lower one; the list is empty where
/// a test without a GPU may be skipped.
pub(crate) fn gpus(tier: Option<Tier>) -> Vec<Gpu> {
    let adapters = Adapters::enumerate();
    nino_testing::gpu_or_skip(adapters.reason.as_deref());
    Gpu::open_all(&adapters, tier).unwrap()
}
