//! What an unfinished latent looks like: a color for every latent pixel by the format's own factors, or
//! decoded by a small VAE.

use super::denoise::{LatentShape, channels_last};
use super::{Checkpoint, Preview};
use crate::decode::{DecodeOptions, decode};
use crate::{Control, EngineError, Latent, Picture};
use nino_graph::Device;
use nino_models::latent::LatentFormat;

/// A picture of the first latent of a batch in the model's units, `[b, c, h, w]`; `None` where nothing
/// says what its channels look like.
pub(super) fn show(
    device: &dyn Device,
    model: &Checkpoint,
    preview: &Preview,
    shape: LatentShape,
    values: &[f32],
    control: &mut Control<'_>,
) -> Result<Option<Picture>, EngineError> {
    let Some(format) = model.latent_format() else {
        return Ok(None);
    };
    let one = LatentShape { batch: 1, ..shape };
    let first = channels_last(&values[..one.image_len()], one);
    let Some(vae) = &preview.vae else {
        return Ok(colors(format, one, &first));
    };
    let mut latent = Latent {
        batch: 1,
        frames: 1,
        height: one.height,
        width: one.width,
        channels: one.channels,
        values: first,
        is_video: false,
        format: None,
    };
    latent.scale_to_vae(format);
    let options = DecodeOptions {
        format: Some(format),
        ..DecodeOptions::default()
    };
    let mut found = None;
    // The stages of this decode are no stages of the request's.
    let mut unheard = Control {
        cancel: control.cancel,
        on_event: &mut |_| {},
    };
    decode(
        device,
        vae,
        &latent,
        &options,
        &mut unheard,
        &mut |_, _, p| {
            found = Some(p);
            Ok(())
        },
    )?;
    Ok(found)
}

/// A pixel per latent pixel.
fn colors(format: &LatentFormat, shape: LatentShape, values: &[f32]) -> Option<Picture> {
    if format.rgb.len() != shape.channels {
        return None;
    }
    let color = |pixel: &[f32]| {
        let mut rgb = format.rgb_bias;
        for (v, factors) in pixel.iter().zip(format.rgb) {
            rgb.iter_mut().zip(factors).for_each(|(c, f)| *c += v * f);
        }
        rgb.map(|c| c * 0.5 + 0.5)
    };
    let unit: Vec<f32> = values
        .chunks_exact(shape.channels)
        .flat_map(color)
        .collect();
    Some(Picture::from_unit(shape.width, shape.height, &unit))
}
