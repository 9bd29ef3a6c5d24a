//! Both operands in shared memory, and the product of a step.

use super::{Frame, Tile};
use crate::asm::{Asm, Reg, op};

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
        let rows = descriptor(a, tile, at);
        op!(a, "add.u32 {at}, {shared}, {}", tile.bm() * tile.line());
        let weights = descriptor(a, tile, at);
        Operands { rows, weights }
    }

    /// Adds the product of the step `read` (in units of 16 bytes) to `sums`.
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
                let list: Vec<String> = sums.iter().map(Reg::to_string).collect();
                let (list, bn) = (list.join(", "), tile.bn);
                let shape = format!("m64n{bn}k16.f32.f16.f16");
                op!(
                    a,
                    "wgmma.mma_async.sync.aligned.{shape} {{{list}}}, {x}, {w}, 1, 1, 1, 0, 0"
                );
            }
        }
        op!(a, "wgmma.commit_group.sync.aligned");
        op!(a, "wgmma.wait_group.sync.aligned 0");
    }
}

/// An operand whose K is contiguous: rows of one swizzled line, eight to an atom, from a multiple of
/// 1024 on.
fn descriptor(a: &mut Asm, tile: Tile, at: Reg) -> Reg {
    // Swizzles by number: lines of 128 bytes are 1, of 64 bytes 2.
    let mode: u64 = if tile.line() == 128 { 1 } else { 2 };
    let constant = mode << 62 | u64::from(tile.line() * 8 / 16) << 32 | 1 << 16;
    let (d, low) = (a.b64(), a.b32());
    op!(a, "and.b32 {low}, {at}, 0x3ffff");
    op!(a, "shr.u32 {low}, {low}, 4");
    op!(a, "cvt.u64.u32 {d}, {low}");
    op!(a, "or.b64 {d}, {d}, {constant:#x}");
    d
}
