//! A kernel that shows whether the device runs what a target allows: Vulkan does not tell an NVIDIA
//! device's compute capability.

use super::asm::{Asm, Entry, op};
use super::{PtxKernel, PtxKey, Target};
use crate::kernel::{Kernel, Launch, View};
use crate::{Gpu, GpuError, Tier};

const THREADS: u32 = 128;
const GROUPS: u32 = 2;

/// Every thread writes its number times word 0, plus word 1, by way of the last of the shared memory
/// that a kernel may use.
pub(super) fn kernel(target: Target) -> PtxKernel {
    let mut a = Asm::default();
    let (out, scale, start) = (a.view(0), a.word(0), a.word(1));
    let [block, thread, value] = [a.b32(), a.b32(), a.b32()];
    let address = a.b64();
    match target {
        Target::Sm80 => op!(a, "cp.async.wait_all"),
        Target::Sm90a => op!(a, "wgmma.fence.sync.aligned"),
    }
    op!(a, "mov.u32 {thread}, %tid.x");
    op!(a, "mov.u32 {block}, %ctaid.x");
    op!(a, "mad.lo.u32 {thread}, {block}, {THREADS}, {thread}");
    op!(a, "mad.lo.u32 {value}, {thread}, {scale}, {start}");
    let place = a.b32();
    op!(a, "mov.u32 {place}, %tid.x");
    op!(a, "shl.b32 {place}, {place}, 2");
    let shared = a.b32();
    op!(a, "mov.u32 {shared}, shared");
    op!(a, "add.u32 {place}, {place}, {shared}");
    let last = target.shared() - THREADS * 4;
    op!(a, "st.shared.u32 [{place}+{last}], {value}");
    op!(a, "bar.sync 0");
    op!(a, "ld.shared.u32 {value}, [{place}+{last}]");
    op!(a, "mad.wide.u32 {address}, {thread}, 4, {out}");
    op!(a, "st.global.u32 [{address}], {value}");
    a.finish(Entry {
        name: &format!("probe_{}", target.name()),
        target: target.name(),
        views: 1,
        words: 2,
        threads: THREADS,
        shared: target.shared(),
        per_sm: 1,
    })
}

impl Gpu {
    /// Whether kernels may use Hopper's matrix instructions.
    pub(crate) fn has_wgmma(&self) -> bool {
        self.tier >= Tier::Coop && self.ptx == Some(Target::Sm90a)
    }

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
        let bytes = GROUPS * THREADS * 4;
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
        let expected = (0..GROUPS * THREADS).flat_map(|i| (i * 3 + 5).to_le_bytes());
        Ok(found.into_iter().eq(expected))
    }
}
