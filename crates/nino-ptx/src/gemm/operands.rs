//! Both operands in shared memory, and the product of a step.

use super::{Frame, Tile};
use crate::asm::{Asm, Reg, list, op};
use crate::wgmma::descriptor;

/// Both operands in shared memory as the matrix units are told of them.
pub(super) struct Operands {
    rows: Reg,
    weights: Reg,
}

impl Operands {
    pub(super) fn new(a: &mut Asm, f: &Frame) -> Operands {
        let Frame { tile, shared, .. } = *f;
        let (group, at) = (a.b32(), a.b32());
        op!(a, "shr.u32 {group}, {}, 7", f.tid);
        let own = 64 * tile.blocks * tile.line();
        op!(a, "mad.lo.u32 {at}, {group}, {own}, {shared}");
        let rows = descriptor(a, at, tile.line(), 1);
        op!(a, "add.u32 {at}, {shared}, {}", tile.bm() * tile.line());
        let weights = descriptor(a, at, tile.line(), 1);
        Operands { rows, weights }
    }

    /// Begins to add the product of the step `read` (in units of 16 bytes) to `sums`.
    pub(super) fn multiply(&self, a: &mut Asm, tile: Tile, read: Reg, sums: &[Vec<Reg>]) {
        op!(a, "wgmma.fence.sync.aligned");
        let (rows, weights) = (a.b64(), a.b64());
        op!(a, "add.u64 {rows}, {}, {read}", self.rows);
        op!(a, "add.u64 {weights}, {}, {read}", self.weights);
        for part in 0..tile.bk / 16 {
            let w = a.b64();
            op!(a, "add.u64 {w}, {weights}, {}", part * 2);
            for (block, sums) in (0..).zip(sums) {
                let x = a.b64();
                op!(
                    a,
                    "add.u64 {x}, {rows}, {}",
                    part * 2 + block * 4 * tile.line()
                );
                let (sums, bn) = (list(sums), tile.bn);
                let shape = format!("m64n{bn}k16.f32.f16.f16");
                op!(
                    a,
                    "wgmma.mma_async.sync.aligned.{shape} {sums}, {x}, {w}, 1, 1, 1, 0, 0"
                );
            }
        }
        op!(a, "wgmma.commit_group.sync.aligned");
    }
}
