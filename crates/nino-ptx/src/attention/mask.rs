//! What is added to the scores before their softmax, f32, read from memory tile by tile.

use super::{Word, Writer};
use crate::asm::{Asm, Reg, op};
use crate::softmax::Sums;

/// The least exponent of e that a masked score may have. What is below it weighs nothing beside any
/// other key, but a mask of -1e30 in a tile of its own would lose all precision of the shift that
/// is to bring it to zero.
const LEAST: &str = "0fC6317000"; // -11356.0

/// Bytes of a value, and of a tile's eight columns.
const VALUE: u32 = 4;
const EIGHT: u32 = 8 * VALUE;

pub(super) struct Mask {
    /// For each row of the lane, where its columns of the tile at hand begin.
    rows: Vec<Reg>,
    /// Scores are multiplied by the factor later, so this is divided by it.
    factor: Reg,
    /// Scores are at least this.
    least: Reg,
    /// Keys between the first column of the lane and the end of the last tile's.
    left: Reg,
    keys: u32,
}

impl Mask {
    /// Behind `before` tiles. Rows beyond the last one read the last one's values.
    pub(super) fn new(w: &mut Writer, before: Reg) -> Mask {
        let keys = w.kernel.keys;
        let [rows, m] = [w.word(Word::Rows), w.word(Word::Keys)];
        let [at, head, row, batch] =
            [Word::Mask, Word::MaskHead, Word::MaskRow, Word::MaskBatch].map(|word| w.word(word));
        let factor_bits = w.word(Word::MaskFactor);
        let (lane, first) = (w.lane, w.row);
        let warp_rows = w.kernel.warp_rows;
        let a = &mut w.a;
        let (view, factor, least) = (a.view(4), a.f32(), a.f32());
        op!(a, "mov.b32 {factor}, {factor_bits}");
        op!(a, "mul.f32 {least}, {factor}, {LEAST}");
        let [y, z, last, group, column, key, left] = [(); 7].map(|()| a.b32());
        op!(a, "mov.u32 {y}, %ctaid.y");
        op!(a, "mov.u32 {z}, %ctaid.z");
        op!(a, "mad.lo.u32 {at}, {y}, {head}, {at}");
        op!(a, "mad.lo.u32 {at}, {z}, {batch}, {at}");
        op!(a, "sub.u32 {last}, {rows}, 1");
        op!(a, "shr.u32 {group}, {lane}, 2");
        op!(a, "and.b32 {column}, {lane}, 3");
        op!(a, "shl.b32 {column}, {column}, 1");
        op!(a, "mad.lo.u32 {key}, {before}, {keys}, {column}");
        op!(a, "sub.u32 {left}, {m}, {key}");
        op!(a, "add.u32 {at}, {at}, {key}");
        let of_row = |plus: u32| {
            let [at_row, address] = [a.b32(), a.b64()];
            op!(a, "add.u32 {at_row}, {first}, {group}");
            op!(a, "add.u32 {at_row}, {at_row}, {plus}");
            op!(a, "min.u32 {at_row}, {at_row}, {last}");
            op!(a, "mad.lo.u32 {at_row}, {at_row}, {row}, {at}");
            op!(a, "mul.wide.u32 {address}, {at_row}, {VALUE}");
            op!(a, "add.u64 {address}, {address}, {view}");
            address
        };
        Mask {
            rows: (0..warp_rows).step_by(8).map(of_row).collect(),
            factor,
            least,
            left,
            keys,
        }
    }

    /// Adds the last tile's, whose keys may end before the tile does.
    pub(super) fn add_last(&self, a: &mut Asm, scores: &[Sums]) {
        let inside: Vec<Reg> = (0..self.keys / 8)
            .map(|eight| {
                let inside = a.pred();
                op!(a, "setp.gt.s32 {inside}, {}, {}", self.left, eight * 8);
                inside
            })
            .collect();
        self.add(a, scores, Some(&inside));
    }

    /// Adds the tile's before the one at hand.
    pub(super) fn add_next(&self, a: &mut Asm, scores: &[Sums]) {
        for row in &self.rows {
            op!(a, "sub.u64 {row}, {row}, {}", self.keys * VALUE);
        }
        self.add(a, scores, None);
    }

    /// Rows have an even number of columns, so that both of a pair are inside or none is.
    fn add(&self, a: &mut Asm, scores: &[Sums], inside: Option<&[Reg]>) {
        for (i, row) in self.rows.iter().enumerate() {
            for (eight, score) in scores[i / 2].iter().enumerate() {
                let [low, high] = [a.f32(), a.f32()];
                let at = eight as u32 * EIGHT;
                let guard = inside.map_or(String::new(), |inside| {
                    op!(a, "mov.f32 {low}, 0f00000000");
                    op!(a, "mov.f32 {high}, 0f00000000");
                    format!("@{} ", inside[eight])
                });
                op!(
                    a,
                    "{guard}ld.global.nc.v2.f32 {{{low}, {high}}}, [{row}+{at}]"
                );
                for (value, score) in [low, high].iter().zip(&score[i % 2 * 2..][..2]) {
                    op!(a, "fma.rn.f32 {score}, {value}, {}, {score}", self.factor);
                    op!(a, "max.f32 {score}, {score}, {}", self.least);
                }
            }
        }
    }
}
