//! Pictures as floats: what decoders give and encoders take. ComfyUI's IMAGE.

use crate::{Picture, Upscale};
use nino_media::{centered, resize};

/// RGB values in 0..1 where the network kept to it, `[height, width, 3]`. A [`Picture`] is the same
/// in bytes, as files hold it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Image {
    pub width: usize,
    pub height: usize,
    pub values: Vec<f32>,
}

impl Image {
    /// The picture in bytes: values outside 0..1 are cut off.
    pub fn to_picture(&self) -> Picture {
        Picture::from_unit(self.width, self.height, &self.values)
    }

    /// As near to so many pixels as the ratio of its sides allows, with sides that are multiples of
    /// `multiple`. ComfyUI's way to bring pictures to look at to a size, by areas.
    #[must_use]
    pub fn of_pixels(&self, pixels: usize, multiple: usize) -> Image {
        let own = (self.width * self.height).max(1) as f64;
        let scale = (pixels as f64 / own).sqrt();
        let side = |n: usize| {
            let units = (n as f64 * scale / multiple as f64).round_ties_even();
            (units as usize).max(1) * multiple
        };
        let (width, height) = (side(self.width), side(self.height));
        let from = (self.height, self.width, 3);
        Image {
            width,
            height,
            values: resize(&self.values, from, (height, width), Upscale::Area),
        }
    }

    /// Cut in the middle to the aspect ratio of that size and stretched, as ComfyUI does it to
    /// frames of a clip.
    #[must_use]
    pub fn fitted(&self, width: usize, height: usize) -> Image {
        if (self.width, self.height) == (width, height) {
            return self.clone();
        }
        let ((x, y), w, h) = centered(self.width, self.height, width as f64 / height as f64);
        let rows = self.values.chunks_exact(self.width * 3).skip(y).take(h);
        let part: Vec<f32> = rows
            .flat_map(|row| &row[x * 3..(x + w) * 3])
            .copied()
            .collect();
        Image {
            width,
            height,
            values: resize(&part, (h, w, 3), (height, width), Upscale::Bilinear),
        }
    }
}

impl From<&Picture> for Image {
    fn from(picture: &Picture) -> Image {
        Image {
            width: picture.width,
            height: picture.height,
            values: picture.rgb.iter().map(|&v| f32::from(v) / 255.0).collect(),
        }
    }
}
