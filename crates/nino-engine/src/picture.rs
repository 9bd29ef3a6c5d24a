//! An RGB picture of 8 bits a channel.

/// Rows of RGB bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    pub width: usize,
    pub height: usize,
    /// `[h, w, 3]`
    pub rgb: Vec<u8>,
}

impl Picture {
    /// From values in 0..1, cut off to bytes as ComfyUI does.
    pub fn from_unit(width: usize, height: usize, values: &[f32]) -> Picture {
        let byte = |v: &f32| (v * 255.0).clamp(0.0, 255.0) as u8;
        Picture {
            width,
            height,
            rgb: values.iter().map(byte).collect(),
        }
    }
}
