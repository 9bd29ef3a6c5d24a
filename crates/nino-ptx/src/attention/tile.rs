//! One tile of keys: scores, their exponentials, and the values these weigh.

use super::Writer;
use crate::asm::{Reg, list, op};
use crate::softmax::{Sums, sums};

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
        if let Some(mask) = &self.mask {
            mask.add_last(&mut self.a, &scores);
        }
        self.softmax.mask(&mut self.a, &scores, valid);
        self.softmax.first_shifts(&mut self.a, &scores);
        let sums = self.softmax.sum.iter().copied();
        for sum in sums.chain(self.out.concat().concat()) {
            op!(self.a, "mov.f32 {sum}, {}", self.zero);
        }
        self.values(&turns[1], &scores);
    }

    pub(super) fn next_tile(&mut self, fragments: [Reg; 2]) {
        let turns = fragments.map(|fragment| self.turns(fragment));
        let scores = self.scores(&turns);
        if let Some(mask) = &self.mask {
            mask.add_next(&mut self.a, &scores);
        }
        self.softmax.new_shifts(&mut self.a, &scores, &self.out);
        self.values(&turns[1], &scores);
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
        let blocks = q.iter().map(|_| sums(&mut self.a, self.kernel.keys / 8));
        let scores: Vec<Sums> = blocks.collect();
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

    /// While the matrix units take 16 keys, the next ones' exponentials are made.
    fn values(&mut self, turns: &[Reg], scores: &[Sums]) {
        let keys = self.kernel.keys;
        let mut next = self.softmax.exponentials(&mut self.a, scores, 0);
        for row in (0..keys).step_by(16) {
            let weights = std::mem::take(&mut next);
            if row + 16 < keys {
                next = self.softmax.exponentials(&mut self.a, scores, row + 16);
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
