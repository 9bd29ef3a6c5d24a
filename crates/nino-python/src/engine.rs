//! A device with the models that stay on it, and the stages that run there.

use crate::array::{Array, Input};
use crate::conditioning::PyConditioning;
use crate::error::{raise, value};
use crate::job::{self, Listener};
use crate::models::{Diffusion, Text, Vae};
use crate::options::{DecodeArgs, EncodeArgs, latent};
use crate::sample::{self, SampleArgs};
use nino_engine::device::{self, DeviceChoice};
use nino_engine::{
    Checkpoint, EngineError, FloatFrames, GenerateRequest, Image, LatentSize, Store,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::path::PathBuf;

#[pyclass(frozen, module = "ninodes._native")]
pub(crate) struct Engine {
    store: Store,
    name: String,
    model: String,
    tier: Option<String>,
    budget: Option<usize>,
}

/// Which device to open, and what it may use.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct EngineArgs {
    device: String,
    tier: Option<String>,
    budget: Option<u64>,
    threads: Option<usize>,
    cache_dir: Option<PathBuf>,
    /// Whether models stay on the device from one call to the next.
    keep: bool,
}

/// Callbacks of one call.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Callbacks<'py> {
    progress: Option<Bound<'py, PyAny>>,
    preview: Option<Bound<'py, PyAny>>,
}

impl<'py> Callbacks<'py> {
    fn listener(self) -> Listener<'py> {
        Listener {
            progress: self.progress,
            preview: self.preview,
        }
    }
}

#[pymethods]
impl Engine {
    #[new]
    fn new(py: Python<'_>, args: EngineArgs) -> PyResult<Engine> {
        let tier = args.tier.map(|tier| tier.parse());
        let choice = DeviceChoice {
            device: Some(args.device.parse().map_err(|e| value(format!("{e}")))?),
            tier: tier.transpose().map_err(|e| value(format!("{e}")))?,
            budget: args.budget,
            threads: args.threads,
            cache_dir: args.cache_dir,
            ..DeviceChoice::default()
        };
        let opened = py.detach(|| device::open(&choice));
        let opened = opened.map_err(|e| raise(EngineError::from(e)))?;
        let store = if args.keep {
            Store::new(opened.device.clone())
        } else {
            Store::keeping_nothing(opened.device.clone())
        };
        Ok(Engine {
            budget: opened.device.budget().total,
            name: opened.name.to_string(),
            model: opened.model.clone(),
            tier: opened.tier.map(|tier| tier.to_string()),
            store,
        })
    }

    /// `cpu` or `gpu:N`.
    #[getter]
    fn device(&self) -> &str {
        &self.name
    }

    /// What the device's maker calls it.
    #[getter]
    fn device_model(&self) -> &str {
        &self.model
    }

    #[getter]
    fn tier(&self) -> Option<&str> {
        self.tier.as_deref()
    }

    /// The most bytes that plans may use.
    #[getter]
    fn budget(&self) -> Option<usize> {
        self.budget
    }

    /// Pictures `[n, height, width, 3]` of a latent, and how they came about.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        vae: &Vae,
        samples: &Bound<'py, PyAny>,
        args: DecodeArgs,
        callbacks: Callbacks<'py>,
    ) -> PyResult<(Array, Bound<'py, PyDict>)> {
        let (samples, options) = (latent(samples)?, args.options()?);
        let (images, decoded) = job::run(py, &callbacks.listener(), |control| {
            nino_engine::decode_images(&self.store, &vae.0, &samples, &options, control)
        })?;
        let report = PyDict::new(py);
        report.set_item("strategy", decoded.plan.strategy.name())?;
        report.set_item("precision", decoded.plan.dtype.to_string())?;
        report.set_item("planned_bytes", decoded.plan.peak_bytes())?;
        report.set_item("peak_bytes", decoded.measured_peak)?;
        report.set_item("host_bytes", decoded.plan.host_bytes())?;
        report.set_item("tiles", decoded.plan.n_tiles)?;
        report.set_item("retries", decoded.retries)?;
        report.set_item("recoveries", decoded.recoveries)?;
        report.set_item("load_seconds", decoded.load_time.as_secs_f64())?;
        report.set_item("seconds", decoded.decode_time.as_secs_f64())?;
        Ok((stacked(images), report))
    }

    /// The latent of pictures `[n, height, width, 3]`, and how it came about; a clip where the VAE
    /// is one for clips.
    fn encode<'py>(
        &self,
        py: Python<'py>,
        vae: &Vae,
        images: &Bound<'py, PyAny>,
        args: EncodeArgs,
        callbacks: Callbacks<'py>,
    ) -> PyResult<(Array, Bound<'py, PyDict>)> {
        let input = Input::of(images)?;
        let &[n, height, width, 3] = &input.shape[..] else {
            return Err(value(
                "pictures have the dimensions number, height, width and 3",
            ));
        };
        let (values, options) = (input.floats()?, args.options()?);
        let each = height * width * 3;
        let frame = |i: usize| values[i * each..(i + 1) * each].to_vec();
        let clip = vae.0.kind.time_scale().is_some();
        let encoded = job::run(py, &callbacks.listener(), |control| {
            if clip {
                let frames = FloatFrames {
                    width,
                    height,
                    n_frames: n,
                    frame: &frame,
                };
                let made =
                    nino_engine::encode_clip(&self.store, &vae.0, &frames, &options, control)?;
                return Ok(vec![made]);
            }
            let picture = |i: usize| Image {
                width,
                height,
                values: frame(i),
            };
            (0..n)
                .map(|i| {
                    nino_engine::encode_image(&self.store, &vae.0, &picture(i), &options, control)
                })
                .collect()
        })?;
        let Some(first) = encoded.first() else {
            return Err(value("there is no picture to encode"));
        };
        let report = PyDict::new(py);
        let peak = encoded.iter().map(|e| e.measured_peak).max();
        let seconds: f64 = encoded.iter().map(|e| e.encode_time.as_secs_f64()).sum();
        report.set_item("strategy", first.strategy.name())?;
        report.set_item("precision", first.dtype.to_string())?;
        report.set_item("planned_bytes", first.predicted_peak)?;
        report.set_item("peak_bytes", peak.unwrap_or(0))?;
        report.set_item("load_seconds", first.load_time.as_secs_f64())?;
        report.set_item("seconds", seconds)?;
        let mut shape = first.latent.file_shape();
        shape[0] = encoded.len();
        let planes = encoded.iter().flat_map(|e| e.latent.planes()).collect();
        Ok((Array::new(planes, &shape), report))
    }

    /// Encoded prompts in ComfyUI's syntax.
    fn encode_text<'py>(
        &self,
        py: Python<'py>,
        text: &Text,
        prompts: Vec<String>,
        embeddings: Vec<PathBuf>,
        callbacks: Callbacks<'py>,
    ) -> PyResult<Vec<PyConditioning>> {
        let prompts: Vec<&str> = prompts.iter().map(String::as_str).collect();
        let encoded = job::run(py, &callbacks.listener(), |control| {
            nino_engine::encode_texts(&self.store, &text.0, &prompts, &embeddings, control)
        })?;
        Ok(encoded.into_iter().map(PyConditioning).collect())
    }

    /// The sampled latent, the last prediction, and how they came about.
    fn sample<'py>(
        &self,
        py: Python<'py>,
        model: &Diffusion,
        args: SampleArgs<'py>,
        callbacks: Callbacks<'py>,
    ) -> PyResult<(Array, Array, Bound<'py, PyDict>)> {
        let request = args.request()?;
        self.store.reset_peak();
        let sampled = job::run(py, &callbacks.listener(), |control| {
            request.run(&self.store, &model.0, control)
        })?;
        let report = PyDict::new(py);
        report.set_item("peak_bytes", self.store.usage().peak_bytes)?;
        report.set_item("load_seconds", sampled.load_time.as_secs_f64())?;
        report.set_item("seconds", sampled.sample_time.as_secs_f64())?;
        let shape = sampled.latent.file_shape();
        let array = |latent: &nino_engine::Latent| Array::new(latent.planes(), &shape);
        Ok((array(&sampled.latent), array(&sampled.denoised), report))
    }

    /// The noise levels of a schedule.
    fn sigmas(
        &self,
        model: &Diffusion,
        sampler: &str,
        scheduler: &str,
        steps: usize,
        denoise: f64,
    ) -> PyResult<Vec<f32>> {
        sample::sigmas(&model.0, sampler, scheduler, steps, denoise)
    }

    /// What a decode of latents of this size would take: frames, height and width.
    fn plan_decode<'py>(
        &self,
        py: Python<'py>,
        vae: &Vae,
        size: (usize, usize, usize),
        args: DecodeArgs,
    ) -> PyResult<Bound<'py, PyDict>> {
        let size = LatentSize {
            frames: size.0,
            height: size.1,
            width: size.2,
        };
        let options = args.options()?;
        let plan = py.detach(|| nino_engine::plan_decode(&self.store, &vae.0, size, &options));
        let plan = plan.map_err(raise)?;
        let report = PyDict::new(py);
        report.set_item("strategy", plan.strategy.name())?;
        report.set_item("precision", plan.dtype.to_string())?;
        report.set_item("peak_bytes", plan.peak_bytes())?;
        report.set_item("weight_bytes", plan.weight_bytes())?;
        report.set_item("host_bytes", plan.host_bytes())?;
        report.set_item("tiles", plan.n_tiles)?;
        report.set_item("peak_op", plan.peak_op())?;
        Ok(report)
    }

    /// What a picture would take; `model` is a file, or a known description's name.
    fn plan_generate<'py>(
        &self,
        py: Python<'py>,
        model: PathBuf,
        size: Option<(usize, usize)>,
        batch: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let plan = py.detach(|| {
            let model = match model.to_str().filter(|_| !model.exists()) {
                Some(name) => Checkpoint::spec(name)?,
                None => Checkpoint::open(&model, None)?,
            };
            let usual = GenerateRequest::new(&model, "");
            let (width, height) = size.unwrap_or((usual.width, usual.height));
            let request = GenerateRequest {
                width,
                height,
                batch,
                ..usual
            };
            nino_engine::plan_generate(&self.store, &model, &request)
        });
        let plan = plan.map_err(raise)?;
        let report = PyDict::new(py);
        report.set_item("peak_bytes", plan.peak_bytes())?;
        report.set_item("weight_bytes", plan.weight_bytes())?;
        report.set_item("streamed_bytes", plan.streamed_bytes())?;
        let stages = plan
            .stages
            .iter()
            .map(|s| (s.stage.name(), s.residency.name()));
        report.set_item("stages", stages.collect::<Vec<_>>())?;
        Ok(report)
    }

    /// What is on the device now, in bytes, and how often weights were loaded.
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let usage = self.store.usage();
        let report = PyDict::new(py);
        report.set_item("weight_bytes", usage.weight_bytes)?;
        report.set_item("arena_bytes", usage.arena_bytes)?;
        report.set_item("busy_bytes", usage.busy_bytes)?;
        report.set_item("peak_bytes", usage.peak_bytes)?;
        report.set_item("loads", usage.loads)?;
        Ok(report)
    }

    /// Counts the peak anew.
    fn reset_peak(&self) {
        self.store.reset_peak();
    }

    /// Gives back everything that no call is using.
    fn clear(&self, py: Python<'_>) {
        py.detach(|| self.store.clear());
    }
}

/// Every device of this machine, the CPU first.
#[pyfunction]
pub(crate) fn devices(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let found = py.detach(device::list);
    let described = found.into_iter().map(|info| {
        let device = PyDict::new(py);
        device.set_item("name", info.name.to_string())?;
        device.set_item("model", info.model)?;
        let tiers = info.tiers.iter().map(ToString::to_string);
        device.set_item("tiers", tiers.collect::<Vec<String>>())?;
        device.set_item("is_software", info.is_software)?;
        device.set_item("budget", info.budget.map(|budget| budget.bytes))?;
        Ok(device)
    });
    described.collect()
}

/// Pictures of one size as one array, without a copy where there is one picture.
fn stacked(mut images: Vec<Image>) -> Array {
    let (height, width) = images.first().map_or((0, 0), |i| (i.height, i.width));
    let shape = [images.len(), height, width, 3];
    let values = if images.len() == 1 {
        images.remove(0).values
    } else {
        let mut values = Vec::with_capacity(shape.iter().product());
        images
            .drain(..)
            .for_each(|image| values.extend(image.values));
        values
    };
    Array::new(values, &shape)
}
