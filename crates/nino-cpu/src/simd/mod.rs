//! Vector levels chosen at run time, and the small set of vector operations kernels are written in.
//!
//! A kernel is one generic function over [`Simd`]; [`dispatch!`] makes the entry that calls it with
//! the level's target features switched on. Everything between the entry and the intrinsics is
//! `#[inline(always)]`, because features only reach code that is inlined into the entry.
//!
//! # Safety
//!
//! A function over `S: Simd` may only run on a CPU that has the level `S`. [`dispatch!`] makes sure
//! of that for callers that pass a level of [`Level::available`].

// Nearly every expression here is an unsafe operation under the contract above, so blocks around
// each would say nothing and hide the arithmetic.
#![allow(unsafe_op_in_unsafe_fn)]

#[cfg(target_arch = "x86_64")]
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
pub(crate) mod avx512;
pub(crate) mod math;
#[cfg(target_arch = "aarch64")]
pub(crate) mod neon;
pub(crate) mod plain;
#[cfg(test)]
mod tests;

use std::fmt;

/// A set of vector instructions the kernels are compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Plain,
    Neon,
    Avx2,
    Avx512,
}

impl Level {
    /// The levels this machine runs, best first; never empty.
    pub fn available() -> Vec<Level> {
        let mut levels = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("fma")
                && is_x86_feature_detected!("f16c");
            if avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
            {
                levels.push(Level::Avx512);
            }
            if avx2 {
                levels.push(Level::Avx2);
            }
        }
        #[cfg(target_arch = "aarch64")]
        if std::arch::is_aarch64_feature_detected!("neon") {
            levels.push(Level::Neon);
        }
        levels.push(Level::Plain);
        levels
    }

    /// The best level of this machine.
    pub fn best() -> Level {
        Level::available()[0]
    }

    pub const fn name(self) -> &'static str {
        match self {
            Level::Plain => "plain",
            Level::Neon => "neon",
            Level::Avx2 => "avx2",
            Level::Avx512 => "avx512",
        }
    }

    /// The level called `name`, whether or not this machine has it.
    pub fn from_name(name: &str) -> Option<Level> {
        [Level::Plain, Level::Neon, Level::Avx2, Level::Avx512]
            .into_iter()
            .find(|l| l.name() == name)
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// One level's f32 vector operations.
///
/// # Safety
/// The CPU must have the level. Pointers need no alignment and must be valid for the lanes touched:
/// `LANES` of them, or the first `n` for `load_n` and `store_n`.
pub(crate) trait Simd: Copy + 'static {
    type V: Copy;
    const LANES: usize;
    /// Rows of the GEMM tile that fills the register file at `NV` vectors a row.
    const MR: usize;
    const NV: usize;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(p: *const f32) -> Self::V;
    unsafe fn store(p: *mut f32, v: Self::V);
    /// Loads the first `n` lanes and makes the rest zero.
    unsafe fn load_n(p: *const f32, n: usize) -> Self::V;
    unsafe fn store_n(p: *mut f32, v: Self::V, n: usize);
    unsafe fn load_f16(p: *const u16) -> Self::V;
    unsafe fn store_f16(p: *mut u16, v: Self::V);
    unsafe fn load_bf16(p: *const u16) -> Self::V;
    unsafe fn load_i8(p: *const i8) -> Self::V;
    unsafe fn store_bf16(p: *mut u16, v: Self::V);
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn sub(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn mul(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn div(a: Self::V, b: Self::V) -> Self::V;
    /// 1 / a of a finite number, good to 7e-5.
    unsafe fn reciprocal(a: Self::V) -> Self::V;
    /// Gives a * b + c.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn min(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn abs(a: Self::V) -> Self::V;
    /// Gives |a| with the sign of `s`.
    unsafe fn copysign(a: Self::V, s: Self::V) -> Self::V;
    unsafe fn round(a: Self::V) -> Self::V;
    /// Gives v * 2^n for whole numbers n in [-126, 127].
    unsafe fn ldexp(v: Self::V, n: Self::V) -> Self::V;
    /// Gives `x` where it is NaN, else `v`.
    unsafe fn keep_nan(x: Self::V, v: Self::V) -> Self::V;
    unsafe fn sum(a: Self::V) -> f32;
    unsafe fn hmax(a: Self::V) -> f32;
    /// Writes the transpose of a LANES x LANES block, whose rows are `src_ld` and `dst_ld` apart.
    unsafe fn transpose(src: *const f32, src_ld: usize, dst: *mut f32, dst_ld: usize);

    #[inline(always)]
    unsafe fn zero() -> Self::V {
        Self::splat(0.0)
    }
}

/// Makes an entry `name(level, args..)` for the generic kernel `kernel::<S>(args..)`. The entry's
/// contract is the kernel's, and that this machine has `level`.
macro_rules! dispatch {
    ($(#[$meta:meta])* $vis:vis fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $(-> $ret:ty)? = $kernel:path) => {
        $(#[$meta])*
        ///
        /// # Safety
        /// This machine must have `level`, and pointers must be valid for the values that the other
        /// arguments speak of.
        #[allow(clippy::too_many_arguments)]
        #[allow(unsafe_op_in_unsafe_fn)] // one call, under the kernel's contract
        $vis unsafe fn $name(level: $crate::simd::Level, $($arg: $ty),*) $(-> $ret)? {
            match level {
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Level::Avx512 => {
                    #[allow(clippy::too_many_arguments)]
                    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
                    unsafe fn entry($($arg: $ty),*) $(-> $ret)? {
                        use $kernel as kernel;
                        kernel::<$crate::simd::avx512::Avx512>($($arg),*)
                    }
                    entry($($arg),*)
                }
                #[cfg(target_arch = "x86_64")]
                $crate::simd::Level::Avx2 => {
                    #[allow(clippy::too_many_arguments)]
                    #[target_feature(enable = "avx2,fma,f16c")]
                    unsafe fn entry($($arg: $ty),*) $(-> $ret)? {
                        use $kernel as kernel;
                        kernel::<$crate::simd::avx2::Avx2>($($arg),*)
                    }
                    entry($($arg),*)
                }
                #[cfg(target_arch = "aarch64")]
                $crate::simd::Level::Neon => {
                    #[allow(clippy::too_many_arguments)]
                    #[target_feature(enable = "neon")]
                    unsafe fn entry($($arg: $ty),*) $(-> $ret)? {
                        use $kernel as kernel;
                        kernel::<$crate::simd::neon::Neon>($($arg),*)
                    }
                    entry($($arg),*)
                }
                _ => {
                    use $kernel as kernel;
                    kernel::<$crate::simd::plain::Plain>($($arg),*)
                }
            }
        }
    };
}
pub(crate) use dispatch;
