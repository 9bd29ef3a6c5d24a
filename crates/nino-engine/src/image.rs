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
