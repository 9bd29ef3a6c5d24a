//! Descriptors, which tell Hopper's matrix units how an operand lies in shared memory.

use crate::asm::{Asm, Reg, op};

/// Makes the descriptor of lines of 64 or 128 swizzled bytes that begin at a multiple of 1024.
/// Eight lines are an atom, and atoms of the same columns lie one after the other. Where a product
/// sums over the columns, `beside` is 1. Elsewhere it is the distance to the columns of the next
/// line, in units of 16 bytes.
pub(crate) fn descriptor(a: &mut Asm, at: Reg, line: u32, beside: u32) -> Reg {
    // Swizzles by number: lines of 128 bytes are 1, of 64 bytes 2.
    let mode: u64 = if line == 128 { 1 } else { 2 };
    let constant = mode << 62 | u64::from(line * 8 / 16) << 32 | u64::from(beside) << 16;
    let (d, low) = (a.b64(), a.b32());
    op!(a, "and.b32 {low}, {at}, 0x3ffff");
    op!(a, "shr.u32 {low}, {low}, 4");
    op!(a, "cvt.u64.u32 {d}, {low}");
    op!(a, "or.b64 {d}, {d}, {constant:#x}");
    d
}
