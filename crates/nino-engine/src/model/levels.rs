//! What a model predicts, and over which noise levels: read from its file as ComfyUI reads it, or
//! chosen by the user as with ComfyUI's `ModelSamplingDiscrete`.

use crate::EngineError;
use nino_models::{Denoiser, Family, FileParams, Guidance};
use nino_sample::model::Betas;
use nino_sample::{ModelSampling, Prediction};
use nino_weights::TensorReader;

/// The least level of CosXL where its file does not say, and of Playground 2.5.
const EDM_MIN: f64 = 0.002;
const PLAYGROUND_MAX: f64 = 80.0;
const PLAYGROUND_SIGMA_DATA: f32 = 0.5;

/// Flux's and Qwen-Image's shift where nothing says another.
pub(super) const FLUX_MU: f64 = 1.15;

/// Wan's shift where nothing says another.
pub(super) const WAN_SHIFT: f64 = 8.0;

/// Flux.2's, where no size says another.
pub(super) const FLUX2_MU: f64 = 2.02;

/// Z-Image's.
pub(super) const Z_IMAGE_SHIFT: f64 = 3.0;
/// That of Anima.
pub(super) const ANIMA_SHIFT: f64 = 3.0;

/// Whether it is Playground 2.5's file.
pub(super) fn is_playground(family: Family, reader: &TensorReader) -> bool {
    let has = |name: &str| reader.index().contains(name);
    family == Family::Sdxl && has("edm_mean") && has("edm_std")
}

pub(super) fn detect(
    family: Family,
    reader: &TensorReader,
    params: &FileParams,
    net: &Denoiser,
) -> Result<ModelSampling, EngineError> {
    let has = |name: &str| reader.index().contains(name);
    let number = |name: &str| -> Result<Option<f64>, EngineError> {
        let Some(entry) = reader.entry(name).ok().filter(|e| e.n_values() == 1) else {
            return Ok(None);
        };
        let mut value = [0.0];
        reader.read_f32(entry, &mut value)?;
        Ok(Some(f64::from(value[0])))
    };
    Ok(match family {
        Family::Emoji => ModelSampling::flow(1.0, 1000.0),
        _ if matches!(net, Denoiser::Unet(c) if c.is_lotus()) => {
            ModelSampling::stable_diffusion(Prediction::Translated)
        }
        // An inpainting UNet of SD 2.x always predicts noise; the others' files do not say, but one
        // late bias tells them apart.
        Family::Sd2 if net.wants().extra == 0 && is_v(reader, params)? => {
            ModelSampling::stable_diffusion(Prediction::V)
        }
        Family::Flux if net.wants().guidance == Guidance::None => ModelSampling::flow(1.0, 1.0),
        Family::Flux | Family::Chroma => ModelSampling::flux(FLUX_MU),
        Family::Wan | Family::Wan5B => ModelSampling::flow(WAN_SHIFT, 1000.0),
        Family::Klein | Family::Flux2 => ModelSampling::flux(FLUX2_MU),
        Family::QwenImage | Family::Krea2 => ModelSampling::flux(FLUX_MU),
        Family::ZImage => ModelSampling::flow(Z_IMAGE_SHIFT, 1.0),
        Family::Anima => ModelSampling::flow(ANIMA_SHIFT, 1.0),
        // Takes its guidance as an input: a consistency model.
        _ if matches!(net.wants().guidance, Guidance::Cfg(_)) => ModelSampling::lcm(false),
        Family::Sdxl if is_playground(family, reader) => ModelSampling::continuous_edm(
            Prediction::Edm,
            EDM_MIN,
            PLAYGROUND_MAX,
            PLAYGROUND_SIGMA_DATA,
        ),
        Family::Sdxl => match number("edm_vpred.sigma_max")? {
            Some(max) => {
                let min = number("edm_vpred.sigma_min")?.unwrap_or(EDM_MIN);
                ModelSampling::continuous_edm(Prediction::V, min, max, 1.0)
            }
            None if has("v_pred") => discrete(Prediction::V, has("ztsnr")),
            None => ModelSampling::stable_diffusion(Prediction::Eps),
        },
        _ => ModelSampling::stable_diffusion(Prediction::Eps),
    })
}

/// How a model that predicts this is sampled; `zsnr` ends the levels in pure noise.
pub(super) fn sampling(prediction: Prediction, zsnr: bool) -> ModelSampling {
    match prediction {
        Prediction::Lcm => ModelSampling::lcm(zsnr),
        _ => discrete(prediction, zsnr),
    }
}

fn discrete(prediction: Prediction, zsnr: bool) -> ModelSampling {
    ModelSampling::discrete(prediction, Betas::STABLE_DIFFUSION, zsnr)
}

fn is_v(reader: &TensorReader, params: &FileParams) -> Result<bool, EngineError> {
    let name = "output_blocks.11.1.transformer_blocks.0.norm1.bias";
    let Some(entry) = params.index().get(name) else {
        return Ok(false);
    };
    let mut values = vec![0.0; entry.n_values()];
    reader.read_f32(entry, &mut values)?;
    let n = values.len() as f64;
    let mean = values.iter().copied().map(f64::from).sum::<f64>() / n;
    let squares: f64 = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum();
    Ok((squares / n).sqrt() > 0.09)
}

#[cfg(test)]
mod tests;
