//! Models as Python holds them: parts that never change and are cheap to pass around.

use crate::array::Input;
use crate::conditioning::PyConditioning;
use crate::error::{raise, value};
use nino_engine::{
    Checkpoint, DType, DiffusionModel, LoraSpec, MemoryTensor, ModelFiles, ModelSampling,
    Prediction, TensorReader, TextEncoders, VaeFile, from_memory,
};
use pyo3::prelude::*;
use std::path::PathBuf;
use std::sync::Arc;

/// A VAE. ComfyUI's VAE.
#[pyclass(frozen, name = "Vae", module = "ninodes._native")]
pub(crate) struct Vae(pub(crate) Arc<VaeFile>);

#[pymethods]
impl Vae {
    #[staticmethod]
    fn open(path: PathBuf) -> PyResult<Vae> {
        let vae = VaeFile::open(&path).map_err(raise)?;
        Ok(Vae(Arc::new(vae)))
    }

    /// A VAE of tensors that somebody else holds; they stay where they are.
    #[staticmethod]
    fn of_tensors(name: &str, tensors: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Vae> {
        let reader = reader(name, tensors)?;
        let vae = VaeFile::from_reader(name, reader).map_err(raise)?;
        Ok(Vae(Arc::new(vae)))
    }

    /// A known VAE with made-up weights, to try things with.
    #[staticmethod]
    fn made_up(name: &str, seed: u64) -> PyResult<Vae> {
        let vae = VaeFile::synthetic(name, seed).map_err(raise)?;
        Ok(Vae(Arc::new(vae)))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn latent_channels(&self) -> usize {
        self.0.kind.latent_channels()
    }

    /// Pixels per latent pixel along one side.
    #[getter]
    fn scale(&self) -> usize {
        self.0.kind.scale()
    }

    /// Frames per latent frame; `None` of a VAE for pictures.
    #[getter]
    fn time_scale(&self) -> Option<usize> {
        self.0.kind.time_scale()
    }

    #[getter]
    fn can_encode(&self) -> bool {
        self.0.can_encode()
    }
}

/// A diffusion model. ComfyUI's MODEL.
#[pyclass(frozen, name = "Diffusion", module = "ninodes._native")]
pub(crate) struct Diffusion(pub(crate) DiffusionModel);

#[pymethods]
impl Diffusion {
    #[staticmethod]
    fn open(path: PathBuf) -> PyResult<Diffusion> {
        DiffusionModel::open(&path).map(Diffusion).map_err(raise)
    }

    /// A model of tensors that somebody else holds; they stay where they are.
    #[staticmethod]
    fn of_tensors(name: &str, tensors: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<Diffusion> {
        let reader = reader(name, tensors)?;
        let model = DiffusionModel::from_reader(name, reader).map_err(raise)?;
        Ok(Diffusion(model))
    }

    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn family(&self) -> &'static str {
        self.0.family.name()
    }

    #[getter]
    fn latent_channels(&self) -> usize {
        self.0.net().wants().channels
    }

    /// Channels that the network sees beside the latent's: 0 of most models.
    #[getter]
    fn extra_channels(&self) -> usize {
        self.0.net().wants().extra
    }

    /// The usual settings: steps, cfg, sampler, scheduler, size, guidance.
    #[getter]
    fn defaults(&self) -> (usize, f32, &'static str, &'static str, usize, Option<f32>) {
        let d = self.0.defaults();
        (d.steps, d.cfg, d.sampler, d.scheduler, d.size, d.guidance)
    }

    /// The noise levels it was trained on, rising.
    #[getter]
    fn levels(&self) -> Vec<f32> {
        self.0.sampling.sigmas().to_vec()
    }

    /// A prompt of zeros of the sizes that the model takes, to time steps with.
    fn blank_prompt(&self) -> PyConditioning {
        PyConditioning(self.0.blank_prompt())
    }

    /// The same model with plain weights held as `dtype`.
    fn quantized(&self, dtype: &str) -> PyResult<Diffusion> {
        let dtype: DType = dtype.parse().map_err(|e| value(format!("{e}")))?;
        Ok(Diffusion(self.0.quantized(dtype)))
    }

    /// The same model that predicts `eps`, `v` or `lcm`.
    fn predicting(&self, prediction: &str, zsnr: bool) -> PyResult<Diffusion> {
        let prediction = match prediction {
            "eps" => Prediction::Eps,
            "v" => Prediction::V,
            "lcm" => Prediction::Lcm,
            _ => {
                return Err(value(format!(
                    "a prediction is eps, v or lcm, not {prediction:?}"
                )));
            }
        };
        Ok(Diffusion(self.0.with_prediction(prediction, zsnr)))
    }

    /// The same flow model over levels that are shifted.
    fn shifted(&self, shift: f64, multiplier: f32) -> Diffusion {
        let sampling = ModelSampling::flow(shift, multiplier);
        Diffusion(self.0.with_sampling(sampling))
    }

    /// The same flow model over Flux's levels.
    fn shifted_by_mu(&self, mu: f64) -> Diffusion {
        Diffusion(self.0.with_sampling(ModelSampling::flux(mu)))
    }
}

/// Text encoders. ComfyUI's CLIP.
#[pyclass(frozen, name = "Text", module = "ninodes._native")]
pub(crate) struct Text(pub(crate) TextEncoders);

#[pymethods]
impl Text {
    #[staticmethod]
    fn open(paths: Vec<PathBuf>) -> PyResult<Text> {
        TextEncoders::open(&paths).map(Text).map_err(raise)
    }

    #[getter]
    fn family(&self) -> &'static str {
        self.0.family.name()
    }

    fn with_clip_skip(&self, layer: Option<usize>) -> Text {
        Text(self.0.with_clip_skip(layer))
    }
}

/// The parts of a checkpoint, or of a model whose parts are files of their own.
#[pyfunction]
pub(crate) fn checkpoint(
    path: PathBuf,
    clip: Vec<PathBuf>,
    vae: Option<PathBuf>,
) -> PyResult<(Diffusion, Text, Vae)> {
    let files = ModelFiles {
        model: &path,
        clip: &clip,
        vae: vae.as_deref(),
    };
    let model = Checkpoint::open_files(files).map_err(raise)?;
    Ok((Diffusion(model.diffusion), Text(model.text), Vae(model.vae)))
}

/// The file of the built-in model, written below `cache` where it is not there yet.
#[pyfunction]
pub(crate) fn builtin(cache: PathBuf) -> PyResult<PathBuf> {
    nino_engine::builtin_model(&cache).map_err(raise)
}

/// A diffusion model and text encoders with a LoRA.
#[pyfunction]
#[pyo3(signature = (path, model, text, strength_model, strength_clip))]
pub(crate) fn apply_lora(
    path: PathBuf,
    model: Option<&Diffusion>,
    text: Option<&Text>,
    strength_model: f32,
    strength_clip: f32,
) -> PyResult<(Option<Diffusion>, Option<Text>)> {
    let spec = LoraSpec {
        path,
        unet: strength_model,
        clip: strength_clip,
    };
    let parts = nino_engine::apply_lora(model.map(|m| &m.0), text.map(|t| &t.0), &spec);
    let parts = parts.map_err(raise)?;
    Ok((parts.diffusion.map(Diffusion), parts.text.map(Text)))
}

/// Reads tensors where they lie.
fn reader(name: &str, tensors: Vec<(String, Bound<'_, PyAny>)>) -> PyResult<TensorReader> {
    let tensor = |(name, array): (String, Bound<'_, PyAny>)| {
        let input = Input::of(&array)?;
        Ok(MemoryTensor {
            name,
            dtype: input.dtype,
            shape: input.shape.clone(),
            bytes: input.into_bytes(),
        })
    };
    let tensors: PyResult<Vec<MemoryTensor>> = tensors.into_iter().map(tensor).collect();
    from_memory(name, tensors?).map_err(raise)
}
