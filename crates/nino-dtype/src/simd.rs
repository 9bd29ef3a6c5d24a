//! One source, several instruction sets: a kernel compiled once per level and chosen at run time.
//!
//! Kernels are plain loops over fixed-size arrays that the compiler vectorizes; NEON is part of
//! every aarch64 target, so there `Plain` already is the NEON version.

/// The instruction set a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Level {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    /// The best this machine has. Costs one load: the standard library caches what it finds.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(crate) fn detect() -> Level {
        let avx2 = is_x86_feature_detected!("avx2") && is_x86_feature_detected!("f16c");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        match (avx2, avx512) {
            (true, true) => Level::Avx512,
            (true, false) => Level::Avx2,
            _ => Level::Plain,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    #[inline]
    pub(crate) fn detect() -> Level {
        Level::Plain
    }

    /// Every level this machine can run, plain first.
    #[cfg(test)]
    pub(crate) fn available() -> Vec<Level> {
        match Level::detect() {
            Level::Plain => vec![Level::Plain],
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => vec![Level::Plain, Level::Avx2],
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => vec![Level::Plain, Level::Avx2, Level::Avx512],
        }
    }
}

/// Work to compile once per level. `run` and all it calls must be `#[inline(always)]`: only what
/// ends up inside the function that enables a feature is compiled with it.
pub(crate) trait Kernel {
    fn run(self);
}

pub(crate) fn run<K: Kernel>(level: Level, kernel: K) {
    match level {
        Level::Plain => kernel.run(),
        // SAFETY: these levels come from `detect`, which saw the features.
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => unsafe { avx2(kernel) },
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => unsafe { avx512(kernel) },
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
fn avx2<K: Kernel>(kernel: K) {
    kernel.run();
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c,avx512f,avx512bw,avx512dq,avx512vl")]
fn avx512<K: Kernel>(kernel: K) {
    kernel.run();
}
