//! What sampling starts from: a latent, where to paint, and what an inpaint model sees of both.

use super::request::{Fill, GenerateRequest, Inpaint, Start};
use crate::encode::{EncodeOptions, encode_with};
use crate::sample::LatentShape;
use crate::{Checkpoint, Control, EngineError, Latent, Mask, Picture, Seen, Store};
use std::sync::Arc;

/// Everything a pass begins with.
#[derive(Debug)]
pub(super) struct Canvas {
    /// The latent in the VAE's units; `None` is the empty latent.
    pub(super) latent: Option<Latent>,
    /// 1 where to paint, in pixels.
    pub(super) mask: Option<Mask>,
    /// What the model sees beside the noise: the picture with its masked part grayed for an inpaint
    /// model, the whole picture for one that edits.
    pub(super) seen: Option<Arc<Seen>>,
}

/// Encodes the start picture, once as it is and once grayed where the request needs that.
pub(super) fn prepare(
    store: &Store,
    model: &Checkpoint,
    request: &GenerateRequest,
    control: &mut Control<'_>,
) -> Result<Canvas, EngineError> {
    let inpaint = request.inpaint.as_ref();
    let mask = inpaint.map(|i| i.mask.clone().grown(i.grow).feathered(i.feather));
    let told = inpaint.filter(|_| model.diffusion.paints_over());
    let mut encode = |picture: &Picture, gray: Option<&Mask>| -> Result<Latent, EngineError> {
        let options = EncodeOptions {
            precision: request.decode.precision,
            format: model.latent_format(),
            beside: request.held_bytes(),
        };
        let size = (picture.width, picture.height);
        let values = || unit(picture, gray);
        let encoded = encode_with(store, &model.vae, size, &values, &options, control)?;
        Ok(encoded.latent)
    };
    let (latent, seen) = match &request.start {
        Start::Empty => (None, None),
        Start::Latent(latent) if model.diffusion.edits() => (None, Some(latent.clone())),
        Start::Picture(picture) if model.diffusion.edits() => (None, Some(encode(picture, None)?)),
        Start::Latent(latent) => (Some(latent.clone()), told.map(|_| latent.clone())),
        Start::Picture(picture) => {
            let grayed = |i: &Inpaint| i.mask.clone().rounded();
            let seen = told
                .map(|i| encode(picture, Some(&grayed(i))))
                .transpose()?;
            // An inpaint model sees the gray beside the noise; the latent stays the picture's.
            let gray = inpaint.filter(|i| i.fill == Fill::Gray && told.is_none());
            let latent = encode(picture, gray.map(grayed).as_ref())?;
            (Some(latent), seen)
        }
    };
    let seen = seen.map(|latent| {
        let mask = told.map(|i| i.mask.clone());
        Arc::new(Seen { latent, mask })
    });
    Ok(Canvas { latent, mask, seen })
}

/// The pictures to look at, encoded.
pub(super) fn references(
    store: &Store,
    model: &Checkpoint,
    request: &GenerateRequest,
    control: &mut Control<'_>,
) -> Result<Vec<Arc<Latent>>, EngineError> {
    let options = EncodeOptions {
        precision: request.decode.precision,
        format: model.latent_format(),
        beside: request.held_bytes(),
    };
    let encoded = request.references.iter().map(|picture| {
        let size = (picture.width, picture.height);
        let values = || unit(picture, None);
        let encoded = encode_with(store, &model.vae, size, &values, &options, control)?;
        Ok(Arc::new(encoded.latent))
    });
    encoded.collect()
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
    /// The latents that sampling starts from.
    pub(super) fn start(&self, shape: LatentShape) -> Latent {
        match &self.latent {
            None => shape.empty(),
            Some(latent) => latent.repeated(shape.batch),
        }
    }
}

#[cfg(test)]
mod tests;
