//! A kernel's time from its machine code: what a round of its main loop keeps busy, how many
//! rounds there are, and how many waves hide each other's waiting, against bytes over bandwidth.
//! First order: it ranks kernels on one card; its seconds stay predictions.

use nino_gpu::KernelKey;
use serde::{Deserialize, Serialize};

use crate::chip::{Card, Chip, Occupancy};
use crate::isa::{Class, Code, Mix};

/// The part of a memory's data sheet that programs reach.
const BANDWIDTH_SHARE: f64 = 0.8;
/// Seconds between a dispatch and the next that needs it.
const DISPATCH_SECONDS: f64 = 4e-6;
const BARRIER_CYCLES: f64 = 40.0;

/// What of a kernel decides its time on a chip.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Work {
    /// A round of the main loop, for one wave; of a kernel without products nothing.
    pub round: Option<Mix>,
    /// Everything else, once.
    pub once: Mix,
    pub lanes: u32,
    /// Busy cycles of a SIMD in a round, and the part of them that products take.
    pub round_cycles: f64,
    pub product_share: f64,
}

/// One dispatch.
#[derive(Clone, Copy, Debug)]
pub struct Shot<'a> {
    pub key: &'a KernelKey,
    pub params: &'a [u32],
    pub groups: [u32; 3],
    /// The least that its op reads and writes.
    pub bytes: f64,
}

impl Work {
    pub fn new(key: &KernelKey, code: &Code, chip: &Chip, lanes: u32) -> Work {
        let code = &code.clone().with_arms(arm_share(key));
        let main = code.main_loop().filter(|_| has_rounds(key));
        let trips = |which: usize| inner_trips(key, code, which);
        let round = main.map(|main| code.round(main, &trips));
        let mut work = Work {
            round,
            once: code.outside(main),
            lanes,
            round_cycles: 0.0,
            product_share: 0.0,
        };
        if let Some(round) = &work.round {
            let products = work.product_cycles(round, chip);
            work.round_cycles = work.issue_cycles(round, chip);
            work.product_share = products / work.round_cycles.max(1.0);
        }
        work
    }

    fn vector_cycles(&self, chip: &Chip) -> f64 {
        chip.cycles64 * f64::from(self.lanes) / 64.0
    }

    fn product_cycles(&self, mix: &Mix, chip: &Chip) -> f64 {
        mix.matrix * chip.matrix_cycles + mix.fma * self.vector_cycles(chip)
    }

    /// Cycles that a wave's instructions keep its SIMD busy; each kind of unit takes its own.
    fn issue_cycles(&self, mix: &Mix, chip: &Chip) -> f64 {
        let vector = self.vector_cycles(chip);
        self.product_cycles(mix, chip) + (mix.valu + 4.0 * mix.slow) * vector
    }

    /// Cycles of a part of the code for `waves` waves on each SIMD: the busiest unit's, or a single
    /// wave's from its first instruction to its last, where that is longer.
    fn cycles(&self, mix: &Mix, chip: &Chip, waves: f64) -> f64 {
        let lanes = f64::from(self.lanes);
        let shared = waves * f64::from(chip.simds) * lanes;
        let issue = self.issue_cycles(mix, chip);
        let covered = mix.covering_matrix * chip.matrix_cycles
            + mix.covering_vector * self.vector_cycles(chip);
        let alone = issue
            + mix.lds
            + mix.memory
            + mix.scalar
            + mix.lds_stalls * chip.lds_latency
            + (mix.memory_stalls * chip.memory_latency - covered).max(0.0)
            + mix.barriers * BARRIER_CYCLES;
        let alone = if mix.carried_stalls > 0.0 {
            alone.max(chip.memory_latency)
        } else {
            alone
        };
        [
            waves * issue,
            waves * (mix.lds + mix.memory),
            waves * mix.scalar,
            shared * mix.lds_bytes / chip.lds_bytes,
            shared * mix.memory_bytes / chip.cache_bytes,
            alone,
        ]
        .into_iter()
        .fold(0.0, f64::max)
    }

    /// Seconds of a dispatch on a card, and whether memory is what it waits for.
    pub fn seconds(&self, shot: &Shot<'_>, chip: &Chip, card: &Card, fits: Occupancy) -> f64 {
        let moving = shot.bytes / (card.bandwidth * BANDWIDTH_SHARE);
        let Some(round) = &self.round else {
            return moving + DISPATCH_SECONDS;
        };
        let rounds = rounds(shot.key, shot.params);
        let groups = shot.groups.iter().map(|&g| f64::from(g)).product::<f64>();
        let units = f64::from((card.compute_units / chip.units_shared).max(1));
        let group_waves = f64::from(fits.group_waves);
        let simds = f64::from(chip.simds);
        // The busiest unit runs its workgroups as many at a time as fit.
        let at_once = f64::from(fits.groups.max(1));
        let batch = |n: f64| {
            let waves = (n * group_waves / simds).max(1.0);
            rounds * self.cycles(round, chip, waves) + self.cycles(&self.once, chip, waves)
        };
        let mine = (groups / units).ceil();
        let whole = (mine / at_once).floor();
        let rest = mine - whole * at_once;
        let mut cycles = whole * batch(at_once);
        if rest > 0.0 {
            cycles += batch(rest);
        }
        if round.matrix > 0.0 {
            cycles /= card.matrix_share;
        }
        let read = groups * group_waves * f64::from(self.lanes) * rounds * round.memory_bytes;
        let shared = read / (card.l2_bytes * card.clock);
        let computing = cycles / card.clock;
        computing.max(moving).max(shared) + DISPATCH_SECONDS
    }
}

const PRODUCTS: [&str; 10] = [
    "gemm",
    "gemm_int8",
    "gemm_coop",
    "conv3_coop",
    "conv3_winograd",
    "conv3_winograd_coop",
    "attention",
    "attention_block",
    "attention_coop",
    "attention_wide",
];

/// What a kernel reads and writes, where that is no part of what its op does: operands written as
/// f16 before a product. A row is read twice, the second time from a cache.
pub fn own_bytes(key: &KernelKey, params: &[u32]) -> Option<f64> {
    let param = |i: usize| f64::from(params.get(i).copied().unwrap_or(0));
    let stored = match key.consts.get("WT") {
        Some(0) => 4.0,
        Some(1 | 2) => 2.0,
        _ => 1.0,
    };
    match key.file {
        "half_rows" => Some(param(0) * param(1) * (stored + 2.0)),
        "half_peak" => Some(param(0) * 16.0),
        "half_all" => Some(param(0) * 32.0),
        _ => None,
    }
}

/// Whether it is known how often a kernel's main loop runs.
pub fn has_rounds(key: &KernelKey) -> bool {
    PRODUCTS.contains(&key.file)
}

/// The part of a kernel's waves that take a branch of its main loop which some of them skip.
fn arm_share(key: &KernelKey) -> f64 {
    match key.file {
        // Half of the waves transform the input, the others the filters.
        "conv3_winograd" | "conv3_winograd_coop" => 0.5,
        _ => 1.0,
    }
}

/// Rounds of the main loop, from the kernel's constants and a dispatch's parameters.
fn rounds(key: &KernelKey, params: &[u32]) -> f64 {
    let constant = |name: &str| key.consts.get(name).copied().unwrap_or(0).max(1) as f64;
    let param = |i: usize| f64::from(params.get(i).copied().unwrap_or(1));
    match key.file {
        // Places as in gemm_params.wgsl and attention_params.wgsl.
        "gemm" => (param(2) / constant("BK")).ceil(),
        "gemm_int8" => param(2) / 32.0,
        "gemm_coop" => (param(2) / constant("BK")).ceil(),
        "conv3_coop" => {
            (param(16) / constant("BK")).ceil() * 9.0 / constant("TPS") * constant("KT")
        }
        "conv3_winograd" => param(16) / 8.0 * constant("KT"),
        "conv3_winograd_coop" => param(16) / constant("TS") * constant("KT"),
        "attention" => (param(2) / 32.0).ceil(),
        "attention_block" => (param(2) / 64.0).ceil(),
        "attention_coop" | "attention_wide" => (param(2) / constant("BKV")).ceil(),
        _ => 1.0,
    }
}

/// How often a loop inside the main one runs in a round of the loop around it. Kernels' inner loops
/// have fixed counts; how far the compiler unrolled one, its multiply-adds tell.
fn inner_trips(key: &KernelKey, code: &Code, which: usize) -> f64 {
    let l = &code.loops[which];
    let fmas = code.instrs[l.start..l.end].iter();
    let fmas = fmas.filter(|i| i.class == Class::Fma).count() as f64;
    // Fewer belong to the reading of values.
    let multiplies = fmas >= 16.0;
    let constant = |name: &str| key.consts.get(name).copied().unwrap_or(0).max(1) as f64;
    match key.file {
        "gemm" if multiplies => {
            (constant("BK") * 16.0 * constant("UM") * constant("UN") / fmas).max(1.0)
        }
        // Eight words of a block; without instructions for it no multiply-adds tell.
        "gemm_int8" if multiplies => (128.0 * constant("UM") * constant("UN") / fmas).max(1.0),
        "gemm_int8" => 8.0,
        // 32 columns or keys, 4 x 4 sums a lane; then blocks of 32 columns of a head.
        "attention" if multiplies && code.is_innermost(which) => (512.0 / fmas).max(1.0),
        "attention" if multiplies => (constant("VC") / 32.0).ceil(),
        // 16 columns of a head at a time for the scores, then KC keys for the values.
        "attention_block" if multiplies => {
            let first = code.loops.iter().filter(|other| other.parent == l.parent);
            let first = first.map(|other| other.start).min() == Some(l.start);
            if first {
                (constant("HD") / 16.0).ceil()
            } else {
                64.0 / constant("KC")
            }
        }
        "attention_block" => 16.0,
        // Copies of a block of 32 x 32 by 64 lanes.
        "attention" => 4.0,
        _ => 1.0,
    }
}
