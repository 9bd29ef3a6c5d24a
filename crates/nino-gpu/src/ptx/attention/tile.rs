//! One tile of keys: scores, their exponentials, and the values these weigh.

use super::{Sums, Writer, list, sums};
use crate::ptx::asm::{Reg, op};

/// 8.0: how far a row's exponents may be above zero. Halves hold their powers of two, and nearly no
/// tile but the first asks for another shift of its rows.
const SLACK: &str = "0f41000000";

/// Keys are multiplied as they lie, values transposed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Tensor {
    Keys,
    Values,
}

impl Writer {
    /// The last tile of keys, those from `valid` on masked. All else starts from it.
    pub(super) fn first_tile(&mut self, valid: Reg) {
        let turns = self.fragments.map(|fragment| self.turns(fragment));
        let scores = self.scores(&turns);
        self.mask(&scores, valid);
        for (row, shift) in self.shift.clone().into_iter().enumerate() {
            let top = self.row_top(&scores, row);
            let low = self.low(top);
            op!(self.a, "mov.f32 {shift}, {low}");
        }
        let sums = self.sum.iter().copied();
        for sum in sums.chain(self.out.concat().concat()) {
            op!(self.a, "mov.f32 {sum}, {}", self.zero);
        }
        self.values(&turns[1], &scores);
    }

    pub(super) fn next_tile(&mut self, fragments: [Reg; 2]) {
        let turns = fragments.map(|fragment| self.turns(fragment));
        let scores = self.scores(&turns);
        self.new_shifts(&scores);
        self.values(&turns[1], &scores);
    }

    pub(super) fn shuffle(&mut self, value: Reg, lanes: u32) -> Reg {
        let [bits, other] = [self.a.b32(), self.a.f32()];
        op!(self.a, "mov.b32 {bits}, {value}");
        let from = format!("{bits}, {lanes}, 31, 0xffffffff");
        op!(self.a, "shfl.sync.bfly.b32 {bits}, {from}");
        op!(self.a, "mov.b32 {other}, {bits}");
        other
    }

    /// A fragment's address with each of the swizzle's flips that lead to an even chunk.
    fn turns(&mut self, fragment: Reg) -> Vec<Reg> {
        let a = &mut self.a;
        (0..self.swizzle.group.div_ceil(2))
            .map(|pair| {
                let turned = a.b32();
                op!(a, "xor.b32 {turned}, {fragment}, {}", pair * 32);
                turned
            })
            .collect()
    }

    /// An even chunk and the one after it of 16 rows as four matrices; two where none is after it.
    fn matrices(&mut self, tensor: Tensor, turns: &[Reg], row: u32, chunk: u32) -> Vec<Reg> {
        let (flip, plus) = self.swizzle.step(chunk);
        let address = turns[flip as usize / 32];
        let count = if chunk + 1 < self.kernel.chunks() {
            4
        } else {
            2
        };
        let regs: Vec<Reg> = (0..count).map(|_| self.a.b32()).collect();
        let to = list(&regs);
        let plus = plus + row * self.swizzle.row_bytes;
        let (plus, how) = match tensor {
            Tensor::Keys => (plus, ""),
            Tensor::Values => (plus + self.kernel.tile_bytes(), ".trans"),
        };
        op!(
            self.a,
            "ldmatrix.sync.aligned.m8n8.x{count}{how}.shared.b16 {to}, [{address}+{plus}]"
        );
        regs
    }

    /// `sum = a b + plus`; fragments of half the columns make a product of half the depth.
    fn multiply(&mut self, sum: [Reg; 4], a: &[Reg], b: &[Reg], plus: [Reg; 4]) {
        let depth = 4 * a.len();
        let [sum, a, b, plus] = [list(&sum), list(a), list(b), list(&plus)];
        op!(
            self.a,
            "mma.sync.aligned.m16n8k{depth}.row.col.f32.f16.f16.f32 {sum}, {a}, {b}, {plus}"
        );
    }

    /// Fragments of all the tile's keys for one step of 16 columns. A single chunk is two matrices,
    /// one below the other as those of values are.
    fn keys(&mut self, turns: &[Vec<Reg>; 2], step: u32) -> Vec<Vec<Reg>> {
        let single = 2 * step + 1 == self.kernel.chunks();
        let turns = &turns[usize::from(single)];
        let rows = (0..self.kernel.keys).step_by(16);
        rows.map(|row| self.matrices(Tensor::Keys, turns, row, 2 * step))
            .collect()
    }

    fn scores(&mut self, turns: &[Vec<Reg>; 2]) -> Vec<Sums> {
        let q = std::mem::take(&mut self.q);
        let scores = sums(&mut self.a, q.len() as u32, self.kernel.keys / 8);
        let steps = self.kernel.chunks().div_ceil(2);
        let mut next = self.keys(turns, 0);
        for step in 0..steps {
            let keys = std::mem::take(&mut next);
            if step + 1 < steps {
                next = self.keys(turns, step + 1);
            }
            let eights = keys.iter().flat_map(|k| k.chunks(k.len() / 2));
            for (eight, keys) in eights.enumerate() {
                for (q, scores) in q.iter().zip(&scores) {
                    let sum = scores[eight];
                    let plus = if step == 0 { [self.zero; 4] } else { sum };
                    self.multiply(sum, &q[step as usize], keys, plus);
                }
            }
        }
        self.q = q;
        scores
    }

    fn mask(&mut self, scores: &[Sums], valid: Reg) {
        let a = &mut self.a;
        let [column, left] = [a.b32(), a.b32()];
        op!(a, "and.b32 {column}, {}, 3", self.lane);
        op!(a, "shl.b32 {column}, {column}, 1");
        op!(a, "sub.s32 {left}, {valid}, {column}");
        for eight in 0..self.kernel.keys as usize / 8 {
            for odd in 0..2 {
                let inside = a.pred();
                op!(a, "setp.gt.s32 {inside}, {left}, {}", eight * 8 + odd);
                for block in scores {
                    for score in [block[eight][odd], block[eight][odd + 2]] {
                        op!(a, "selp.f32 {score}, {score}, 0fFF800000, {inside}");
                    }
                }
            }
        }
    }

    /// The greatest score the lane holds of one of its rows.
    fn row_top(&mut self, scores: &[Sums], row: usize) -> Reg {
        let top = self.a.f32();
        let of_row = |sums: &[Reg; 4]| [sums[row % 2 * 2], sums[row % 2 * 2 + 1]];
        let [first, second] = of_row(&scores[row / 2][0]);
        op!(self.a, "max.f32 {top}, {first}, {second}");
        for score in scores[row / 2][1..].iter().flat_map(of_row) {
            op!(self.a, "max.f32 {top}, {top}, {score}");
        }
        top
    }

    /// What brings a row's greatest score to an exponent of zero; `top` becomes that of the four
    /// lanes which share the row.
    fn low(&mut self, top: Reg) -> Reg {
        for lanes in [1, 2] {
            let other = self.shuffle(top, lanes);
            op!(self.a, "max.f32 {top}, {top}, {other}");
        }
        let low = self.a.f32();
        op!(self.a, "mul.f32 {low}, {top}, {}", self.scale);
        op!(self.a, "neg.f32 {low}, {low}");
        low
    }

    /// Where an exponent would be above the slack, the warp's rows get new shifts.
    fn new_shifts(&mut self, scores: &[Sums]) {
        let rows = self.shift.len();
        let tops: Vec<Reg> = (0..rows).map(|row| self.row_top(scores, row)).collect();
        let keep = self.a.label();
        let above = self.a.pred();
        op!(self.a, "setp.ne.u32 {above}, 0, 0");
        for (top, shift) in tops.iter().zip(&self.shift) {
            let a = &mut self.a;
            let exponent = a.f32();
            op!(a, "fma.rn.f32 {exponent}, {top}, {}, {shift}", self.scale);
            op!(a, "setp.gt.or.f32 {above}, {exponent}, {SLACK}, {above}");
        }
        op!(self.a, "vote.sync.any.pred {above}, {above}, 0xffffffff");
        op!(self.a, "@!{above} bra.uni {keep}");
        for (row, top) in tops.into_iter().enumerate() {
            let low = self.low(top);
            let shift = self.shift[row];
            let a = &mut self.a;
            let factor = a.f32();
            op!(a, "min.f32 {low}, {low}, {shift}");
            op!(a, "sub.f32 {factor}, {low}, {shift}");
            op!(a, "ex2.approx.ftz.f32 {factor}, {factor}");
            op!(a, "mov.f32 {shift}, {low}");
            op!(a, "mul.f32 {0}, {0}, {factor}", self.sum[row]);
            for sums in &self.out[row / 2] {
                for value in &sums[row % 2 * 2..][..2] {
                    op!(a, "mul.f32 {value}, {value}, {factor}");
                }
            }
        }
        self.a.place(&keep);
    }

    /// Exponentials of 16 keys' scores as fragments of the second product, added to the sums.
    fn exponentials(&mut self, scores: &[Sums], row: u32) -> Vec<Vec<Reg>> {
        let mut fragments = Vec::new();
        for (block, scores) in scores.iter().enumerate() {
            let mut fragment = Vec::new();
            for score in &scores[row as usize / 8..][..2] {
                for half in 0..2 {
                    let [low, high] =
                        [0, 1].map(|odd| self.exponential(score[2 * half + odd], 2 * block + half));
                    let pair = self.a.b32();
                    op!(self.a, "cvt.rn.f16x2.f32 {pair}, {high}, {low}");
                    fragment.push(pair);
                }
            }
            fragments.push(fragment);
        }
        fragments
    }

    fn exponential(&mut self, score: Reg, row: usize) -> Reg {
        let a = &mut self.a;
        let value = a.f32();
        let (shift, sum) = (self.shift[row], self.sum[row]);
        op!(a, "fma.rn.f32 {value}, {score}, {}, {shift}", self.scale);
        op!(a, "ex2.approx.ftz.f32 {value}, {value}");
        op!(a, "add.f32 {sum}, {sum}, {value}");
        value
    }

    /// While the matrix units take 16 keys, the next ones' exponentials are made.
    fn values(&mut self, turns: &[Reg], scores: &[Sums]) {
        let keys = self.kernel.keys;
        let mut next = self.exponentials(scores, 0);
        for row in (0..keys).step_by(16) {
            let weights = std::mem::take(&mut next);
            if row + 16 < keys {
                next = self.exponentials(scores, row + 16);
            }
            for chunk in (0..self.kernel.chunks()).step_by(2) {
                let values = self.matrices(Tensor::Values, turns, row, chunk);
                for (odd, values) in values.chunks(2).enumerate() {
                    for (block, weights) in weights.iter().enumerate() {
                        let sum = self.out[block][chunk as usize + odd];
                        self.multiply(sum, weights, values, sum);
                    }
                }
            }
        }
    }
}
