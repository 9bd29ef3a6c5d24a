//! One tile of keys: scores, their exponentials, and the values these weigh.

use super::copy::Copies;
use super::{KEYS, LINE, SLOT, VALUE_KEYS, Writer};
use crate::asm::{Reg, list, op};

impl Writer {
    pub(super) fn tile(&mut self, copies: &mut Copies) {
        let (steps, key_steps) = (self.kernel.steps(), self.kernel.key_steps());
        for step in 0..key_steps {
            self.wait_for_step();
            self.score(step);
            copies.step(self, step + self.kernel.ahead());
            self.wait_for_products(step + 1 == key_steps);
        }
        self.mask(copies.valid);
        self.softmax
            .new_shifts(&mut self.a, &self.scores, &self.out);
        let mut next = self.weights(0);
        for step in key_steps..steps {
            let weights = std::mem::take(&mut next);
            self.wait_for_step();
            self.weigh(step, &weights);
            copies.step(self, step + self.kernel.ahead());
            let last = step + 1 == steps;
            if !last {
                next = self.weights(step + 1 - key_steps);
            }
            self.wait_for_products(last);
        }
    }

    /// After it, everybody's copies of a step are there, and everybody is done with the step two
    /// before it.
    fn wait_for_step(&mut self) {
        op!(self.a, "cp.async.wait_group {}", self.kernel.ahead() - 1);
        op!(self.a, "fence.proxy.async.shared::cta");
        op!(self.a, "bar.sync 0");
        op!(self.a, "wgmma.fence.sync.aligned");
    }

    /// Waits for this warp group's products, or for all but the last step's.
    fn wait_for_products(&mut self, all: bool) {
        let left = u32::from(!all);
        op!(self.a, "wgmma.wait_group.sync.aligned {left}");
    }

    /// Adds a step's columns to the scores.
    fn score(&mut self, step: u32) {
        let slot = step % self.kernel.slots() * SLOT;
        for part in 0..4 {
            let [q, k] = [self.a.b64(), self.a.b64()];
            let within = part * 32;
            let at = step * self.kernel.rows() * LINE + within;
            op!(self.a, "add.u64 {q}, {}, {}", self.queries, at / 16);
            op!(
                self.a,
                "add.u64 {k}, {}, {}",
                self.keys,
                (slot + within) / 16
            );
            let sums = list(self.scores[0].as_flattened());
            let more = u32::from(step + part > 0);
            op!(
                self.a,
                "wgmma.mma_async.sync.aligned.m64n{KEYS}k16.f32.f16.f16 \
                 {sums}, {q}, {k}, {more}, 1, 1, 0, 0"
            );
        }
        op!(self.a, "wgmma.commit_group.sync.aligned");
    }

    /// Exponentials of the scores whose keys' values are a step, as fragments of 16 keys each.
    fn weights(&mut self, step: u32) -> Vec<Vec<Reg>> {
        let keys = (step * VALUE_KEYS..(step + 1) * VALUE_KEYS).step_by(16);
        keys.flat_map(|key| self.softmax.exponentials(&mut self.a, &self.scores, key))
            .collect()
    }

    /// Adds a step's values, weighed.
    fn weigh(&mut self, step: u32, weights: &[Vec<Reg>]) {
        let slot = step % self.kernel.slots() * SLOT;
        let columns = self.kernel.columns();
        for (sixteen, weights) in (0..).zip(weights) {
            let v = self.a.b64();
            let at = slot + sixteen * 16 * LINE;
            op!(self.a, "add.u64 {v}, {}, {}", self.values, at / 16);
            let (sums, weights) = (list(self.out[0].as_flattened()), list(weights));
            op!(
                self.a,
                "wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16 \
                 {sums}, {weights}, {v}, 1, 1, 1, 1"
            );
        }
        op!(self.a, "wgmma.commit_group.sync.aligned");
    }

    /// Only the first tile can have less than all of its keys.
    pub(super) fn mask(&mut self, valid: Reg) {
        let (all, skip) = (self.a.pred(), self.a.label());
        op!(self.a, "setp.ge.s32 {all}, {valid}, {KEYS}");
        op!(self.a, "@{all} bra.uni {skip}");
        self.softmax.mask(&mut self.a, &self.scores, valid);
        op!(self.a, "mov.u32 {valid}, {KEYS}");
        self.a.place(&skip);
    }
}
