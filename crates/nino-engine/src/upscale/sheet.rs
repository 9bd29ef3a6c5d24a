//! Values of a picture's pixels in host memory, between the pieces of an upscaler.

use super::bands::Band;
use crate::Image;
use nino_models::upscaler::PieceShape;
use std::ops::Range;

/// Values `[height, width, channels]`.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sheet {
    pub(super) width: usize,
    pub(super) height: usize,
    channels: usize,
    values: Vec<f32>,
}

impl Sheet {
    /// A picture whose squares of `by` pixels are one pixel each, channels ordered as PyTorch's
    /// `pixel_unshuffle`. A picture of other sizes is mirrored at its right and lower edge.
    pub(super) fn unshuffled(image: &Image, by: usize) -> Sheet {
        let (width, height) = (image.width.div_ceil(by), image.height.div_ceil(by));
        let mut values = Vec::with_capacity(width * height * by * by * 3);
        for y in 0..height {
            for x in 0..width {
                for c in 0..3 {
                    for dy in 0..by {
                        let row = mirrored(y * by + dy, image.height) * image.width;
                        for dx in 0..by {
                            let at = row + mirrored(x * by + dx, image.width);
                            values.push(image.values[at * 3 + c]);
                        }
                    }
                }
            }
        }
        Sheet {
            width,
            height,
            channels: 3 * by * by,
            values,
        }
    }

    /// A sheet for what a piece makes of `input`.
    pub(super) fn empty(input: &Sheet, shape: &PieceShape) -> Sheet {
        let (width, height) = (input.width * shape.scale, input.height * shape.scale);
        Sheet {
            width,
            height,
            channels: shape.out_channels,
            values: Vec::with_capacity(width * height * shape.out_channels),
        }
    }

    /// The values of some rows.
    pub(super) fn rows(&self, rows: &Range<usize>) -> &[f32] {
        let row = self.width * self.channels;
        &self.values[rows.start * row..rows.end * row]
    }

    /// Adds the rows that a band is kept for; bands come in order. `scale` is the size of a row of
    /// the input here.
    pub(super) fn take(&mut self, values: &[f32], band: &Band, scale: usize) {
        let row = scale * self.width * self.channels;
        let from = (band.kept.start - band.rows.start) * row;
        let to = (band.kept.end - band.rows.start) * row;
        self.values.extend_from_slice(&values[from..to]);
    }

    /// The picture of that size at the upper left; values outside 0..1 are cut off.
    pub(super) fn into_image(self, width: usize, height: usize) -> Image {
        let rows = self.values.chunks_exact(self.width * 3).take(height);
        let values = rows.flat_map(|row| &row[..width * 3]);
        Image {
            width,
            height,
            values: values.map(|v| v.clamp(0.0, 1.0)).collect(),
        }
    }
}

/// The place of `i` on a side of `n` pixels that goes on as its mirror image, the last pixel once.
fn mirrored(i: usize, n: usize) -> usize {
    if i < n {
        i
    } else {
        (2 * n).saturating_sub(i + 2).min(n - 1)
    }
}
