//! Pictures as floats: what decoders give and encoders take. ComfyUI's IMAGE.

use crate::Picture;

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
