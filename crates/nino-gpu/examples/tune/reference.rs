//! Made-up values, and single elements of the right answer in f64.

use half::f16;

use super::scene::Kind;

pub(crate) fn reference(kind: &Kind, inputs: &[Vec<f16>], at: u32) -> f32 {
    match *kind {
        Kind::Product { n, k, ref conv, .. } => {
            let (row, col) = (at / n, at % n);
            let w = |i: u32| inputs[1][(col * k + i) as usize].to_f64();
            let x = |i: u32| match conv {
                None => inputs[0][(row * k + i) as usize].to_f64(),
                Some(c) => {
                    let (tap, ch, side) = (i / c.c, i % c.c, c.input[1] as i32);
                    let y = (row as i32 / side) + (tap / 3) as i32 - 1;
                    let x = (row as i32 % side) + (tap % 3) as i32 - 1;
                    let inside = (0..side).contains(&y) && (0..side).contains(&x);
                    let at = (y * side + x) as u32;
                    if inside {
                        inputs[0][(at * c.c + ch) as usize].to_f64()
                    } else {
                        0.0
                    }
                }
            };
            let sum: f64 = (0..k).map(|i| x(i) * w(i)).sum();
            sum as f32 + inputs[2][col as usize].to_f32()
        }
        Kind::Attention { heads, n, hd } => {
            let (row, head, col) = (at / hd / heads, at / hd % heads, at % hd);
            let v = |t: usize, r: u32, c: u32| {
                inputs[t][((r * heads + head) * hd + c) as usize].to_f64()
            };
            let score = |j: u32| (0..hd).map(|c| v(0, row, c) * v(1, j, c)).sum::<f64>();
            let scores: Vec<f64> = (0..n).map(score).collect();
            let top = scores.iter().copied().fold(f64::MIN, f64::max);
            let total: f64 = scores.iter().map(|s| (s - top).exp()).sum();
            (0..n)
                .map(|j| (scores[j as usize] - top).exp() / total * v(2, j, col))
                .sum::<f64>() as f32
        }
    }
}

/// Values in -0.5..0.5 whose sums stay far from f16's limits.
pub(crate) fn values(n: usize, seed: u32) -> Vec<f16> {
    let mut state = seed.wrapping_mul(0x9e37_79b9) | 1;
    (0..n)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            f16::from_f32((state >> 8) as f32 / 16_777_216.0 - 0.5)
        })
        .collect()
}
