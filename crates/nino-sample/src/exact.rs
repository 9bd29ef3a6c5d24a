//! f32 functions rounded from f64: the same number on every platform, and nearly always torch's. It
//! matters for noise levels: Brownian paths are cut at levels rounded to 6 decimals, so a last bit
//! can change the noise.

mod pow;

pub(crate) use pow::pow_all;

pub(crate) trait Exact {
    fn exact_exp(self) -> Self;
    fn exact_exp_m1(self) -> Self;
    fn exact_ln(self) -> Self;
    fn exact_pow(self, y: f64) -> Self;
    fn exact_tan(self) -> Self;
}

impl Exact for f32 {
    fn exact_exp(self) -> Self {
        f64::from(self).exp() as f32
    }

    fn exact_exp_m1(self) -> Self {
        f64::from(self).exp_m1() as f32
    }

    fn exact_ln(self) -> Self {
        f64::from(self).ln() as f32
    }

    fn exact_pow(self, y: f64) -> Self {
        f64::from(self).powf(y) as f32
    }

    fn exact_tan(self) -> Self {
        f64::from(self).tan() as f32
    }
}

/// torch's `linspace`, which counts from whichever end is nearer, with fused multiply-adds.
pub(crate) fn linspace(start: f32, end: f32, n: usize) -> Vec<f32> {
    let step = (end - start) / (n.max(2) - 1) as f32;
    let at = |i: usize| {
        if n == 1 || i < n / 2 {
            step.mul_add(i as f32, start)
        } else {
            (-step).mul_add((n - 1 - i) as f32, end)
        }
    };
    (0..n).map(at).collect()
}
