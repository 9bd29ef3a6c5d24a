//! A kernel that shows whether a device runs what a target allows: Vulkan does not tell an NVIDIA
//! device's compute capability.

use super::asm::{Asm, Entry, op};
use super::{PtxKernel, Target};

/// Threads of the kernel that [`PtxKey::Probe`](crate::PtxKey::Probe) stands for.
pub const PROBE_THREADS: u32 = 128;

/// Every thread writes its number times word 0, plus word 1, by way of the last of the shared
/// memory that a kernel may use.
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
    op!(a, "mad.lo.u32 {thread}, {block}, {PROBE_THREADS}, {thread}");
    op!(a, "mad.lo.u32 {value}, {thread}, {scale}, {start}");
    let place = a.b32();
    op!(a, "mov.u32 {place}, %tid.x");
    op!(a, "shl.b32 {place}, {place}, 2");
    let shared = a.b32();
    op!(a, "mov.u32 {shared}, shared");
    op!(a, "add.u32 {place}, {place}, {shared}");
    let last = target.shared() - PROBE_THREADS * 4;
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
        threads: PROBE_THREADS,
        shared: target.shared(),
        per_sm: 1,
    })
}
