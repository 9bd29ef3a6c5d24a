//! Latents and masks at another size, with the numbers torch's `interpolate` gives (corners not
//! aligned, no antialiasing) and ComfyUI's `bislerp`. Values are `[h, w, c]`.

#[cfg(test)]
mod tests;

/// How values between samples are found, by ComfyUI's names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Upscale {
    #[default]
    NearestExact,
    Bilinear,
    Area,
    Bicubic,
    /// Linear in the length of a pixel's vector of channels, spherical in its direction.
    Bislerp,
}

impl Upscale {
    pub const ALL: [Upscale; 5] = [
        Upscale::NearestExact,
        Upscale::Bilinear,
        Upscale::Area,
        Upscale::Bicubic,
        Upscale::Bislerp,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Upscale::NearestExact => "nearest-exact",
            Upscale::Bilinear => "bilinear",
            Upscale::Area => "area",
            Upscale::Bicubic => "bicubic",
            Upscale::Bislerp => "bislerp",
        }
    }
}

/// Height, width, channels.
pub type Size = (usize, usize, usize);

/// Resizes `values` of size `(h, w, c)` to `height` by `width`.
pub fn resize(
    values: &[f32],
    (h, w, c): Size,
    (height, width): (usize, usize),
    how: Upscale,
) -> Vec<f32> {
    // Columns first, as bislerp is defined; the others do not mind.
    let across = along(values, (h, w, c), width, how);
    let turned = along(
        &transposed(&across, (h, width, c)),
        (width, h, c),
        height,
        how,
    );
    transposed(&turned, (width, height, c))
}

/// Resizes the second axis to `n`.
fn along(values: &[f32], (h, w, c): Size, n: usize, how: Upscale) -> Vec<f32> {
    let mut out = vec![0.0; h * n * c];
    let rows = values.chunks_exact(w * c).zip(out.chunks_exact_mut(n * c));
    if how == Upscale::Bislerp {
        let between: Vec<_> = (0..n).map(|i| between(i, w, n)).collect();
        for (row, out) in rows {
            for (&(a, b, ratio), out) in between.iter().zip(out.chunks_exact_mut(c)) {
                let pixel = |i: usize| &row[i * c..(i + 1) * c];
                slerp(pixel(a), pixel(b), ratio, out);
            }
        }
        return out;
    }
    let taps: Vec<_> = (0..n).map(|i| taps(i, w, n, how)).collect();
    for (row, out) in rows {
        for (taps, out) in taps.iter().zip(out.chunks_exact_mut(c)) {
            for &(at, weight) in taps {
                let pixel = &row[at * c..(at + 1) * c];
                out.iter_mut()
                    .zip(pixel)
                    .for_each(|(o, v)| *o += weight * v);
            }
        }
    }
    out
}

fn transposed(values: &[f32], (h, w, c): Size) -> Vec<f32> {
    let mut out = vec![0.0; values.len()];
    for (at, pixel) in values.chunks_exact(c).enumerate() {
        let to = (at % w * h + at / w) * c;
        out[to..to + c].copy_from_slice(pixel);
    }
    out
}

/// The samples that make up sample `i` of `n`, out of `of`.
fn taps(i: usize, of: usize, n: usize, how: Upscale) -> Vec<(usize, f32)> {
    let scale = of as f32 / n as f32;
    let center = scale * (i as f32 + 0.5);
    match how {
        Upscale::NearestExact => vec![((center as usize).min(of - 1), 1.0)],
        Upscale::Bilinear | Upscale::Bislerp => {
            let at = (center - 0.5).max(0.0);
            let first = (at as usize).min(of - 1);
            let ratio = at - first as f32;
            vec![(first, 1.0 - ratio), ((first + 1).min(of - 1), ratio)]
        }
        Upscale::Area => {
            let (start, end) = (i * of / n, ((i + 1) * of).div_ceil(n));
            let weight = 1.0 / (end - start) as f32;
            (start..end).map(|at| (at, weight)).collect()
        }
        Upscale::Bicubic => {
            let at = center - 0.5;
            let first = at.floor();
            let t = at - first;
            let weights = [cubic(t + 1.0), cubic(t), cubic(1.0 - t), cubic(2.0 - t)];
            let tap = |(k, weight): (usize, f32)| {
                let at = first as isize - 1 + k as isize;
                (at.clamp(0, of as isize - 1) as usize, weight)
            };
            weights.into_iter().enumerate().map(tap).collect()
        }
    }
}

/// Keys' kernel with a = -0.75, torch's.
fn cubic(t: f32) -> f32 {
    const A: f32 = -0.75;
    if t <= 1.0 {
        ((A + 2.0) * t - (A + 3.0)) * t * t + 1.0
    } else {
        ((A * t - 5.0 * A) * t + 8.0 * A) * t - 4.0 * A
    }
}

/// The two samples around sample `i` and how far between them it lies, as ComfyUI finds them: by
/// interpolating the coordinates themselves.
fn between(i: usize, of: usize, n: usize) -> (usize, usize, f32) {
    let interpolate = |coordinate: &dyn Fn(usize) -> f32| -> f32 {
        taps(i, of, n, Upscale::Bilinear)
            .iter()
            .map(|&(at, weight)| weight * coordinate(at))
            .sum()
    };
    let first = interpolate(&|at| at as f32);
    let second = interpolate(&|at| (at + 1).min(of - 1) as f32);
    (first as usize, second as usize, first - first.floor())
}

fn slerp(a: &[f32], b: &[f32], ratio: f32, out: &mut [f32]) {
    let norm = |v: &[f32]| v.iter().map(|x| x * x).sum::<f32>().sqrt();
    let (norm_a, norm_b) = (norm(a), norm(b));
    let unit = |v: f32, norm: f32| if norm == 0.0 { 0.0 } else { v / norm };
    let pairs = || a.iter().zip(b);
    let dot: f32 = pairs()
        .map(|(&a, &b)| unit(a, norm_a) * unit(b, norm_b))
        .sum();
    if dot > 1.0 - 1e-5 {
        out.copy_from_slice(a);
        return;
    }
    let linear = |a: f32, b: f32| a * (1.0 - ratio) + b * ratio;
    if dot < 1e-5 - 1.0 {
        out.iter_mut()
            .zip(pairs())
            .for_each(|(o, (&a, &b))| *o = linear(a, b));
        return;
    }
    let angle = dot.acos();
    let (of_a, of_b) = (
        ((1.0 - ratio) * angle).sin() / angle.sin(),
        (ratio * angle).sin() / angle.sin(),
    );
    let length = linear(norm_a, norm_b);
    for (o, (&a, &b)) in out.iter_mut().zip(pairs()) {
        *o = (of_a * unit(a, norm_a) + of_b * unit(b, norm_b)) * length;
    }
}

/// Resizes with a bicubic filter that is as wide as what it shrinks, so that nothing is left out:
/// torch's `interpolate` with `mode="bicubic", antialias=True`.
pub fn resize_smooth(values: &[f32], (h, w, c): Size, (height, width): (usize, usize)) -> Vec<f32> {
    let across = smooth_along(values, (h, w, c), width);
    let turned = smooth_along(&transposed(&across, (h, width, c)), (width, h, c), height);
    transposed(&turned, (width, height, c))
}

/// Resizes the second axis to `n`.
fn smooth_along(values: &[f32], (h, w, c): Size, n: usize) -> Vec<f32> {
    let mut out = vec![0.0; h * n * c];
    let taps: Vec<_> = (0..n).map(|i| smooth_taps(i, w, n)).collect();
    let rows = values.chunks_exact(w * c).zip(out.chunks_exact_mut(n * c));
    for (row, out) in rows {
        for ((first, weights), out) in taps.iter().zip(out.chunks_exact_mut(c)) {
            for (pixel, weight) in row[first * c..].chunks_exact(c).zip(weights) {
                let sum = out.iter_mut().zip(pixel);
                sum.for_each(|(o, v)| *o += weight * v);
            }
        }
    }
    out
}

/// The first sample that counts for sample `i` of `n`, out of `of`, and the weights from it on.
fn smooth_taps(i: usize, of: usize, n: usize) -> (usize, Vec<f32>) {
    /// Keys' kernel with a = -0.5, which torch has for this filter.
    fn keys(t: f32) -> f32 {
        const A: f32 = -0.5;
        match t.abs() {
            t if t < 1.0 => ((A + 2.0) * t - (A + 3.0)) * t * t + 1.0,
            t if t < 2.0 => ((A * t - 5.0 * A) * t + 8.0 * A) * t - 4.0 * A,
            _ => 0.0,
        }
    }
    let scale = of as f32 / n as f32;
    let wide = scale.max(1.0);
    let (support, center) = (2.0 * wide, scale * (i as f32 + 0.5));
    let first = ((center - support + 0.5) as isize).max(0) as usize;
    let end = ((center + support + 0.5) as usize).min(of);
    let weights = (first..end).map(|at| keys((at as f32 - center + 0.5) / wide));
    let weights: Vec<f32> = weights.collect();
    let sum: f32 = weights.iter().sum();
    (first, weights.into_iter().map(|w| w / sum).collect())
}
