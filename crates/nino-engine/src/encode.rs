//! Pictures to latents.

use crate::decode::Precision;
use crate::fit::fit;
use crate::values::{read, write};
use crate::{Control, EngineError, Latent, Picture, VaeFile};
use nino_graph::{Device, RunOptions};
use nino_models::Chunk;
use nino_models::latent::LatentFormat;

/// What the user asked for.
#[derive(Clone, Copy, Debug, Default)]
pub struct EncodeOptions {
    pub precision: Precision,
    /// The latent space to write, where the VAE gives the model's units.
    pub format: Option<&'static LatentFormat>,
}

/// Encodes one picture; its sides must be multiples of the VAE's scale. The latent is in the VAE's
/// units, as files hold it.
pub fn encode(
    device: &dyn Device,
    vae: &VaeFile,
    picture: &Picture,
    options: &EncodeOptions,
    control: &mut Control<'_>,
) -> Result<Latent, EngineError> {
    let values: Vec<f32> = picture.rgb.iter().map(|&v| f32::from(v) / 255.0).collect();
    let size = (picture.width, picture.height);
    encode_unit(device, vae, size, &values, options, control)
}

/// Encodes RGB values in 0..1, `[h, w, 3]`.
pub(crate) fn encode_unit(
    device: &dyn Device,
    vae: &VaeFile,
    (width, height): (usize, usize),
    values: &[f32],
    options: &EncodeOptions,
    control: &mut Control<'_>,
) -> Result<Latent, EngineError> {
    let chunk = Chunk {
        batch: 1,
        frames: 1,
        height,
        width,
        first: true,
        by_frame: true,
    };
    let recording = vae.record_encoder(chunk, options.precision.dtype(device))?;
    let plan = fit(device, &recording.graph)?;
    control.stage("load")?;
    let weights = device.load(&[&plan], vae.params()?)?;
    let mut session = device.session(plan.clone(), &weights)?;
    control.stage("encode")?;
    write(&mut *session, plan.graph(), recording.input, values)?;
    session.run(RunOptions {
        cancel: Some(control.cancel),
        profile: false,
    })?;
    let shape = plan.graph().shape(recording.output);
    let values = read(&mut *session, plan.graph(), recording.output)?;
    control.progress(1, 1)?;
    let rank = shape.rank();
    let mut latent = Latent {
        batch: 1,
        frames: 1,
        height: shape[rank - 3],
        width: shape[rank - 2],
        channels: shape.last_dim(),
        values,
        is_video: vae.vae.time_scale().is_some(),
    };
    if vae.vae.in_model_units() {
        let format = options.format.or_else(|| vae.assumed_format());
        let format = format.ok_or_else(|| EngineError::NoFormat {
            vae: vae.name.clone(),
        })?;
        if options.format.is_none() {
            control.note(format!(
                "{} gives scaled latents: assuming the {} latent format",
                vae.name, format.name
            ));
        }
        latent.scale_to_vae(format);
    }
    Ok(latent)
}
