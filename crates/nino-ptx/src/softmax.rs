//! Softmax over one tile of scores after another, all in registers, in the layout the matrix units
//! leave sums in: a lane holds columns `2 (lane % 4)` and the next of rows `lane / 4` and
//! `lane / 4 + 8` of 16, and the rows of several such blocks.

use super::asm::{Asm, Reg, op};

/// 8.0: how far a row's exponents may be above zero. Halves hold their powers of two, and nearly no
/// tile but the first asks for another shift of its rows.
const SLACK: &str = "0f41000000";

/// The four sums of a lane, for each 8 columns of 16 rows.
pub(super) type Sums = Vec<[Reg; 4]>;

pub(super) fn sums(a: &mut Asm, columns: u32) -> Sums {
    (0..columns)
        .map(|_| [a.f32(), a.f32(), a.f32(), a.f32()])
        .collect()
}

/// The rows of a lane.
pub(super) struct Softmax {
    lane: Reg,
    /// log2(e) times the factor of scores.
    scale: Reg,
    /// For each row, the number that is added to a score times `scale` to make it an exponent of
    /// two.
    pub(super) shift: Vec<Reg>,
    /// For each row, the sum of the exponentials that this lane made.
    pub(super) sum: Vec<Reg>,
}

/// What the sums of values are to be multiplied by after new shifts.
pub(super) struct Rescale {
    /// Whether a row of the warp has a new shift.
    above: Reg,
    factors: Vec<Reg>,
}

impl Rescale {
    pub(super) fn apply(&self, a: &mut Asm, out: &[Sums]) {
        let keep = a.label();
        op!(a, "@!{} bra.uni {keep}", self.above);
        for (row, factor) in self.factors.iter().enumerate() {
            for sums in &out[row / 2] {
                for value in &sums[row % 2 * 2..][..2] {
                    op!(a, "mul.f32 {value}, {value}, {factor}");
                }
            }
        }
        a.place(&keep);
    }
}

impl Softmax {
    pub(super) fn new(a: &mut Asm, lane: Reg, scale: Reg, blocks: u32) -> Softmax {
        Softmax {
            lane,
            scale,
            shift: (0..2 * blocks).map(|_| a.f32()).collect(),
            sum: (0..2 * blocks).map(|_| a.f32()).collect(),
        }
    }

    /// Masks the keys from `valid` on.
    pub(super) fn mask(&self, a: &mut Asm, scores: &[Sums], valid: Reg) {
        let [column, left] = [a.b32(), a.b32()];
        op!(a, "and.b32 {column}, {}, 3", self.lane);
        op!(a, "shl.b32 {column}, {column}, 1");
        op!(a, "sub.s32 {left}, {valid}, {column}");
        for eight in 0..scores[0].len() {
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

    /// Sets the shifts for the first tile's scores.
    pub(super) fn first_shifts(&self, a: &mut Asm, scores: &[Sums]) {
        for (row, shift) in self.shift.iter().enumerate() {
            let top = row_top(a, scores, row);
            let low = self.low(a, top);
            op!(a, "mov.f32 {shift}, {low}");
        }
    }

    /// Sets new shifts for the warp's rows where an exponent would be above the slack, and rescales
    /// the sums in `out` to match.
    pub(super) fn new_shifts(&self, a: &mut Asm, scores: &[Sums], out: &[Sums]) {
        let rescale = self.shifts(a, scores);
        rescale.apply(a, out);
    }

    /// Sets new shifts for the warp's rows where an exponent would be above the slack. The sums of
    /// values are to be rescaled before anything is added to them.
    pub(super) fn shifts(&self, a: &mut Asm, scores: &[Sums]) -> Rescale {
        let rows = self.shift.len();
        let tops: Vec<Reg> = (0..rows).map(|row| row_top(a, scores, row)).collect();
        let keep = a.label();
        let above = a.pred();
        op!(a, "setp.ne.u32 {above}, 0, 0");
        for (top, shift) in tops.iter().zip(&self.shift) {
            let exponent = a.f32();
            op!(a, "fma.rn.f32 {exponent}, {top}, {}, {shift}", self.scale);
            op!(a, "setp.gt.or.f32 {above}, {exponent}, {SLACK}, {above}");
        }
        op!(a, "vote.sync.any.pred {above}, {above}, 0xffffffff");
        let factors: Vec<Reg> = (0..rows).map(|_| a.f32()).collect();
        op!(a, "@!{above} bra.uni {keep}");
        for (row, top) in tops.into_iter().enumerate() {
            let low = self.low(a, top);
            let (shift, factor) = (self.shift[row], factors[row]);
            op!(a, "min.f32 {low}, {low}, {shift}");
            op!(a, "sub.f32 {factor}, {low}, {shift}");
            op!(a, "ex2.approx.ftz.f32 {factor}, {factor}");
            op!(a, "mov.f32 {shift}, {low}");
            op!(a, "mul.f32 {0}, {0}, {factor}", self.sum[row]);
        }
        a.place(&keep);
        Rescale { above, factors }
    }

    /// Exponentials of all scores, added to the sums: in the layout of the scores of one block of
    /// rows.
    pub(super) fn exponentials_in_place(&self, a: &mut Asm, scores: &[Sums; 1]) -> Sums {
        let four = |score: &[Reg; 4]| [0, 1, 2, 3].map(|i| self.exponential(a, score[i], i / 2));
        scores[0].iter().map(four).collect()
    }

    /// Exponentials of the scores of 16 keys from `key` on, as fragments of the second product,
    /// added to the sums.
    pub(super) fn exponentials(&self, a: &mut Asm, scores: &[Sums], key: u32) -> Vec<Vec<Reg>> {
        let mut fragments = Vec::new();
        for (block, scores) in scores.iter().enumerate() {
            let mut fragment = Vec::new();
            for score in &scores[key as usize / 8..][..2] {
                for half in 0..2 {
                    let [low, high] = [0, 1]
                        .map(|odd| self.exponential(a, score[2 * half + odd], 2 * block + half));
                    let pair = a.b32();
                    op!(a, "cvt.rn.f16x2.f32 {pair}, {high}, {low}");
                    fragment.push(pair);
                }
            }
            fragments.push(fragment);
        }
        fragments
    }

    /// Adds up the sums of the lanes that share a row.
    pub(super) fn total(&self, a: &mut Asm) {
        for &sum in &self.sum {
            for lanes in [1, 2] {
                let other = shuffle(a, sum, lanes);
                op!(a, "add.f32 {sum}, {sum}, {other}");
            }
        }
    }

    /// Gives for each row the factor that its sums of values are multiplied by in the end.
    pub(super) fn factors(&self, a: &mut Asm) -> Vec<Reg> {
        for sum in &self.sum {
            op!(a, "rcp.approx.ftz.f32 {sum}, {sum}");
        }
        self.sum.clone()
    }

    /// Gives for each row the logarithm to base 2 of its total, without the shift.
    pub(super) fn logs(&self, a: &mut Asm) -> Vec<Reg> {
        let of_row = |(sum, shift): (&Reg, &Reg)| {
            let log = a.f32();
            op!(a, "lg2.approx.ftz.f32 {log}, {sum}");
            op!(a, "sub.f32 {log}, {log}, {shift}");
            log
        };
        self.sum.iter().zip(&self.shift).map(of_row).collect()
    }

    /// Gives the shift that brings a row's greatest score to an exponent of zero. `top` becomes the
    /// greatest score of the four lanes that share the row.
    fn low(&self, a: &mut Asm, top: Reg) -> Reg {
        for lanes in [1, 2] {
            let other = shuffle(a, top, lanes);
            op!(a, "max.f32 {top}, {top}, {other}");
        }
        let low = a.f32();
        op!(a, "mul.f32 {low}, {top}, {}", self.scale);
        op!(a, "neg.f32 {low}, {low}");
        low
    }

    fn exponential(&self, a: &mut Asm, score: Reg, row: usize) -> Reg {
        let value = a.f32();
        let (shift, sum) = (self.shift[row], self.sum[row]);
        op!(a, "fma.rn.f32 {value}, {score}, {}, {shift}", self.scale);
        op!(a, "ex2.approx.ftz.f32 {value}, {value}");
        op!(a, "add.f32 {sum}, {sum}, {value}");
        value
    }
}

/// The greatest score the lane holds of one of its rows.
fn row_top(a: &mut Asm, scores: &[Sums], row: usize) -> Reg {
    let top = a.f32();
    let of_row = |sums: &[Reg; 4]| [sums[row % 2 * 2], sums[row % 2 * 2 + 1]];
    let [first, second] = of_row(&scores[row / 2][0]);
    op!(a, "max.f32 {top}, {first}, {second}");
    for score in scores[row / 2][1..].iter().flat_map(of_row) {
        op!(a, "max.f32 {top}, {top}, {score}");
    }
    top
}

fn shuffle(a: &mut Asm, value: Reg, lanes: u32) -> Reg {
    let [bits, other] = [a.b32(), a.f32()];
    op!(a, "mov.b32 {bits}, {value}");
    let from = format!("{bits}, {lanes}, 31, 0xffffffff");
    op!(a, "shfl.sync.bfly.b32 {bits}, {from}");
    op!(a, "mov.b32 {other}, {bits}");
    other
}
