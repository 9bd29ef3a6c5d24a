//! What sampling starts from: a latent, where to paint, and what an inpaint UNet is told of both.

use super::denoise::LatentShape;
use super::request::{Fill, GenerateRequest, Start};
use super::{Checkpoint, Family};
use crate::encode::{EncodeOptions, encode_unit};
use crate::{Control, EngineError, Latent, Mask, Picture};
use nino_graph::Device;
use nino_media::{Upscale, resize};
use nino_models::latent::LatentFormat;

/// Everything a pass begins with.
#[derive(Debug)]
pub(super) struct Canvas {
    /// In the VAE's units; `None` is the empty latent.
    pub(super) latent: Option<Latent>,
    /// 1 where to paint, in pixels.
    pub(super) mask: Option<Mask>,
    /// What the UNet sees beside the noise: of an inpaint UNet the picture with its masked part grayed, of
    /// one that edits the picture. In the VAE's units.
    seen: Option<Latent>,
}

/// What ComfyUI tells an inpaint UNet of a picture there is none of.
const BLANK: [f32; 4] = [0.8223, -0.6876, 0.6364, 0.1380];

/// Encodes the start picture, once as it is and once grayed where the request needs that.
pub(super) fn prepare(
    device: &dyn Device,
    model: &Checkpoint,
    request: &GenerateRequest,
    control: &mut Control<'_>,
) -> Result<Canvas, EngineError> {
    let inpaint = request.inpaint.as_ref();
    let mask = inpaint.map(|i| i.mask.clone().grown(i.grow).feathered(i.feather));
    let told = inpaint.filter(|_| model.paints_over());
    let mut encode = |picture: &Picture, gray: Option<&Mask>| -> Result<Latent, EngineError> {
        let options = EncodeOptions {
            precision: request.decode.precision,
            format: model.latent_format(),
        };
        let size = (picture.width, picture.height);
        let values = unit(picture, gray);
        let encoded = encode_unit(device, &model.vae, size, &values, &options, control)?;
        Ok(encoded.latent)
    };
    let (latent, seen) = match &request.start {
        Start::Empty => (None, None),
        Start::Latent(latent) if model.edits() => (None, Some(latent.clone())),
        Start::Picture(picture) if model.edits() => (None, Some(encode(picture, None)?)),
        Start::Latent(latent) => (Some(latent.clone()), told.map(|_| latent.clone())),
        Start::Picture(picture) => {
            let grayed = |i: &super::request::Inpaint| i.mask.clone().rounded();
            let seen = told
                .map(|i| encode(picture, Some(&grayed(i))))
                .transpose()?;
            // An inpaint UNet sees the gray beside the noise; the latent stays the picture's.
            let gray = inpaint.filter(|i| i.fill == Fill::Gray && told.is_none());
            let latent = encode(picture, gray.map(grayed).as_ref())?;
            (Some(latent), seen)
        }
    };
    Ok(Canvas { latent, mask, seen })
}

/// RGB in 0..1; exactly the middle where `gray` is 1.
fn unit(picture: &Picture, gray: Option<&Mask>) -> Vec<f32> {
    let value = |(i, &v): (usize, &u8)| match gray {
        Some(mask) if mask.values[i / 3] > 0.0 => 0.5,
        _ => f32::from(v) / 255.0,
    };
    picture.rgb.iter().enumerate().map(value).collect()
}

impl Canvas {
    /// The canvas of a pass that goes on from `latent` at another size.
    pub(super) fn next(self, latent: &Latent, shape: LatentShape, how: Upscale) -> Canvas {
        let seen = self
            .seen
            .map(|m| m.resized(shape.height, shape.width, Upscale::Bilinear));
        Canvas {
            latent: Some(latent.resized(shape.height, shape.width, how)),
            mask: self.mask,
            seen,
        }
    }

    /// The latent in the model's units, `[b, c, h, w]`; zeros where there is none.
    pub(super) fn values(&self, shape: LatentShape, format: Option<&LatentFormat>) -> Vec<f32> {
        match &self.latent {
            None => vec![0.0; shape.batch * shape.image_len()],
            Some(latent) => {
                let planes = model_units(latent, format).planes();
                planes.repeat(shape.batch / latent.batch)
            }
        }
    }

    /// The mask for every value of the latent, `[b, c, h, w]`.
    pub(super) fn latent_mask(&self, shape: LatentShape) -> Option<Vec<f32>> {
        let mask = self.mask.as_ref()?.resized(shape.width, shape.height);
        Some(mask.values.repeat(shape.batch * shape.channels))
    }

    /// What a UNet takes beside the latent: of an inpaint UNet mask and masked picture, `[b, h, w, 5]`, of
    /// one that edits the picture.
    pub(super) fn beside(
        &self,
        model: &Checkpoint,
        inpaint: Option<&Mask>,
        shape: LatentShape,
    ) -> Option<Vec<f32>> {
        if model.edits() {
            let pixels = shape.batch * shape.height * shape.width;
            let Some(seen) = &self.seen else {
                return Some(vec![0.0; pixels * shape.channels]);
            };
            // Only CosXL was trained on the model's units.
            let scaled = model.family == Family::Sdxl && model.sampling.is_continuous();
            let seen = model_units(seen, model.latent_format().filter(|_| scaled));
            return Some(seen.values.repeat(shape.batch / seen.batch));
        }
        if !model.paints_over() {
            return None;
        }
        let (Some(masked), Some(mask)) = (&self.seen, inpaint) else {
            let pixel: Vec<f32> = std::iter::once(1.0).chain(BLANK).collect();
            return Some(pixel.repeat(shape.batch * shape.height * shape.width));
        };
        let masked = model_units(masked, model.latent_format());
        let mask = mask.resized(shape.width, shape.height).rounded();
        Some(interleaved(&mask, &masked).repeat(shape.batch / masked.batch))
    }
}

fn model_units(latent: &Latent, format: Option<&LatentFormat>) -> Latent {
    let mut latent = latent.clone();
    // ComfyUI leaves an empty latent empty.
    if let Some(format) = format
        && latent.values.iter().any(|&v| v != 0.0)
    {
        latent.scale_to_model(format);
    }
    latent
}

/// The mask before every pixel's channels.
fn interleaved(mask: &Mask, latent: &Latent) -> Vec<f32> {
    let pixels = latent.values.chunks_exact(latent.channels);
    mask.values
        .iter()
        .cycle()
        .zip(pixels)
        .flat_map(|(&m, pixel)| std::iter::once(m).chain(pixel.iter().copied()))
        .collect()
}

impl Latent {
    /// At another size, every picture of the batch.
    pub(crate) fn resized(&self, height: usize, width: usize, how: Upscale) -> Latent {
        if (self.height, self.width) == (height, width) {
            return self.clone();
        }
        let size = (self.height, self.width, self.channels);
        let values = (0..self.batch)
            .flat_map(|b| resize(self.item(b), size, (height, width), how))
            .collect();
        Latent {
            height,
            width,
            values,
            ..self.clone()
        }
    }
}

#[cfg(test)]
mod tests;
