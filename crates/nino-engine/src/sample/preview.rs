//! What an unfinished latent looks like: a color for every latent pixel by the format's own
//! factors, or decoded by a small VAE.
//!
//! The VAE's memory is part of the plan of the run it shows, and stays on the device while the run
//! goes on.

use super::channels_last;
use super::{LatentShape, SampleRequest};
use crate::decode::{DecodeOptions, Decoder, LatentSize, plan_decode};
use crate::{Control, DiffusionModel, EngineError, Latent, Picture, Stage, Store, VaeFile};
use nino_models::latent::LatentFormat;
use std::sync::Arc;

/// Pictures of the unfinished latent, told as [`crate::Event::Preview`].
#[derive(Clone, Debug)]
pub struct Preview {
    /// Every so many steps.
    pub every: usize,
    /// A small VAE to decode with; without one, a color per latent pixel.
    pub vae: Option<Arc<VaeFile>>,
}

/// Previews of one run.
pub(super) struct Previews {
    every: usize,
    format: &'static LatentFormat,
    shape: LatentShape,
    vae: Option<Small>,
}

/// A small VAE on the device.
struct Small {
    vae: Arc<VaeFile>,
    decoder: Decoder,
}

impl Previews {
    /// Bytes on the device while previews are made; 0 where they need none.
    pub(super) fn bytes(
        store: &Store,
        model: &DiffusionModel,
        request: &SampleRequest<'_>,
    ) -> usize {
        let shape = LatentShape::of(request.latent);
        let vae = request.preview.and_then(|p| p.vae.as_ref());
        let vae = vae.filter(|vae| model.check_vae(vae).is_ok());
        let plan = vae.map(|vae| plan_decode(store, vae, size(shape), &options(model)));
        // One that does not fit is told when it is opened, and the run goes on without.
        plan.and_then(Result::ok).map_or(0, |p| p.peak_bytes())
    }

    /// Makes ready what the request asks to be shown; `None` where there is nothing to show, which
    /// is told where it was asked for.
    pub(super) fn open(
        store: &Store,
        model: &DiffusionModel,
        request: &SampleRequest<'_>,
        control: &mut Control<'_>,
    ) -> Option<Previews> {
        let preview = request.preview?;
        let format = model.latent_format()?;
        let shape = LatentShape::of(request.latent);
        let opened = preview.vae.as_ref().map(|vae| {
            model.check_vae(vae)?;
            let plan = plan_decode(store, vae, size(shape), &options(model))?;
            let decoder = Decoder::open_for(Stage::Preview, store, vae, plan)?;
            Ok(Small {
                vae: Arc::clone(vae),
                decoder,
            })
        });
        let vae = match opened.transpose() {
            Ok(vae) => vae,
            Err(error) => {
                let error: EngineError = error;
                control.note(format!("no previews: {error}"));
                return None;
            }
        };
        Some(Previews {
            every: preview.every.max(1),
            format,
            shape,
            vae,
        })
    }

    /// Whether the step of that index is to be shown.
    pub(super) fn is_due(&self, index: usize) -> bool {
        (index + 1).is_multiple_of(self.every)
    }

    /// A picture of the first frame of the first latent of a batch in the model's units,
    /// `[b, c, t, h, w]`; `None` where nothing says what its channels look like.
    pub(super) fn show(
        &mut self,
        values: &[f32],
        control: &Control<'_>,
    ) -> Result<Option<Picture>, EngineError> {
        let item = LatentShape {
            batch: 1,
            ..self.shape
        };
        let mut first = channels_last(&values[..item.item_len()], item);
        let one = LatentShape {
            frames: 1,
            is_video: false,
            ..item
        };
        first.truncate(one.item_len());
        let Some(small) = &mut self.vae else {
            return Ok(colors(self.format, one, &first));
        };
        let mut latent = Latent {
            values: first,
            format: Some(self.format),
            ..one.empty()
        };
        latent.scale_to_vae(self.format);
        // The stages of this decode are no stages of the request's.
        let mut unheard = Control {
            cancel: control.cancel,
            on_event: &mut |_| {},
        };
        let latent =
            crate::units::to_decoder(&small.vae, &latent, Some(self.format), &mut unheard)?;
        let mut picture = Picture::default();
        small.decoder.run(&latent, &mut unheard, &mut |band| {
            if band.y == 0 {
                picture = Picture::new(band.width, band.height);
            }
            picture.set_rows(band.y, band.values);
            Ok(())
        })?;
        Ok(Some(picture))
    }

    /// Gives the VAE back for the next run.
    pub(super) fn finish(self) {
        self.vae
            .into_iter()
            .for_each(|small| small.decoder.finish());
    }
}

fn size(shape: LatentShape) -> LatentSize {
    LatentSize {
        frames: 1,
        height: shape.height,
        width: shape.width,
    }
}

fn options(model: &DiffusionModel) -> DecodeOptions {
    DecodeOptions {
        format: model.latent_format(),
        ..DecodeOptions::default()
    }
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
