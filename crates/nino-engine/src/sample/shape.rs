//! The size of the latents of a run, and the order of their values inside and outside of a network.

use crate::transpose::transpose;
use crate::{Latent, LatentSize};

/// Size of the latents to sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LatentShape {
    pub(crate) batch: usize,
    /// 1 for pictures.
    pub(crate) frames: usize,
    pub(crate) height: usize,
    pub(crate) width: usize,
    pub(crate) channels: usize,
    /// The latent's [`Latent::is_video`].
    pub(crate) is_video: bool,
}

impl LatentShape {
    pub(crate) fn of(latent: &Latent) -> LatentShape {
        LatentShape {
            batch: latent.batch,
            frames: latent.frames,
            height: latent.height,
            width: latent.width,
            channels: latent.channels,
            is_video: latent.is_video,
        }
    }

    /// Values of one picture's or clip's latent.
    pub(crate) fn item_len(self) -> usize {
        self.pixels() * self.channels
    }

    /// Latent pixels of one picture or of all frames of one clip.
    pub(crate) fn pixels(self) -> usize {
        self.frames * self.height * self.width
    }

    pub(super) fn len(self) -> usize {
        self.batch * self.item_len()
    }

    /// Latents of nothing.
    pub(crate) fn empty(self) -> Latent {
        let size = LatentSize {
            frames: self.frames,
            height: self.height,
            width: self.width,
        };
        Latent {
            is_video: self.is_video,
            ..Latent::empty(self.batch, self.channels, size)
        }
    }

    /// A latent that has this shape and no values, for plans.
    pub(crate) fn without_values(self) -> Latent {
        let LatentShape {
            batch,
            frames,
            height,
            width,
            channels,
            is_video,
        } = self;
        Latent {
            batch,
            frames,
            height,
            width,
            channels,
            values: Vec::new(),
            is_video,
            format: None,
        }
    }
}

/// `[b, c, t, h, w]` → `[b, t, h, w, c]`
pub(crate) fn channels_last(values: &[f32], shape: LatentShape) -> Vec<f32> {
    let mut out = vec![0.0; values.len()];
    to_channels_last(values, shape, &mut out);
    out
}

pub(super) fn to_channels_last(values: &[f32], shape: LatentShape, out: &mut [f32]) {
    let item = shape.item_len();
    for (planes, out) in values.chunks_exact(item).zip(out.chunks_exact_mut(item)) {
        transpose(planes, shape.pixels(), out);
    }
}

/// `[b, t, h, w, c]` → `[b, c, t, h, w]`
pub(super) fn channels_first(values: &[f32], shape: LatentShape, out: &mut [f32]) {
    let item = shape.item_len();
    for (pixels, out) in values.chunks_exact(item).zip(out.chunks_exact_mut(item)) {
        transpose(pixels, shape.channels, out);
    }
}
