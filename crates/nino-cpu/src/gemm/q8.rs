//! Weights of 8 bits and fewer times activations quantized on the fly: int8 dot products, f32
//! scales.
//!
//! Weights of a panel are `[PANEL][4]` int8 for every four k (a word of each column), with a scale
//! for each group of 8 words, or of 4. `Q8_0` is packed so once: a block of 32 k is 32 f16 scales,
//! then 8 words of each column, the same 34 bytes a block as in the file. Other types are brought
//! into this form as they are used (`int8_rows`).
//!
//! Activations become int8 per 32 values, as ggml's `Q8_0`, and are kept with 128 added, because
//! `vpdpbusd` takes its first factor unsigned; 128 times the weights' sum, subtracted through the
//! accumulator's start value, takes that back.
//!
//! A kernel is a module with four functions: vectors of 512 bits (AVX512-VNNI), of 256 (AVX-VNNI,
//! which CPUs without AVX-512 have, or AVX512-VNNI where only AVX2 is wanted), and NEON's of 128
//! (`usdot` of I8MM). All of them give the same bits.

#[cfg(target_arch = "x86_64")]
mod avx256;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;
#[cfg(test)]
mod tests;

use super::micro::PANEL;
use super::rates;
use crate::memory::widen_f16;
use crate::simd::Level;

pub(crate) const BLOCK: usize = 32;
const STORED: usize = 34;
/// Bytes of one block of k for a whole panel.
pub(crate) const PANEL_BLOCK: usize = STORED * PANEL;

/// The instructions that multiply int8 at a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kernel {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    AvxVnni,
    #[cfg(target_arch = "x86_64")]
    Avx512Vl,
    #[cfg(target_arch = "aarch64")]
    Usdot,
}

#[cfg(target_arch = "x86_64")]
fn kernel(level: Level) -> Option<Kernel> {
    let wide = is_x86_feature_detected!("avx512vnni");
    match level {
        Level::Avx512 if wide => Some(Kernel::Avx512),
        Level::Avx2 if is_x86_feature_detected!("avxvnni") => Some(Kernel::AvxVnni),
        Level::Avx2 if wide && is_x86_feature_detected!("avx512vl") => Some(Kernel::Avx512Vl),
        _ => None,
    }
}

#[cfg(target_arch = "aarch64")]
fn kernel(level: Level) -> Option<Kernel> {
    let exists = level == Level::Neon && std::arch::is_aarch64_feature_detected!("i8mm");
    exists.then_some(Kernel::Usdot)
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn kernel(_: Level) -> Option<Kernel> {
    None
}

/// Whether there are int8 dot products at a level.
pub(crate) fn exists(level: Level) -> bool {
    kernel(level).is_some()
}

/// Whether int8 dot products are worth it at a level, as measured once.
pub(crate) fn supported(level: Level) -> bool {
    rates::of(level).int8_pays()
}

/// Calls a kernel's function. Without a kernel it does nothing: [`supported`] comes first.
macro_rules! kernels {
    ($level:expr, $name:ident($($arg:expr),*)) => {
        match kernel($level) {
            #[cfg(target_arch = "x86_64")]
            Some(Kernel::Avx512) => avx512::$name($($arg),*),
            #[cfg(target_arch = "x86_64")]
            Some(Kernel::AvxVnni) => avx256::vex::$name($($arg),*),
            #[cfg(target_arch = "x86_64")]
            Some(Kernel::Avx512Vl) => avx256::evex::$name($($arg),*),
            #[cfg(target_arch = "aarch64")]
            Some(Kernel::Usdot) => neon::$name($($arg),*),
            _ => debug_assert!(false, "there are no int8 products at this level"),
        }
    };
}

/// Quantizes `n` values (whole blocks) of one row.
pub(crate) unsafe fn quantize(
    level: Level,
    src: *const f32,
    n: usize,
    dst: *mut u8,
    scales: *mut f32,
) {
    kernels!(level, quantize(src, n, dst, scales));
}

/// Computes the start values of a panel's groups: -128 times the sum of each column.
pub(crate) unsafe fn starts(level: Level, b: &Int8Panel, start: *mut i32) {
    kernels!(level, starts(b, start));
}

/// Multiplies rows with a panel.
pub(crate) unsafe fn block(level: Level, t: &Int8Block) {
    kernels!(level, block(t));
}

pub(crate) fn packed_bytes(n: usize, k: usize) -> usize {
    n.div_ceil(PANEL) * (k / BLOCK) * PANEL_BLOCK
}

/// Packs the file's layout, `[n][k / 32]` of (scale, 32 int8), into panels. Columns beyond `n` stay
/// zero.
pub(crate) fn pack(src: &[u8], n: usize, k: usize, dst: &mut [u8]) {
    let blocks = k / BLOCK;
    for row in 0..n {
        let (panel, j) = (row / PANEL, row % PANEL);
        for b in 0..blocks {
            let from = &src[(row * blocks + b) * STORED..][..STORED];
            let to = &mut dst[(panel * blocks + b) * PANEL_BLOCK..][..PANEL_BLOCK];
            to[2 * j..2 * j + 2].copy_from_slice(&from[..2]);
            for group in 0..BLOCK / 4 {
                let at = 2 * PANEL + (group * PANEL + j) * 4;
                to[at..at + 4].copy_from_slice(&from[2 + group * 4..][..4]);
            }
        }
    }
}

/// Decodes a panel's values `k0..k0 + n`, which are whole blocks, to f32 `[n][PANEL]`. It serves
/// ops that take packed weights but no int8 kernel: a strided 1×1 convolution, and AMX.
pub(crate) unsafe fn unpack(
    level: Level,
    packed: &[u8],
    k: usize,
    panel: usize,
    k0: usize,
    n: usize,
    dst: *mut f32,
) {
    let first = (panel * k + k0) / BLOCK;
    let blocks = &packed[first * PANEL_BLOCK..][..n / BLOCK * PANEL_BLOCK];
    kernels!(level, unpack_blocks(blocks, dst));
}

/// A panel of weights, group by group.
#[derive(Clone, Copy)]
pub(crate) struct Int8Panel {
    /// The first group's words.
    pub words: *const u8,
    /// Bytes from one group's words to the next one's.
    pub stride: usize,
    /// Words of k in a group: 8 or 4.
    pub group: usize,
    /// Groups of k.
    pub groups: usize,
}

impl Int8Panel {
    /// Blocks of packed `Q8_0`.
    pub(crate) unsafe fn of_q8(blocks: *const u8, n: usize) -> Int8Panel {
        Int8Panel {
            words: blocks.add(2 * PANEL),
            stride: PANEL_BLOCK,
            group: BLOCK / 4,
            groups: n,
        }
    }
}

/// Gives the scales of blocks of packed `Q8_0` as f32, `[blocks][PANEL]`.
pub(crate) unsafe fn scales(level: Level, blocks: *const u8, n: usize, scales: *mut f32) {
    for i in 0..n {
        let from = blocks.add(i * PANEL_BLOCK);
        widen_f16(level, from.cast(), scales.add(i * PANEL), PANEL);
    }
}

/// Rows of quantized activations against one panel.
#[derive(Clone, Copy)]
pub(crate) struct Int8Block {
    /// `[rows][lda]` bytes, 128 added.
    pub a: *const u8,
    /// `[rows][lda / 32]`
    pub a_scales: *const f32,
    pub lda: usize,
    pub b: Int8Panel,
    /// `[groups][PANEL]`: the panel's scales, and its start values.
    pub b_scales: *const f32,
    pub b_start: *const i32,
    pub c: *mut f32,
    pub ldc: usize,
    pub rows: usize,
    pub accumulate: bool,
}
