//! Places in shared memory that some threads fill while others take what is in them.
//!
//! A place has two barriers: `full`, when the copies of all who fill it have arrived, and `empty`,
//! when all warps that read it are done. The warps that compute so never wait for each other, and
//! copies never wait for instructions that compute.

use crate::asm::{Asm, Reg, op};

/// Threads that copy: a warp group, because registers are given to whole ones.
pub(crate) const COPIERS: u32 = 128;

/// The barrier of the threads that compute.
pub(crate) const TOGETHER: u32 = 1;

/// Registers of a multiprocessor.
const REGISTERS: u32 = 64 << 10;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Ring {
    pub(crate) places: u32,
    /// Threads that compute.
    pub(crate) computing: u32,
    /// The start of shared memory, and bytes from there to the barriers.
    pub(crate) shared: Reg,
    pub(crate) barriers: u32,
}

/// A place in the ring, and which of the times that it is filled.
pub(crate) struct Turn {
    /// Its number.
    pub(crate) place: Reg,
    /// The parity of the barrier's phase that is waited for.
    parity: Reg,
}

/// The two barriers of a place.
#[derive(Clone, Copy)]
enum Barrier {
    Full,
    Empty,
}

/// Bytes of the barriers of so many places.
pub(crate) const fn barrier_bytes(places: u32) -> u32 {
    2 * places * 8
}

impl Ring {
    /// Makes the barriers, and sends the threads behind those that compute to a label. A thread
    /// that copies keeps `few` registers, and the others share what is left.
    pub(crate) fn part(&self, a: &mut Asm, tid: Reg, few: u32, bring: &str) {
        let (copies, first) = (a.pred(), a.pred());
        op!(a, "setp.eq.u32 {first}, {tid}, 0");
        for place in 0..self.places {
            let all = [
                (Barrier::Full, COPIERS),
                (Barrier::Empty, self.computing / 32),
            ];
            for (kind, count) in all {
                let at = self.barriers + self.number(kind) * 8 + place * 8;
                let barrier = format!("[{}+{at}]", self.shared);
                op!(
                    a,
                    "@{first} mbarrier.init.shared::cta.b64 {barrier}, {count}"
                );
            }
        }
        op!(a, "bar.sync 0");
        op!(a, "setp.ge.u32 {copies}, {tid}, {}", self.computing);
        op!(a, "@{copies} bra.uni {bring}");
        let many = self.registers_left(few);
        op!(a, "setmaxnreg.inc.sync.aligned.u32 {many}");
    }

    /// Registers of a thread that computes, where one that copies has `few`: what all threads
    /// begin with is shared out, in multiples of 8. Asking for more waits for ever.
    pub(crate) fn registers_left(&self, few: u32) -> u32 {
        let threads = self.computing + COPIERS;
        let all = REGISTERS / threads / 8 * 8 * threads;
        let many = (all - COPIERS * few) / self.computing;
        (many / 8 * 8).min(232)
    }

    /// The first turn of a thread that computes.
    pub(crate) fn first_to_take(a: &mut Asm) -> Turn {
        Ring::turn(a, 0)
    }

    /// The first turn of a thread that copies: barriers that were never used have finished the
    /// phase before their first.
    pub(crate) fn first_to_fill(a: &mut Asm) -> Turn {
        Ring::turn(a, 1)
    }

    fn turn(a: &mut Asm, phase: u32) -> Turn {
        let [place, parity] = [a.b32(), a.b32()];
        op!(a, "mov.u32 {place}, 0");
        op!(a, "mov.u32 {parity}, {phase}");
        Turn { place, parity }
    }

    /// Moves on to the next place.
    pub(crate) fn next(&self, a: &mut Asm, turn: &Turn) {
        let (place, parity, around) = (turn.place, turn.parity, a.pred());
        op!(a, "add.u32 {place}, {place}, 1");
        op!(a, "setp.eq.u32 {around}, {place}, {}", self.places);
        op!(a, "@{around} mov.u32 {place}, 0");
        op!(a, "@{around} xor.b32 {parity}, {parity}, 1");
    }

    /// After it, the matrix units see what was copied.
    pub(crate) fn wait_until_full(&self, a: &mut Asm, turn: &Turn) {
        self.wait(a, turn, Barrier::Full);
        op!(a, "fence.proxy.async.shared::cta");
    }

    pub(crate) fn wait_until_empty(&self, a: &mut Asm, turn: &Turn) {
        self.wait(a, turn, Barrier::Empty);
    }

    /// Lets the copies that this thread has begun tell of themselves when they have arrived.
    pub(crate) fn fill(&self, a: &mut Asm, turn: &Turn) {
        let barrier = self.barrier(a, turn.place, Barrier::Full);
        op!(
            a,
            "cp.async.mbarrier.arrive.noinc.shared::cta.b64 [{barrier}]"
        );
    }

    /// Tells that this warp is done with a place.
    pub(crate) fn emptied(&self, a: &mut Asm, lane: Reg, place: Reg) {
        let (barrier, first) = (self.barrier(a, place, Barrier::Empty), a.pred());
        op!(a, "setp.eq.u32 {first}, {lane}, 0");
        op!(a, "@{first} mbarrier.arrive.shared::cta.b64 _, [{barrier}]");
    }

    fn wait(&self, a: &mut Asm, turn: &Turn, kind: Barrier) {
        let barrier = self.barrier(a, turn.place, kind);
        let (done, again) = (a.pred(), a.label());
        a.place(&again);
        op!(
            a,
            "mbarrier.try_wait.parity.shared::cta.b64 {done}, [{barrier}], {}",
            turn.parity
        );
        op!(a, "@!{done} bra {again}");
    }

    /// The number of the first place's barrier among all.
    fn number(&self, kind: Barrier) -> u32 {
        match kind {
            Barrier::Full => 0,
            Barrier::Empty => self.places,
        }
    }

    fn barrier(&self, a: &mut Asm, place: Reg, kind: Barrier) -> Reg {
        let (at, first) = (a.b32(), self.barriers + self.number(kind) * 8);
        op!(a, "mad.lo.u32 {at}, {place}, 8, {}", self.shared);
        op!(a, "add.u32 {at}, {at}, {first}");
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A multiprocessor gives each thread the same at first: 168 registers of 384 threads.
    #[test]
    fn registers_are_shared_out_and_never_more_than_there_are() {
        for computing in [128, 256] {
            let ring = Ring {
                places: 4,
                computing,
                shared: Asm::default().b32(),
                barriers: 0,
            };
            for few in [40, 72, 104] {
                let many = ring.registers_left(few);
                assert!(
                    many.is_multiple_of(8) && many >= 192,
                    "{computing} {few}: {many}"
                );
                let begun = (REGISTERS / (computing + COPIERS) / 8 * 8).min(255 / 8 * 8);
                let all = begun * (computing + COPIERS);
                assert!(computing * many + COPIERS * few <= all, "{computing} {few}");
            }
        }
    }
}
