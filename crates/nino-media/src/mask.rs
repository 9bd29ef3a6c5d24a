//! Where to paint: 1 repaints, 0 keeps. Growing and outpainting give ComfyUI's numbers.

#[cfg(test)]
mod tests;

use crate::Picture;
use crate::picture::centered;
use crate::resize::{Upscale, resize};

/// A value in 0..1 for every pixel of a picture.
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Mask {
    pub width: usize,
    pub height: usize,
    /// `[h, w]`
    pub values: Vec<f32>,
}

/// Pixels to add around a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sides {
    pub left: usize,
    pub top: usize,
    pub right: usize,
    pub bottom: usize,
}

impl Mask {
    /// Whether nothing is to be painted.
    pub fn is_empty(&self) -> bool {
        self.values.iter().all(|&v| v == 0.0)
    }

    /// In bytes, cut off as ComfyUI does it to the channels of a picture.
    pub fn to_bytes(&self) -> Vec<u8> {
        let bytes = self.values.iter();
        bytes.map(|v| (v * 255.0).clamp(0.0, 255.0) as u8).collect()
    }

    /// Stretched to another size, as ComfyUI does it to masks.
    pub fn resized(&self, width: usize, height: usize) -> Mask {
        if (self.width, self.height) == (width, height) {
            return self.clone();
        }
        let size = (self.height, self.width, 1);
        Mask {
            width,
            height,
            values: resize(&self.values, size, (height, width), Upscale::Bilinear),
        }
    }

    /// Cut in the middle as [`Picture::fitted`] cuts, and stretched.
    pub fn fitted(&self, width: usize, height: usize) -> Mask {
        let (at, w, h) = centered(self.width, self.height, width as f64 / height as f64);
        self.cropped(at, w, h).resized(width, height)
    }

    /// The part of it at `x`, `y`.
    pub fn cropped(&self, (x, y): (usize, usize), width: usize, height: usize) -> Mask {
        let rows = self.values.chunks_exact(self.width).skip(y).take(height);
        Mask {
            width,
            height,
            values: rows.flat_map(|row| &row[x..x + width]).copied().collect(),
        }
    }

    /// Every value at its nearer end; the middle counts as kept.
    pub fn rounded(mut self) -> Mask {
        let whole = |v: f32| if v > 0.5 { 1.0 } else { 0.0 };
        self.values.iter_mut().for_each(|v| *v = whole(*v));
        self
    }

    /// Grown by a square of `by` pixels, as ComfyUI's VAEEncodeForInpaint grows its noise mask.
    pub fn grown(self, by: usize) -> Mask {
        if by == 0 {
            return self;
        }
        self.rounded()
            .both_ways(|values, width| grow_rows(values, width, by))
    }

    /// Its border softened over about `by` pixels to each side.
    pub fn feathered(self, by: usize) -> Mask {
        if by == 0 {
            return self;
        }
        self.both_ways(|values, width| blur_rows(values, width, by))
    }

    /// What is done to rows of so many values, done to rows and then to columns.
    fn both_ways(self, rows: impl Fn(&[f32], usize) -> Vec<f32>) -> Mask {
        let across = rows(&self.values, self.width);
        let down = rows(&transposed(&across, self.width), self.height);
        Mask {
            values: transposed(&down, self.height),
            ..self
        }
    }
}

/// A picture on a larger gray canvas, and a mask of what is new, which runs `feather` pixels into
/// the old: ComfyUI's ImagePadForOutpaint.
pub fn outpaint(picture: &Picture, add: Sides, feather: usize) -> (Picture, Mask) {
    let (w, h) = (picture.width, picture.height);
    let (width, height) = (w + add.left + add.right, h + add.top + add.bottom);
    let mut rgb = vec![128; width * height * 3];
    let mut values = vec![1.0; width * height];
    // A picture smaller than two borders has no room for them.
    let feathers = feather > 0 && feather * 2 < h && feather * 2 < w;
    for y in 0..h {
        let at = (y + add.top) * width + add.left;
        rgb[at * 3..(at + w) * 3].copy_from_slice(&picture.rgb[y * w * 3..(y + 1) * w * 3]);
        for x in 0..w {
            let side =
                |added: usize, distance: usize| if added > 0 { distance } else { usize::MAX };
            let distance = side(add.top, y)
                .min(side(add.bottom, h - y))
                .min(side(add.left, x))
                .min(side(add.right, w - x));
            let inside = if feathers && distance < feather {
                (feather - distance) as f32 / feather as f32
            } else {
                0.0
            };
            values[at + x] = inside * inside;
        }
    }
    let picture = Picture { width, height, rgb };
    let mask = Mask {
        width,
        height,
        values,
    };
    (picture, mask)
}

fn transposed(values: &[f32], width: usize) -> Vec<f32> {
    let height = values.len() / width.max(1);
    (0..values.len())
        .map(|at| values[at % height * width + at / height])
        .collect()
}

/// 1 where any of the `by` values around is; an even square reaches one further back than forward.
fn grow_rows(values: &[f32], width: usize, by: usize) -> Vec<f32> {
    let (back, forward) = (by / 2, by - 1 - by / 2);
    let mut out = vec![0.0; values.len()];
    for (row, out) in values.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        for at in (0..width).filter(|&at| row[at] > 0.0) {
            // What is `at` reached from.
            out[at.saturating_sub(forward)..(at + back + 1).min(width)].fill(1.0);
        }
    }
    out
}

fn blur_rows(values: &[f32], width: usize, by: usize) -> Vec<f32> {
    let deviation = by as f32 / 2.0;
    let weight = |d: usize| (-((d * d) as f32) / (2.0 * deviation * deviation)).exp();
    let kernel: Vec<f32> = (0..=2 * by).map(|i| weight(i.abs_diff(by))).collect();
    let sum: f32 = kernel.iter().sum();
    let mut out = vec![0.0; values.len()];
    for (row, out) in values.chunks_exact(width).zip(out.chunks_exact_mut(width)) {
        for (at, out) in out.iter_mut().enumerate() {
            let value = |(i, k): (usize, &f32)| {
                let from = (at + i).saturating_sub(by).min(width - 1);
                k * row[from]
            };
            *out = kernel.iter().enumerate().map(value).sum::<f32>() / sum;
        }
    }
    out
}
