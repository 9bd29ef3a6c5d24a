//! How rows of an operand lie in shared memory.

use crate::asm::{Asm, Reg, op};

/// Rows lie in shared memory without padding. A row's chunks of 16 bytes are permuted, so that the
/// same chunk of 8 consecutive rows lies in 8 different eighths of 128 bytes, as `ldmatrix` wants
/// it; for rows of 64 or 128 bytes that is also how the matrix units of Hopper read them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Swizzle {
    pub(crate) row_bytes: u32,
    /// Chunks that change places among each other.
    pub(crate) group: u32,
}

impl Swizzle {
    pub(crate) fn new(row_bytes: u32) -> Swizzle {
        Swizzle {
            row_bytes,
            group: 1 << (row_bytes / 16).trailing_zeros().min(3),
        }
    }

    /// Bytes from a tile's start to a chunk of a row.
    pub(crate) fn offset(self, a: &mut Asm, row: Reg, chunk: Reg) -> Reg {
        let [turn, at, offset] = [a.b32(), a.b32(), a.b32()];
        op!(a, "shr.u32 {turn}, {row}, {}", (8 / self.group).ilog2());
        op!(a, "and.b32 {turn}, {turn}, {}", self.group - 1);
        op!(a, "xor.b32 {at}, {chunk}, {turn}");
        op!(a, "shl.b32 {at}, {at}, 4");
        op!(a, "mad.lo.u32 {offset}, {row}, {}, {at}", self.row_bytes);
        offset
    }

    /// What leads from a row's first chunks to its later ones: bits to flip, bytes to add.
    pub(crate) fn step(self, chunk: u32) -> (u32, u32) {
        let flip = chunk & (self.group - 1);
        (flip * 16, (chunk - flip) * 16)
    }
}
