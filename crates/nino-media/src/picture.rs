//! An RGB picture of 8 bits a channel.

use crate::raw::luma;
use crate::{Mask, pool};
use image::{RgbImage, imageops};

/// Rows of RGB bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct Picture {
    pub width: usize,
    pub height: usize,
    /// `[h, w, 3]`
    pub rgb: Vec<u8>,
}

impl Picture {
    /// Black.
    pub fn new(width: usize, height: usize) -> Picture {
        Picture {
            width,
            height,
            rgb: vec![0; width * height * 3],
        }
    }

    /// Makes a picture from values in 0..1, cut off to bytes as ComfyUI does.
    pub fn from_unit(width: usize, height: usize, values: &[f32]) -> Picture {
        let mut picture = Picture::new(width, height);
        picture.set_rows(0, values);
        picture
    }

    /// Rows from `y` on, from values in 0..1.
    pub fn set_rows(&mut self, y: usize, values: &[f32]) {
        /// Values for a thread at a time.
        const PART: usize = 1 << 16;
        let rows = &mut self.rgb[y * self.width * 3..];
        let parts = rows.chunks_mut(PART).zip(values.chunks(PART)).collect();
        pool::map(parts, |(bytes, values): (&mut [u8], &[f32])| {
            for (byte, v) in bytes.iter_mut().zip(values) {
                *byte = (v * 255.0).clamp(0.0, 255.0) as u8;
            }
        });
    }

    /// Its pixels with how opaque each is: `[h, w, 4]`.
    pub(crate) fn with_opacity(&self, opacity: &[u8]) -> Vec<u8> {
        let pixels = self.rgb.as_chunks::<3>().0.iter().zip(opacity);
        let pixels = pixels.flat_map(|(&[r, g, b], &a)| [r, g, b, a]);
        pixels.collect()
    }

    /// How white it is, as a mask of what is to be painted.
    pub fn bright(&self) -> Mask {
        let pixels = self.rgb.chunks_exact(3);
        Mask {
            width: self.width,
            height: self.height,
            values: pixels
                .map(|p| f32::from(luma([p[0], p[1], p[2]])) / 255.0)
                .collect(),
        }
    }

    /// Cut in the middle to another aspect ratio and resized (Lanczos), as ComfyUI's ImageScale
    /// with crop `center`.
    pub fn fitted(&self, width: usize, height: usize) -> Picture {
        if (self.width, self.height) == (width, height) {
            return self.clone();
        }
        let ((x, y), w, h) = centered(self.width, self.height, width as f64 / height as f64);
        let part = self.cropped((x, y), w, h);
        let image = RgbImage::from_raw(w as u32, h as u32, part.rgb).unwrap_or_default();
        let resized = imageops::resize(
            &image,
            width as u32,
            height as u32,
            imageops::FilterType::Lanczos3,
        );
        Picture {
            width,
            height,
            rgb: resized.into_raw(),
        }
    }

    /// This picture where `mask` is 1, `original` where it is 0; all of one size.
    pub fn painted_over(mut self, original: &Picture, mask: &Mask) -> Picture {
        for (i, (new, &old)) in self.rgb.iter_mut().zip(&original.rgb).enumerate() {
            let paint = mask.values[i / 3];
            let mixed = f32::from(*new) * paint + f32::from(old) * (1.0 - paint);
            *new = mixed.round() as u8;
        }
        self
    }

    /// The part of it at `x`, `y`.
    pub fn cropped(&self, (x, y): (usize, usize), width: usize, height: usize) -> Picture {
        let rows = self.rgb.chunks_exact(self.width * 3).skip(y).take(height);
        Picture {
            width,
            height,
            rgb: rows
                .flat_map(|row| &row[x * 3..(x + width) * 3])
                .copied()
                .collect(),
        }
    }
}

/// The largest part of `w` by `h` of that aspect ratio: where it begins, its width and height.
pub fn centered(w: usize, h: usize, aspect: f64) -> ((usize, usize), usize, usize) {
    let old = w as f64 / h as f64;
    let (mut x, mut y) = (0, 0);
    if old > aspect {
        x = ((w as f64 - w as f64 * (aspect / old)) / 2.0).round_ties_even() as usize;
    } else if old < aspect {
        y = ((h as f64 - h as f64 * (old / aspect)) / 2.0).round_ties_even() as usize;
    }
    // A sliver of a picture still has a pixel.
    let (x, y) = (x.min((w - 1) / 2), y.min((h - 1) / 2));
    ((x, y), w - 2 * x, h - 2 * y)
}
