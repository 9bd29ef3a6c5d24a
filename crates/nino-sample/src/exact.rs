//! f32 functions rounded from f64: the same number on every platform, and nearly always torch's. It matters for
//! noise levels: Brownian paths are cut at levels rounded to 6 decimals, so a last bit can change the noise.

pub(crate) fn exp(x: f32) -> f32 {
    f64::from(x).exp() as f32
}

pub(crate) fn ln(x: f32) -> f32 {
    f64::from(x).ln() as f32
}

pub(crate) fn pow(x: f32, y: f32) -> f32 {
    f64::from(x).powf(f64::from(y)) as f32
}

pub(crate) fn tan(x: f32) -> f32 {
    f64::from(x).tan() as f32
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
