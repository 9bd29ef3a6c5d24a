//! What kinds of products are worth it on this CPU, by measured rates: a name of an instruction set
//! says that a product can be made, not how fast.
//!
//! Rates are those of the register-tile kernels on one thread, with data in the first-level cache.
//! They are measured when they are first asked for, which takes about a millisecond, and stay for
//! the process, so that all of its results are of one kind.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use super::int16::{self, Int16Block, LDW};
use super::micro::{self, Block, LDA, PANEL, SEG};
use super::pairs;
use super::q8::{self, Int8Block, Int8Panel};
use super::slot::Slot;
use crate::simd::Level;

const ROWS: usize = 12;
/// Products of a timed round, and rounds, the best of which counts.
const REPEATS: usize = 16;
const ROUNDS: usize = 7;
/// How much faster a product that is less exact has to be.
const WORTH: f64 = 1.15;

/// Multiplications per nanosecond; zero for what the CPU does not have.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) f32: f64,
    pub(crate) pairs: f64,
    pub(crate) int8: f64,
    pub(crate) int16: f64,
}

impl Rates {
    /// Whether activations stored in bf16 are to be multiplied as such.
    pub(crate) fn pairs_pay(self) -> bool {
        self.pairs > self.f32 * WORTH
    }

    /// Whether weights in `Q8_0` are to be multiplied as int8 with activations stored in f32.
    pub(crate) fn int8_pays(self) -> bool {
        self.int8 > self.f32 * WORTH
    }

    /// Whether int8 is also to be preferred to pairs. AMX's tiles multiply bf16 faster than vectors
    /// int8.
    pub(crate) fn int8_beats_pairs(self) -> bool {
        self.int8_pays() && self.int8 >= self.pairs
    }

    /// Whether Winograd's products of activations stored in bf16 are to be made in int16.
    pub(crate) fn int16_pays(self) -> bool {
        self.int16 > self.f32 * WORTH
    }
}

/// The rates at a level that this machine has.
pub(crate) fn of(level: Level) -> Rates {
    static KNOWN: [OnceLock<Rates>; 4] = [const { OnceLock::new() }; 4];
    *KNOWN[level as usize].get_or_init(|| {
        let rates = measure(level);
        tracing::debug!(%level, ?rates, "products measured");
        rates
    })
}

fn measure(level: Level) -> Rates {
    let pairs = pairs::exists(level);
    let int8 = q8::exists(level);
    let int16 = int16::exists(level);
    if !pairs && !int8 && !int16 {
        return Rates {
            f32: 1.0,
            ..Rates::default()
        };
    }
    let a = vec![0.0f32; ROWS * LDA];
    let b = vec![0.0f32; SEG * PANEL];
    let mut c = vec![0.0f32; ROWS * PANEL];
    let mut of_slots = |slot: Slot| {
        let block = Block {
            slot,
            a: a.as_ptr(),
            segments: &[0],
            segment_len: SEG,
            k: SEG,
            b: b.as_ptr(),
            c: c.as_mut_ptr(),
            ldc: PANEL,
            rows: ROWS,
            cols: PANEL,
            accumulate: false,
        };
        // SAFETY: the vectors cover the block, and the caller's CPU has the level and, for pairs,
        // the instructions.
        let once = || unsafe { micro::block(level, &block) };
        rate(SEG * slot.values(), once)
    };
    let (by_f32, by_pairs) = (of_slots(Slot::F32), pairs.then(|| of_slots(Slot::Pair)));
    Rates {
        f32: by_f32,
        pairs: by_pairs.unwrap_or(0.0),
        int8: if int8 { int8_rate(level) } else { 0.0 },
        int16: if int16 { int16_rate() } else { 0.0 },
    }
}

fn int16_rate() -> f64 {
    let a = [0i32; ROWS * LDW];
    let b = [0i32; LDW * PANEL];
    let (a_scales, b_scales) = ([0.0f32; ROWS], [0.0f32; PANEL]);
    let mut c = [0.0f32; ROWS * PANEL];
    let block = Int16Block {
        a: a.as_ptr(),
        a_scales: a_scales.as_ptr(),
        b: b.as_ptr(),
        b_scales: b_scales.as_ptr(),
        slots: LDW,
        c: c.as_mut_ptr(),
        ldc: PANEL,
        rows: ROWS,
        cols: PANEL,
        accumulate: false,
    };
    // SAFETY: the arrays cover the block, and the CPU has the instructions.
    rate(2 * LDW, || unsafe { int16::block(&block) })
}

fn int8_rate(level: Level) -> f64 {
    const BLOCKS: usize = SEG / q8::BLOCK;
    let a = [0u8; ROWS * SEG];
    let a_scales = [0.0f32; ROWS * BLOCKS];
    let b = [0u8; BLOCKS * q8::PANEL_BLOCK];
    let b_scales = [0.0f32; BLOCKS * PANEL];
    let b_start = [0i32; BLOCKS * PANEL];
    let mut c = [0.0f32; ROWS * PANEL];
    // SAFETY: as many blocks as there are.
    let panel = unsafe { Int8Panel::of_q8(b.as_ptr(), BLOCKS) };
    let block = Int8Block {
        a: a.as_ptr(),
        a_scales: a_scales.as_ptr(),
        lda: SEG,
        b: panel,
        b_scales: b_scales.as_ptr(),
        b_start: b_start.as_ptr(),
        c: c.as_mut_ptr(),
        ldc: PANEL,
        rows: ROWS,
        accumulate: false,
    };
    // SAFETY: the vectors cover the block, and the CPU has the instructions.
    rate(SEG, || unsafe { q8::block(level, &block) })
}

/// Multiplications per nanosecond of something that multiplies `ROWS` × `k` × `PANEL`.
fn rate(k: usize, once: impl Fn()) -> f64 {
    let round = || {
        let started = Instant::now();
        (0..REPEATS).for_each(|_| once());
        started.elapsed()
    };
    // The first round warms up caches and, where they sleep, the wide units.
    round();
    let best = (0..ROUNDS).map(|_| round()).min();
    let nanoseconds = best.unwrap_or(Duration::MAX).as_nanos().max(1) as f64;
    (REPEATS * ROWS * k * PANEL) as f64 / nanoseconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_faster_is_taken() {
        let rates = |f32, pairs, int8, int16| Rates {
            f32,
            pairs,
            int8,
            int16,
        };
        // Two Zen 4 cores, one with AMX, one whose wide products are emulated, one without any.
        let zen4 = rates(55.0, 110.0, 190.0, 105.0);
        assert!(zen4.pairs_pay() && zen4.int8_pays() && zen4.int8_beats_pairs());
        assert!(zen4.int16_pays());
        let amx = rates(50.0, 900.0, 180.0, 95.0);
        assert!(amx.pairs_pay() && amx.int8_pays() && !amx.int8_beats_pairs());
        let slow = rates(50.0, 52.0, 30.0, 51.0);
        assert!(!slow.pairs_pay() && !slow.int8_pays() && !slow.int8_beats_pairs());
        assert!(!slow.int16_pays());
        let none = rates(1.0, 0.0, 0.0, 0.0);
        assert!(!none.pairs_pay() && !none.int8_pays() && !none.int16_pays());
    }

    #[test]
    fn every_level_is_measured_and_known_afterwards() {
        for level in Level::available() {
            let rates = of(level);
            println!("{level}: {rates:?}");
            assert!(rates.f32 > 0.0);
            assert_eq!(rates.pairs > 0.0, pairs::exists(level));
            assert_eq!(rates.int8 > 0.0, q8::exists(level));
            assert_eq!(rates.int16 > 0.0, int16::exists(level));
            assert_eq!(of(level), rates);
        }
    }
}
