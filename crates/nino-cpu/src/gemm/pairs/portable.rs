//! What is done with pairs beside multiplying them, for CPUs without instructions of their own for
//! it. The contract of its functions is that of the vector versions: x86's tests compare both.

use half::{bf16, f16};
use nino_dtype::DType;

use super::{PANEL, ZEROS, copy};
use crate::gemm::micro::LDA;

#[inline(always)]
fn round(x: f32) -> u32 {
    u32::from(bf16::from_f32(x).to_bits())
}

/// Gives two values as a slot.
#[inline(always)]
fn pair(lo: f32, hi: f32) -> f32 {
    f32::from_bits(round(lo) | round(hi) << 16)
}

/// Rounds `n` values to bf16, in a row that ends with a whole pair. `dst` may be `src`.
pub(crate) unsafe fn narrow(src: *const f32, n: usize, dst: *mut f32) {
    for i in 0..n / 2 {
        *dst.add(i) = pair(*src.add(2 * i), *src.add(2 * i + 1));
    }
    if n % 2 == 1 {
        *dst.add(n / 2) = pair(*src.add(n - 1), 0.0);
    }
}

/// Makes `n` rows of [`PANEL`] values, `ld` apart, a panel of pairs, by a function that reads one.
#[inline(always)]
unsafe fn interleave<T: Copy>(
    src: *const T,
    ld: usize,
    n: usize,
    dst: *mut f32,
    read: impl Fn(T) -> f32,
) {
    for i in 0..n.div_ceil(2) {
        let lo = src.add(2 * i * ld);
        let hi = if 2 * i + 1 < n {
            lo.add(ld)
        } else {
            ZEROS.as_ptr().cast()
        };
        for j in 0..PANEL {
            *dst.add(i * PANEL + j) = pair(read(*lo.add(j)), read(*hi.add(j)));
        }
    }
}

pub(crate) unsafe fn interleave_f32(src: *const f32, ld: usize, n: usize, dst: *mut f32) {
    interleave(src, ld, n, dst, |x| x);
}

pub(crate) unsafe fn interleave_f16(src: *const u16, ld: usize, n: usize, dst: *mut f32) {
    interleave(src, ld, n, dst, |x| f16::from_bits(x).to_f32());
}

pub(crate) unsafe fn interleave_bf16(src: *const u16, ld: usize, n: usize, dst: *mut f32) {
    interleave(src, ld, n, dst, |x| bf16::from_bits(x).to_f32());
}

/// Makes an even number of rows of [`PANEL`] values, f16 or bf16, a panel of pairs of bf16 where
/// they lie.
pub(crate) unsafe fn pair_up(dtype: DType, panel: *mut u16, rows: usize) {
    for i in (0..rows).step_by(2) {
        let at = panel.add(i * PANEL);
        let mut two = [0u16; 2 * PANEL];
        two.as_mut_ptr().copy_from_nonoverlapping(at, 2 * PANEL);
        for j in 0..PANEL {
            for (half, value) in [two[j], two[PANEL + j]].into_iter().enumerate() {
                let value = match dtype {
                    DType::F16 => bf16::from_f32(f16::from_bits(value).to_f32()).to_bits(),
                    _ => value,
                };
                *at.add(2 * j + half) = value;
            }
        }
    }
}

/// Gives the values of a panel of pairs as `rows` rows of f32.
pub(crate) unsafe fn unpair(pairs: *const f32, rows: usize, dst: *mut f32) {
    for i in 0..rows / 2 {
        for j in 0..PANEL {
            let both = (*pairs.add(i * PANEL + j)).to_bits();
            *dst.add(2 * i * PANEL + j) = f32::from_bits(both << 16);
            *dst.add((2 * i + 1) * PANEL + j) = f32::from_bits(both & 0xffff_0000);
        }
    }
}

/// Copies `rows` rows of `n` bf16 values, `ld` apart, to rows [`LDA`] slots apart.
pub(crate) unsafe fn copy_rows(src: *const u16, ld: usize, n: usize, rows: usize, dst: *mut f32) {
    for row in 0..rows {
        copy(src.add(row * ld), n, dst.add(row * LDA));
    }
}

/// Makes pairs of two rows of `n` bf16 values, of which `hi` may be null for zeros. It writes whole
/// vectors.
pub(crate) unsafe fn pair_rows(lo: *const u16, hi: *const u16, n: usize, dst: *mut f32) {
    for i in 0..n.next_multiple_of(16) {
        let read = |row: *const u16| {
            if i < n && !row.is_null() {
                u32::from(*row.add(i))
            } else {
                0
            }
        };
        *dst.add(i) = f32::from_bits(read(lo) | read(hi) << 16);
    }
}
