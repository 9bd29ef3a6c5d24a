//! The sampling stage for Python: a request out of a dictionary.

use crate::array::Input;
use crate::conditioning::PyConditioning;
use crate::error::{raise, value};
use crate::options::{latent, mask, precision};
use nino_engine::{
    Conditioning, Control, DiffusionModel, EngineError, Latent, Mask, Name, Noise, Precision,
    Preview, Rng, SAMPLER_NAMES, SCHEDULER_NAMES, SampleRequest, Sampled, SamplerInfo,
    SamplerOptions, Scheduler, Seed, Store,
};
use pyo3::prelude::*;

/// A request of `sample` in which every key is present.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct SampleArgs<'py> {
    positive: Vec<PyRef<'py, PyConditioning>>,
    negative: Vec<PyRef<'py, PyConditioning>>,
    latent: Bound<'py, PyAny>,
    /// Values of deviation 1 and the latent's shape; drawn from the seed when `None`.
    noise: Option<Bound<'py, PyAny>>,
    add_noise: bool,
    mask: Option<Bound<'py, PyAny>>,
    sigmas: Vec<f32>,
    sampler: String,
    seed: u64,
    cfg: f32,
    precision: String,
    /// A preview every so many steps.
    preview_every: Option<usize>,
}

/// The same as values that may go to another thread.
pub(crate) struct Request {
    positive: Vec<Conditioning>,
    negative: Vec<Conditioning>,
    latent: Latent,
    noise: Given,
    mask: Option<Mask>,
    sigmas: Vec<f32>,
    sampler: &'static SamplerInfo,
    seed: u64,
    cfg: f32,
    precision: Precision,
    preview: Option<Preview>,
}

enum Given {
    Seeded,
    None,
    Values(Input),
}

impl SampleArgs<'_> {
    pub(crate) fn request(&self) -> PyResult<Request> {
        let prompts =
            |side: &[PyRef<'_, PyConditioning>]| side.iter().map(|c| c.0.clone()).collect();
        let noise = match &self.noise {
            _ if !self.add_noise => Given::None,
            Some(noise) => {
                let noise = Input::of(noise)?;
                noise.floats()?;
                Given::Values(noise)
            }
            None => Given::Seeded,
        };
        Ok(Request {
            positive: prompts(&self.positive),
            negative: prompts(&self.negative),
            latent: latent(&self.latent)?,
            noise,
            mask: self.mask.as_ref().map(mask).transpose()?,
            sigmas: self.sigmas.clone(),
            sampler: SamplerInfo::find(&self.sampler).map_err(raise)?,
            seed: self.seed,
            cfg: self.cfg,
            precision: precision(&self.precision)?,
            preview: self.preview_every.map(|every| Preview { every, vae: None }),
        })
    }
}

impl Request {
    pub(crate) fn run(
        &self,
        store: &Store,
        model: &DiffusionModel,
        control: &mut Control<'_>,
    ) -> Result<Sampled, EngineError> {
        let noise = match &self.noise {
            Given::Seeded => Noise::Seeded,
            Given::None => Noise::None,
            Given::Values(input) => Noise::Given(input.floats().unwrap_or(&[])),
        };
        let sampled = nino_engine::sample(
            store,
            model,
            &SampleRequest {
                positive: &self.positive,
                negative: &self.negative,
                third: None,
                latent: &self.latent,
                noise,
                mask: self.mask.as_ref(),
                frame_mask: &[],
                sigmas: &self.sigmas,
                sampler: self.sampler,
                options: &SamplerOptions::default(),
                seed: Seed {
                    value: self.seed,
                    rng: Rng::Torch,
                },
                cfg: self.cfg,
                precision: self.precision,
                preview: self.preview.as_ref(),
                beside: 0,
                memory: None,
            },
            control,
        );
        Ok(sampled?)
    }
}

/// The noise levels of a schedule, as ComfyUI's `KSampler` has them.
pub(crate) fn sigmas(
    model: &DiffusionModel,
    sampler: &str,
    scheduler: &str,
    steps: usize,
    denoise: f64,
) -> PyResult<Vec<f32>> {
    if steps == 0 {
        return Err(value("at least one step is needed"));
    }
    let sampler = SamplerInfo::find(sampler).map_err(raise)?;
    let scheduler = Scheduler::find(scheduler).map_err(raise)?;
    nino_engine::sigmas(model, sampler, scheduler, steps, denoise).map_err(raise)
}

/// The names of all samplers and of all schedulers.
#[pyfunction]
pub(crate) fn samplers() -> (Vec<&'static str>, Vec<&'static str>) {
    let names = |all: &'static [Name]| all.iter().map(|name| name.name).collect();
    (names(&SAMPLER_NAMES), names(&SCHEDULER_NAMES))
}
