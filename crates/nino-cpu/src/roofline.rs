//! The most that this machine can do: its features, and its measured peak of arithmetic and copy
//! bandwidth.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use crate::device::Cpu;
use crate::gemm::micro::{self, Block, LDA, PANEL, SEG};
use crate::gemm::pairs;
use crate::gemm::slot::Slot;
use crate::memory::Buffer;
use crate::simd::Level;

/// CPU features that kernels look for, and whether this CPU has them.
pub fn features() -> Vec<(&'static str, bool)> {
    #[cfg(target_arch = "x86_64")]
    return vec![
        ("avx2", is_x86_feature_detected!("avx2")),
        ("fma", is_x86_feature_detected!("fma")),
        ("f16c", is_x86_feature_detected!("f16c")),
        ("avx512f", is_x86_feature_detected!("avx512f")),
        ("avx512bw", is_x86_feature_detected!("avx512bw")),
        ("avx512dq", is_x86_feature_detected!("avx512dq")),
        ("avx512vl", is_x86_feature_detected!("avx512vl")),
        ("avx512vnni", is_x86_feature_detected!("avx512vnni")),
        ("avx512bf16", is_x86_feature_detected!("avx512bf16")),
        ("avxvnni", is_x86_feature_detected!("avxvnni")),
    ];
    #[cfg(target_arch = "aarch64")]
    return vec![
        ("neon", std::arch::is_aarch64_feature_detected!("neon")),
        (
            "dotprod",
            std::arch::is_aarch64_feature_detected!("dotprod"),
        ),
        ("fp16", std::arch::is_aarch64_feature_detected!("fp16")),
        ("bf16", std::arch::is_aarch64_feature_detected!("bf16")),
        ("i8mm", std::arch::is_aarch64_feature_detected!("i8mm")),
    ];
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    return Vec::new();
}

/// Names the instructions that multiply activations stored in bf16 on this CPU; `None` where such
/// products are computed in f32.
pub fn bf16_products() -> Option<&'static str> {
    let name = match Level::best() {
        Level::Neon => "BF16",
        _ if pairs::by_tiles() => "AMX",
        _ => "AVX512-BF16",
    };
    pairs::supported(Level::best()).then_some(name)
}

impl Cpu {
    /// Measures the f32 arithmetic of all threads at this level in GFLOP/s, with the register-tile
    /// kernel on data that stays in the first-level cache. This takes about 0.2 s.
    pub fn peak_gflops(&self) -> f64 {
        const ROWS: usize = 14;
        const REPEATS: usize = 2000;
        let level = self.level();
        let run = |level: Level| {
            let a = vec![1e-3f32; ROWS * LDA];
            let b = vec![1e-3f32; SEG * PANEL];
            let mut c = vec![0.0f32; ROWS * PANEL];
            let block = Block {
                slot: Slot::F32,
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
            let started = Instant::now();
            for _ in 0..REPEATS {
                // SAFETY: the vectors cover the block, and this CPU has the device's level.
                unsafe { micro::block(level, &block) };
            }
            std::hint::black_box(&c);
            (2 * ROWS * PANEL * SEG * REPEATS) as f64 / started.elapsed().as_secs_f64() * 1e-9
        };
        best_of(|| {
            let sum = Mutex::new(0.0);
            self.team().broadcast(&|_| {
                let rate = run(level);
                *sum.lock().unwrap_or_else(PoisonError::into_inner) += rate;
            });
            sum.into_inner().unwrap_or_else(PoisonError::into_inner)
        })
    }

    /// Bytes read and written per second by a copy of all threads, in GB/s, between two blocks of
    /// `bytes` in all: what is smaller than the last cache measures that cache. `None` when the
    /// memory cannot be had.
    pub fn copy_bandwidth(&self, bytes: usize) -> Option<f64> {
        let n = bytes / self.threads();
        let buffers: Vec<(Buffer, Buffer)> = (0..self.threads())
            .map(|_| Some((Buffer::new(n, "bench").ok()?, Buffer::new(n, "bench").ok()?)))
            .collect::<Option<_>>()?;
        let copy = || {
            let started = Instant::now();
            self.team().broadcast(&|thread| {
                let (from, to) = &buffers[thread];
                // SAFETY: two buffers of `n` bytes that only this thread touches.
                unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to.as_ptr(), n) };
            });
            2.0 * (n * self.threads()) as f64 / started.elapsed().as_secs_f64() * 1e-9
        };
        Some(best_of(copy))
    }
}

/// Gives the best of several runs, the one that was disturbed least.
fn best_of(mut run: impl FnMut() -> f64) -> f64 {
    (0..7).map(|_| run()).fold(0.0, f64::max)
}
