//! Pictures resized with Lanczos' window of three, with the numbers that Pillow gives: ComfyUI's
//! `lanczos`. Weights are whole numbers of 22 bits, and values are rounded to bytes between rows
//! and columns, so that their order shows in the last bits; it is that of Pillow 13.

use nino_engine::Picture;

/// Samples to each side of a sample.
const SUPPORT: f64 = 3.0;
/// Bits after the point of a weight.
const BITS: u32 = 22;

/// Resizes a picture. Columns come first where they shrink so much more than rows that this saves
/// work.
pub(super) fn resized(picture: &Picture, width: usize, height: usize) -> Picture {
    let fewer = |from: usize, to: usize| from as i64 - to as i64;
    let (narrower, lower) = (fewer(picture.width, width), fewer(picture.height, height));
    if lower > 0 && lower > 2 * narrower {
        rows(&columns(picture, height), width)
    } else {
        columns(&rows(picture, width), height)
    }
}

fn rows(picture: &Picture, width: usize) -> Picture {
    Picture {
        width,
        height: picture.height,
        rgb: along(&picture.rgb, picture.width, width),
    }
}

fn columns(picture: &Picture, height: usize) -> Picture {
    turned(&rows(&turned(picture), height))
}

/// Resizes every row of `from` pixels to `to`.
fn along(rgb: &[u8], from: usize, to: usize) -> Vec<u8> {
    if from == to {
        return rgb.to_vec();
    }
    let taps: Vec<_> = (0..to).map(|i| taps(i, from, to)).collect();
    let rows = rgb.chunks_exact(from * 3);
    let mut out = Vec::with_capacity(rgb.len() / from.max(1) * to);
    for row in rows {
        for (first, weights) in &taps {
            for c in 0..3 {
                let half = 1i64 << (BITS - 1);
                let pixels = row[first * 3..].iter().skip(c).step_by(3);
                let products = weights.iter().zip(pixels).map(|(w, p)| w * i64::from(*p));
                let sum = products.fold(half, |sum, product| sum + product);
                out.push((sum >> BITS).clamp(0, 255) as u8);
            }
        }
    }
    out
}

/// The first sample that makes up sample `i` of `to`, out of `from`, and the weights from it on.
fn taps(i: usize, from: usize, to: usize) -> (usize, Vec<i64>) {
    let scale = from as f64 / to as f64;
    let stretch = scale.max(1.0);
    let (support, center) = (SUPPORT * stretch, (i as f64 + 0.5) * scale);
    let first = ((center - support + 0.5) as isize).max(0) as usize;
    let last = ((center + support + 0.5) as usize).min(from);
    let weight = |at: usize| lanczos((at as f64 - center + 0.5) * (1.0 / stretch));
    let weights: Vec<f64> = (first..last).map(weight).collect();
    let sum: f64 = weights.iter().sum();
    let whole = |w: &f64| {
        let scaled = w / sum * f64::from(1u32 << BITS);
        // Away from zero, as Pillow rounds them.
        (scaled + 0.5f64.copysign(scaled)) as i64
    };
    (first, weights.iter().map(whole).collect())
}

fn lanczos(x: f64) -> f64 {
    let sinc = |x: f64| {
        if x == 0.0 {
            return 1.0;
        }
        let x = x * std::f64::consts::PI;
        x.sin() / x
    };
    if (-SUPPORT..SUPPORT).contains(&x) {
        sinc(x) * sinc(x / SUPPORT)
    } else {
        0.0
    }
}

/// Rows for columns.
fn turned(picture: &Picture) -> Picture {
    let (w, h) = (picture.width, picture.height);
    let pixels = (0..w * h).flat_map(|at| {
        let from = (at % h * w + at / h) * 3;
        &picture.rgb[from..from + 3]
    });
    Picture {
        width: h,
        height: w,
        rgb: pixels.copied().collect(),
    }
}

#[cfg(test)]
mod tests;
