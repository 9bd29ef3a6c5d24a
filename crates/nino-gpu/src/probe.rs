//! What PTX a device takes, seen by running some: Vulkan does not tell an NVIDIA device's compute
//! capability.

use nino_ptx::{PROBE_THREADS, PtxKey, Target};

use crate::kernel::{Kernel, Launch, View};
use crate::{Gpu, GpuError};

const GROUPS: u32 = 2;

impl Gpu {
    /// The best target whose probe compiles, runs and gives the right numbers.
    pub(crate) fn probe_ptx(&self) -> Option<Target> {
        if !self.vulkan.as_ref()?.takes_ptx() {
            return None;
        }
        let runs = |target: &Target| match self.probe(*target) {
            Ok(runs) => runs,
            Err(e) => {
                tracing::debug!(target = target.name(), error = %e, "PTX refused");
                false
            }
        };
        let found = [Target::Sm90a, Target::Sm80].into_iter().find(runs);
        tracing::debug!(target = ?found, "PTX");
        found
    }

    fn probe(&self, target: Target) -> Result<bool, GpuError> {
        let bytes = GROUPS * PROBE_THREADS * 4;
        let buffer = self.buffer("probe", u64::from(bytes))?;
        let launch = Launch {
            kernel: Kernel::Ptx(PtxKey::Probe(target)),
            views: vec![View::whole(&buffer, nino_dtype::DType::U32)],
            writes: 1,
            params: vec![3, 5],
            groups: [GROUPS, 1, 1],
        };
        let dispatch = self.dispatch(&launch)?;
        self.time(&dispatch, 1)?;
        let found = self.read(&buffer, 0, bytes as usize)?;
        let expected = (0..GROUPS * PROBE_THREADS).flat_map(|i| (i * 3 + 5).to_le_bytes());
        Ok(found.into_iter().eq(expected))
    }
}
