//! Pictures as a `ControlNet` sees them that looks at latents: resized to what is sampled, and for
//! networks that paint, with a mask and the picture of what stays. ComfyUI's
//! `ControlNetInpaintingAliMamaApply` and `ZImageFunControlnet`.

use super::{Hint, HintImage, HintPaint, fitted, middle};
use crate::{Image, Latent, Mask, Upscale};
use nino_media::resize;
use nino_models::HintKind;

/// What is encoded for a latent.
pub(crate) struct HintPictures {
    pub(crate) image: Image,
    /// What stays of the picture that is painted over.
    pub(crate) rest: Option<Image>,
    /// `[h, w]`: 1 where a pixel of the latent stays.
    mask: Option<Vec<f32>>,
}

impl Hint {
    /// What is to be encoded for a latent of this size, with so many pixels along a side of its
    /// own; `None` where the network sees pixels, or all is encoded already.
    pub(crate) fn pictures(
        &self,
        height: usize,
        width: usize,
        scale: usize,
    ) -> Option<HintPictures> {
        let HintImage::Pixels { images, paint, .. } = &self.seen else {
            return None;
        };
        let image = images.first()?;
        let kind = self.net.net.hint();
        let [height, width, _] = kind.size([height, width]);
        let size = [height * scale, width * scale];
        let stays = paint.as_ref().and_then(HintPaint::stays);
        match kind {
            HintKind::Pixels { .. } | HintKind::Unshuffled { .. } | HintKind::Smooth { .. } => None,
            HintKind::Latent { masked, smooth, .. } => {
                let stays = stays.filter(|_| masked);
                let image = match &stays {
                    Some(stays) if !smooth => covered(image, stays, 0.0),
                    _ => Image::clone(image),
                };
                let mask = match &stays {
                    Some(stays) if smooth => {
                        let from = (stays.height, stays.width, 1);
                        resize(&stays.values, from, (height, width), Upscale::Bilinear)
                    }
                    Some(stays) => brought(stays, [height, width], Upscale::NearestExact),
                    None => vec![1.0; height * width],
                };
                let method = if smooth {
                    Upscale::Area
                } else {
                    Upscale::NearestExact
                };
                Some(HintPictures {
                    image: fitted(&image, size, method),
                    rest: None,
                    mask: masked.then_some(mask),
                })
            }
            HintKind::EvenLatent { inpaint, .. } => {
                let image = fitted(image, size, Upscale::Area);
                let under = paint.as_ref().and_then(|paint| paint.image.as_ref());
                let rest = match under {
                    Some(under) => fitted(under, size, Upscale::Area),
                    None => Image {
                        values: vec![GRAY; image.values.len()],
                        ..image
                    },
                };
                let rest = match &stays {
                    Some(stays) => covered(&rest, stays, GRAY),
                    None => rest,
                };
                let mask = match &stays {
                    Some(stays) => nearest(stays, [height, width]),
                    None => vec![0.0; height * width],
                };
                Some(HintPictures {
                    image,
                    rest: inpaint.then_some(rest),
                    mask: inpaint.then_some(mask),
                })
            }
        }
    }
}

/// What is seen where a picture is painted over, and where there is none.
const GRAY: f32 = 0.5;

impl HintPictures {
    /// The encoded picture beside the mask and what stays, as the network sees them.
    pub(crate) fn joined(&self, latent: &Latent, rest: Option<&Latent>) -> Latent {
        let n = latent.width * latent.height;
        let own = |i: usize| &latent.values[i * latent.channels..][..latent.channels];
        let mask = |i: usize| self.mask.as_ref().map_or(&[][..], |mask| &mask[i..=i]);
        let rest = |i: usize| {
            rest.map_or(&[][..], |rest| {
                &rest.values[i * rest.channels..][..rest.channels]
            })
        };
        let values: Vec<f32> = (0..n)
            .flat_map(|i| [own(i), mask(i), rest(i)])
            .flatten()
            .copied()
            .collect();
        Latent {
            channels: values.len() / n.max(1),
            values,
            ..latent.clone()
        }
    }
}

impl HintPaint {
    /// 1 where the picture stays.
    fn stays(&self) -> Option<Mask> {
        let mask = self.mask.as_deref()?;
        Some(Mask {
            values: mask.values.iter().map(|v| 1.0 - v).collect(),
            ..*mask
        })
    }
}

/// What a network sees of a picture in pixels, and of the mask of what to paint, `[h, w, c]`.
pub(super) fn smooth(
    image: &Image,
    paint: Option<&HintPaint>,
    kind: HintKind,
    size: [usize; 2],
) -> Vec<f32> {
    let HintKind::Smooth {
        masked, covered, ..
    } = kind
    else {
        return Vec::new();
    };
    let image = fitted(image, size, Upscale::Bicubic);
    let mask = paint.and_then(|paint| paint.mask.as_deref());
    let mask = match mask {
        Some(mask) => brought(mask, size, Upscale::NearestExact),
        None => vec![0.0; size[0] * size[1]],
    };
    let pixels = image.values.chunks_exact(3).zip(mask);
    let seen = pixels.flat_map(|(pixel, mask)| {
        let paints = mask >= 0.5;
        let stays = if masked && covered && paints {
            0.0
        } else {
            1.0
        };
        let color = [0, 1, 2].map(|c| (pixel[c].clamp(0.0, 1.0) * 2.0 - 1.0) * stays);
        let told = masked.then_some(if paints { 1.0 } else { -1.0 });
        color.into_iter().chain(told)
    });
    seen.collect()
}

/// A picture with `color` where a mask of any size says that it does not stay.
fn covered(image: &Image, stays: &Mask, color: f32) -> Image {
    let stays = brought(stays, [image.height, image.width], Upscale::Bilinear);
    let pixels = image.values.chunks_exact(3).zip(stays);
    let values = pixels.flat_map(|(pixel, stays)| {
        let stays = stays.round_ties_even();
        [0, 1, 2].map(|c| (pixel[c] - color) * stays + color)
    });
    Image {
        values: values.collect(),
        ..*image
    }
}

/// The middle of a mask, brought to a size.
fn brought(mask: &Mask, [height, width]: [usize; 2], method: Upscale) -> Vec<f32> {
    let (values, [h, w]) = middle(&mask.values, [mask.height, mask.width, 1], [height, width]);
    resize(&values, (h, w, 1), (height, width), method)
}

/// The same with the pixel that torch's `nearest` takes: the one below.
fn nearest(mask: &Mask, [height, width]: [usize; 2]) -> Vec<f32> {
    let (values, [h, w]) = middle(&mask.values, [mask.height, mask.width, 1], [height, width]);
    let at = |i: usize| values[i / width * h / height * w + i % width * w / width];
    (0..height * width).map(at).collect()
}
