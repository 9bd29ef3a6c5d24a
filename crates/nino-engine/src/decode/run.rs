//! From a latent to pictures: checks, units, plan, run, and what to do when a run fails.

use super::frames::Cursor;
use super::{DecodeOptions, DecodePlan, Decoder, Precision, plan_decode};
use crate::{Control, EngineError, Latent, Picture, VaeFile};
use nino_dtype::DType;
use nino_graph::Device;
use std::time::Duration;

/// How the pictures came about.
#[derive(Debug)]
pub struct Decoded {
    pub plan: DecodePlan,
    /// Bytes for weights and the largest session's activations, as allocated.
    pub measured_peak: usize,
    /// Decodes repeated in f32 because values were not finite.
    pub retries: usize,
    pub load_time: Duration,
    pub decode_time: Duration,
}

/// Takes each picture or frame as it is ready: batch element, frame, picture.
pub type OnPicture<'a> = dyn FnMut(usize, usize, Picture) -> Result<(), EngineError> + 'a;

/// Decodes every latent of the batch; pictures go out as they are ready, in order.
pub fn decode(
    device: &dyn Device,
    vae: &VaeFile,
    latent: &Latent,
    options: &DecodeOptions,
    control: &mut Control<'_>,
    on_picture: &mut OnPicture<'_>,
) -> Result<Decoded, EngineError> {
    let latent = prepared(vae, latent, options, control)?;
    let mut on_frame = |b: usize, i: usize, frame: super::Frame<'_>| {
        on_picture(
            b,
            i,
            Picture::from_unit(frame.width, frame.height, frame.values),
        )
    };
    let mut options = *options;
    let mut at = Cursor::default();
    let mut retries = 0;
    let mut decode_time = Duration::ZERO;
    loop {
        let plan = plan_decode(device, vae, latent.size(), &options)?;
        let mut decoder = Decoder::load(device, vae, plan, control)?;
        match decoder.resume(&latent, &mut at, control, &mut on_frame) {
            Ok(time) => {
                decode_time += time;
                return Ok(Decoded {
                    measured_peak: decoder.measured_peak(),
                    plan: decoder.plan,
                    retries,
                    load_time: decoder.load_time,
                    decode_time,
                });
            }
            Err(EngineError::NotFinite { bad, all }) if decoder.plan.dtype != DType::F32 => {
                control.note(format!(
                    "{bad} of {all} values were not finite in {}: going on in f32",
                    decoder.plan.dtype
                ));
                options.precision = Precision::F32;
                retries += 1;
            }
            Err(other) => return Err(other),
        }
    }
}

/// The latent as the decoder takes it, or why it cannot.
fn prepared(
    vae: &VaeFile,
    latent: &Latent,
    options: &DecodeOptions,
    control: &mut Control<'_>,
) -> Result<Latent, EngineError> {
    let expected = vae.vae.latent_channels();
    if latent.channels != expected {
        return Err(EngineError::Channels {
            expected,
            found: latent.channels,
        });
    }
    if latent.frames > 1 && vae.vae.time_scale().is_none() {
        return Err(EngineError::VideoLatent {
            frames: latent.frames,
            vae: vae.name.clone(),
        });
    }
    let mut latent = latent.clone();
    if vae.vae.in_model_units() {
        let format = options
            .format
            .or_else(|| vae.assumed_format())
            .ok_or_else(|| EngineError::NoFormat {
                vae: vae.name.clone(),
            })?;
        if options.format.is_none() {
            control.note(format!(
                "{} takes scaled latents: assuming the {} latent format",
                vae.name, format.name
            ));
        }
        latent.scale_to_model(format);
    }
    Ok(latent)
}
