//! Products of int16 (`vpdpwssd`): two products a lane, summed in int32, scaled to f32.
//!
//! A slot is a pair of neighboring values of k, as for pairs of bf16. Rows of A are [`LDW`] slots
//! apart and have a scale each; a panel of B is `[slots][PANEL]` with a scale for each column. Who
//! makes the factors sees to it that no sum of a block exceeds an int32: by the inequality of
//! Cauchy and Schwarz it does not where the norms of rows and columns multiply to less than 2³¹.

use super::micro::PANEL;
use super::rates;
use crate::simd::Level;

/// Slots between two rows of A, and so the most slots of a block.
pub(crate) const LDW: usize = 64;

/// One B panel against many rows of A.
#[derive(Clone, Copy)]
pub(crate) struct Int16Block {
    pub a: *const i32,
    /// What a one of each row stands for.
    pub a_scales: *const f32,
    pub b: *const i32,
    /// What a one of each column stands for.
    pub b_scales: *const f32,
    pub slots: usize,
    pub c: *mut f32,
    pub ldc: usize,
    pub rows: usize,
    /// The columns to compute. C must have room for whole vectors.
    pub cols: usize,
    /// Whether the product is added to what C holds.
    pub accumulate: bool,
}

/// Whether there are products of int16 at a level.
pub(crate) fn exists(level: Level) -> bool {
    #[cfg(target_arch = "x86_64")]
    return level == Level::Avx512 && is_x86_feature_detected!("avx512vnni");
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = level;
        false
    }
}

/// Whether products of int16 are worth it at a level, as measured once.
pub(crate) fn supported(level: Level) -> bool {
    rates::of(level).int16_pays()
}

/// Computes C = A B, or C += A B with `accumulate`, where [`exists`] is true.
pub(crate) unsafe fn block(t: &Int16Block) {
    #[cfg(target_arch = "x86_64")]
    x86::block(t);
    #[cfg(not(target_arch = "x86_64"))]
    let _ = t;
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Int16Block, LDW, PANEL};

    /// Rows of a register tile of two vectors: 28 of the 32 registers are sums.
    const MR: usize = 14;

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    pub(super) unsafe fn block(t: &Int16Block) {
        let tiles = t.rows.div_ceil(MR);
        let mut row = 0;
        for i in 0..tiles {
            let end = (i + 1) * t.rows / tiles;
            let sub = Int16Block {
                a: t.a.add(row * LDW),
                a_scales: t.a_scales.add(row),
                c: t.c.add(row * t.ldc),
                ..*t
            };
            if t.cols > PANEL / 2 {
                tile::<2>(end - row, &sub);
            } else {
                tile::<1>(end - row, &sub);
            }
            row = end;
        }
    }

    macro_rules! heights {
        ($nv:ident, $rows:expr, $t:expr; $($mr:literal)*) => {
            match $rows {
                $($mr => micro::<$mr, $nv>($t),)*
                _ => unreachable!("a tile has at most MR rows"),
            }
        };
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn tile<const NV: usize>(rows: usize, t: &Int16Block) {
        heights!(NV, rows, t; 1 2 3 4 5 6 7 8 9 10 11 12 13 14);
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
    unsafe fn micro<const R: usize, const NV: usize>(t: &Int16Block) {
        let mut acc = [[_mm512_setzero_si512(); NV]; R];
        let (mut a, mut b) = (t.a, t.b);
        for _ in 0..t.slots {
            let mut bv = [_mm512_setzero_si512(); NV];
            for v in 0..NV {
                bv[v] = _mm512_loadu_si512(b.add(v * 16).cast());
            }
            for i in 0..R {
                let av = _mm512_set1_epi32(*a.add(i * LDW));
                for v in 0..NV {
                    acc[i][v] = _mm512_dpwssd_epi32(acc[i][v], av, bv[v]);
                }
            }
            a = a.add(1);
            b = b.add(PANEL);
        }
        for v in 0..NV {
            let column = _mm512_loadu_ps(t.b_scales.add(v * 16));
            for i in 0..R {
                let c = t.c.add(i * t.ldc + v * 16);
                let scale = _mm512_mul_ps(column, _mm512_set1_ps(*t.a_scales.add(i)));
                let sum = _mm512_cvtepi32_ps(acc[i][v]);
                let sum = if t.accumulate {
                    _mm512_fmadd_ps(sum, scale, _mm512_loadu_ps(c))
                } else {
                    _mm512_mul_ps(sum, scale)
                };
                _mm512_storeu_ps(c, sum);
            }
        }
    }
}
