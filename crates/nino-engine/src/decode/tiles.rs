//! Overlapped tiles, blended by ramps: the quick and inexact way people know.

use crate::VaeFile;

/// Sizes in pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tiling {
    pub size: usize,
    pub overlap: usize,
}

impl Default for Tiling {
    /// The node pack's defaults.
    fn default() -> Tiling {
        Tiling {
            size: 768,
            overlap: 96,
        }
    }
}

impl Tiling {
    /// The node pack's defaults, smaller where the model's weights are quantized.
    pub fn default_for(vae: &VaeFile) -> Tiling {
        let size = if vae.is_quantized() { 512 } else { 768 };
        Tiling {
            size,
            ..Tiling::default()
        }
    }

    /// Whether the picture is larger than one tile.
    pub(super) fn needed(self, height: usize, width: usize, scale: usize) -> bool {
        height * scale > self.size || width * scale > self.size
    }

    /// Latent pixels of every tile; all are of one size, so that one plan serves.
    pub(super) fn latent_size(self, height: usize, width: usize, scale: usize) -> (usize, usize) {
        let size = (self.size / scale).max(1);
        (size.min(height), size.min(width))
    }

    pub(super) fn count(self, height: usize, width: usize, scale: usize) -> usize {
        self.starts(height, scale).len() * self.starts(width, scale).len()
    }

    /// Latent starts along one axis: steps of size less overlap, the last one moved in to the edge.
    pub(super) fn starts(self, length: usize, scale: usize) -> Vec<usize> {
        let size = (self.size / scale).max(1).min(length);
        let step = size.saturating_sub(self.overlap / scale).max(1);
        let mut starts: Vec<usize> = (0..length - size).step_by(step).collect();
        starts.push(length - size);
        starts
    }
}

/// Adds tiles of every frame with weights that fall off linearly into the overlap.
#[derive(Debug)]
pub(super) struct Blend {
    width: usize,
    height: usize,
    /// `[h, w, 3]` of each frame.
    sums: Vec<Vec<f32>>,
    /// `[h, w]`, the same for all frames.
    weight: Vec<f32>,
}

/// A tile's place in the clip, in pixels.
#[derive(Clone, Copy)]
pub(super) struct At {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) frame: usize,
}

impl Blend {
    pub(super) fn new((width, height): (usize, usize), n_frames: usize) -> Blend {
        Blend {
            width,
            height,
            sums: vec![vec![0.0; width * height * 3]; n_frames],
            weight: vec![0.0; width * height],
        }
    }

    /// Memory that [`Blend::new`] takes.
    pub(super) fn bytes(pixels: usize, n_frames: usize) -> usize {
        pixels * (3 * n_frames + 1) * size_of::<f32>()
    }

    /// Adds rows of a tile, from its row `first` on; each row of each frame once.
    pub(super) fn add(&mut self, at: At, overlap: usize, first: usize, values: &[f32]) {
        let ramp = |i: usize, n: usize, start: usize, total: usize| {
            // No fall-off at the picture's own edge.
            let before = if start == 0 {
                f32::INFINITY
            } else {
                (i as f32 + 0.5) / overlap.max(1) as f32
            };
            let after = if start + n == total {
                f32::INFINITY
            } else {
                (n as f32 - i as f32 - 0.5) / overlap.max(1) as f32
            };
            before.min(after).min(1.0)
        };
        let sum = &mut self.sums[at.frame];
        for (i, row) in values.chunks_exact(at.width * 3).enumerate() {
            let y = first + i;
            let wy = ramp(y, at.height, at.y, self.height);
            for x in 0..at.width {
                let w = wy * ramp(x, at.width, at.x, self.width);
                let to = (at.y + y) * self.width + at.x + x;
                for c in 0..3 {
                    sum[to * 3 + c] += w * row[x * 3 + c];
                }
                if at.frame == 0 {
                    self.weight[to] += w;
                }
            }
        }
    }

    /// The weighted mean of every frame, `[h, w, 3]`.
    pub(super) fn frames(self) -> impl Iterator<Item = Vec<f32>> {
        let Blend { sums, weight, .. } = self;
        sums.into_iter().map(move |mut sum| {
            for (pixel, w) in sum.chunks_exact_mut(3).zip(&weight) {
                pixel.iter_mut().for_each(|v| *v /= w);
            }
            sum
        })
    }
}
