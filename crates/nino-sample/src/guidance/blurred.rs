//! Self-attention guidance (Hong et al. 2023): away from what the network makes of its negative
//! prediction, blurred where its places are looked at most. Behavior: ComfyUI's
//! `SelfAttentionGuidance`.

use super::Items;

/// How far away, and how much is blurred.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SelfAttention {
    pub scale: f32,
    /// Standard deviation of the blur, in places of the latent.
    pub blur: f32,
}

/// Places on either side that a blur takes in; smaller latents are not guided.
const REACH: usize = 4;
/// A place is blurred where it is looked at more than this; the mean is 1.
const THRESHOLD: f32 = 1.0;

impl SelfAttention {
    /// The prediction `[b, c, h, w]`, blurred where `attended` `[b, n]` is high.
    pub(super) fn degraded(self, prediction: &[f32], attended: &[f32], items: Items) -> Vec<f32> {
        let (height, width) = (items.height(), items.width);
        let n = attended.len() * items.len / prediction.len().max(1);
        let rows = rows(n, height, width);
        let kernel = kernel(self.blur);
        let mut out = prediction.to_vec();
        let planes = out.chunks_exact_mut((height * width).max(1));
        for (i, plane) in planes.enumerate() {
            let item = i / items.channels.max(1);
            let Some(seen) = attended.get(item * n..(item + 1) * n).filter(|_| n > 0) else {
                continue;
            };
            let blurred = blurred(plane, width, &kernel);
            for (place, value) in plane.iter_mut().enumerate() {
                let (y, x) = (
                    place / width * rows / height,
                    place % width * (n / rows) / width,
                );
                if seen[y * (n / rows) + x] > THRESHOLD {
                    *value = blurred[place];
                }
            }
        }
        out
    }

    /// Moves the guided prediction away from `again`, which the network made of `degraded`.
    pub(super) fn apply(self, denoised: &mut [f32], degraded: &[f32], again: &[f32], items: Items) {
        if items.height().min(items.width) <= REACH {
            return;
        }
        for ((out, d), a) in denoised.iter_mut().zip(degraded).zip(again) {
            *out += (d - a) * self.scale;
        }
    }
}

/// Rows of the `n` places that lie over a latent of this size.
fn rows(n: usize, height: usize, width: usize) -> usize {
    let near = (height as f64 / width.max(1) as f64 * n as f64).sqrt();
    let near = near.round_ties_even() as usize;
    let pairs = (0..=n).flat_map(|i| [near + i, near.saturating_sub(i).max(1)]);
    let mut divisors = pairs.filter(|&rows| rows > 0 && n.is_multiple_of(rows));
    divisors.next().unwrap_or(1)
}

/// A bell curve whose sum is 1.
fn kernel(deviation: f32) -> [f32; 2 * REACH + 1] {
    let bell: [f32; 2 * REACH + 1] = std::array::from_fn(|i| {
        let x = (i as f32 - REACH as f32) / deviation;
        (-0.5 * x * x).exp()
    });
    let sum: f32 = bell.iter().sum();
    bell.map(|v| v / sum)
}

/// A plane blurred along both axes; beyond its borders it is mirrored.
fn blurred(plane: &[f32], width: usize, kernel: &[f32; 2 * REACH + 1]) -> Vec<f32> {
    let height = plane.len() / width;
    let across = convolved(plane, kernel, |place, offset| {
        place / width * width + mirrored(place % width, offset, width)
    });
    convolved(&across, kernel, |place, offset| {
        mirrored(place / width, offset, height) * width + place % width
    })
}

fn convolved(
    plane: &[f32],
    kernel: &[f32; 2 * REACH + 1],
    at: impl Fn(usize, isize) -> usize,
) -> Vec<f32> {
    let sum = |place| {
        let taps = (-(REACH as isize)..).zip(kernel);
        taps.map(|(offset, weight)| plane[at(place, offset)] * weight)
            .sum()
    };
    (0..plane.len()).map(sum).collect()
}

/// The place that is so far from `i`, of `n` that are mirrored at their first and last one.
fn mirrored(i: usize, offset: isize, n: usize) -> usize {
    let last = n as isize - 1;
    let at = (i as isize + offset).abs();
    let at = if at > last { 2 * last - at } else { at };
    at.clamp(0, last) as usize
}
