//! What to make: the whole of it, so that a request can be kept, repeated and written into a file.

use crate::decode::{DecodeOptions, LatentSize, Precision};
use crate::sample::LatentShape;
use crate::{
    Checkpoint, DiffusionModel, EngineError, Hint, Latent, Mask, Picture, Preview, SizeHint, Style,
    Upscale,
};
use nino_models::Denoiser;
use nino_sample::ksampler::Window;
use nino_sample::model::flux2_mu;
use nino_sample::{ModelSampling, Options, Rng, Sampler, Scheduler, Seed};
use std::path::PathBuf;
use std::sync::Arc;

/// A picture to be made. [`GenerateRequest::new`] has the model's own settings; change what
/// differs.
#[derive(Clone, Debug)]
pub struct GenerateRequest {
    pub prompt: String,
    pub negative: String,
    pub seed: Seed,
    pub steps: usize,
    pub cfg: f32,
    pub sampler: &'static Sampler,
    /// What the sampler can be told beside its name.
    pub options: Options,
    pub scheduler: Scheduler,
    /// Share of the noise levels to run, from the lower end: 1 for a new picture.
    pub denoise: f64,
    /// Only these steps of them, as KSamplerAdvanced.
    pub window: Option<Window>,
    /// Off when the latent to start from has its noise already.
    pub add_noise: bool,
    /// Pixels, multiples of 8.
    pub width: usize,
    pub height: usize,
    /// Pictures at a time, from one stream of noise.
    pub batch: usize,
    pub start: Start,
    /// Pictures to look at, for models that edit (Flux.2, Flux.1 Kontext): sides as those of the
    /// picture are multiples of.
    pub references: Vec<Picture>,
    pub inpaint: Option<Inpaint>,
    pub hires: Option<Hires>,
    pub preview: Option<Preview>,
    /// How the diffusion model's activations are stored.
    pub precision: Precision,
    /// Layer of the text encoders to stop at, counted from the last, which is 1; the family's own
    /// when `None`. What ComfyUI's `CLIPSetLastLayer` counts as -1, -2, …
    pub clip_skip: Option<usize>,
    /// Folders with textual inversions, for `embedding:name` in a prompt.
    pub embeddings: Vec<PathBuf>,
    /// Zeros in the place of the encoded negative prompt, as ComfyUI's `ConditioningZeroOut` makes
    /// them.
    pub zero_negative: bool,
    /// What SDXL is told of the picture's size.
    pub size_hint: SizeHint,
    /// What Flux is told of the guidance, beside `cfg`; its own when `None`.
    pub guidance: Option<f32>,
    /// Pictures that steer both prompts through `ControlNet`s.
    pub hints: Vec<Arc<Hint>>,
    /// Pictures whose style the prompt is given, one after the other.
    pub styles: Vec<Arc<Style>>,
    pub decode: DecodeOptions,
}

/// What noise is laid over.
#[derive(Clone, Debug, PartialEq)]
pub enum Start {
    /// Nothing: text to image.
    Empty,
    /// A picture of the request's size.
    Picture(Picture),
    /// A latent of the request's size, in the VAE's units.
    Latent(Latent),
}

/// Paint only where a mask says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Inpaint {
    /// The mask, of the request's size.
    pub mask: Mask,
    pub fill: Fill,
    /// Pixels to grow the mask by, so that borders are repainted too.
    pub grow: usize,
    /// Pixels over which its border is softened.
    pub feather: usize,
    /// Put the start picture's own pixels back outside the mask.
    pub paste: bool,
}

/// What lies under the mask when sampling starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fill {
    /// The picture: ComfyUI's VAEEncode and SetLatentNoiseMask.
    #[default]
    Keep,
    /// Gray: its VAEEncodeForInpaint.
    Gray,
}

/// A second pass over the enlarged latent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hires {
    /// Pixels, multiples of 8.
    pub width: usize,
    pub height: usize,
    pub method: Upscale,
    pub steps: usize,
    pub denoise: f64,
}

/// One run of the sampler.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pass {
    pub(super) index: usize,
    pub(super) shape: LatentShape,
    pub(super) steps: usize,
    pub(super) denoise: f64,
    pub(super) window: Option<Window>,
    pub(super) add_noise: bool,
    /// How the latent of the pass before gets its size.
    pub(super) method: Upscale,
}

impl GenerateRequest {
    /// A request with the model's defaults and seed 0.
    pub fn new(model: &Checkpoint, prompt: &str) -> GenerateRequest {
        let defaults = model.defaults();
        GenerateRequest {
            prompt: prompt.to_owned(),
            negative: String::new(),
            seed: Seed {
                value: 0,
                rng: Rng::Torch,
            },
            steps: defaults.steps,
            cfg: defaults.cfg,
            sampler: Sampler::find(defaults.sampler).expect("defaults name samplers that exist"),
            scheduler: Scheduler::find(defaults.scheduler)
                .expect("defaults name schedulers that exist"),
            options: Options::default(),
            denoise: 1.0,
            window: None,
            add_noise: true,
            width: defaults.size,
            height: defaults.size,
            batch: 1,
            start: Start::Empty,
            references: Vec::new(),
            inpaint: None,
            hires: None,
            preview: None,
            precision: Precision::Auto,
            clip_skip: None,
            embeddings: Vec::new(),
            zero_negative: false,
            size_hint: SizeHint::default(),
            guidance: defaults.guidance,
            hints: Vec::new(),
            styles: Vec::new(),
            decode: DecodeOptions::default(),
        }
    }

    /// Pixels of the finished pictures.
    pub fn final_size(&self) -> (usize, usize) {
        self.hires
            .map_or((self.width, self.height), |h| (h.width, h.height))
    }

    /// The latents the first pass samples.
    pub(super) fn latent_shape(&self, model: &Checkpoint) -> LatentShape {
        self.shape_of(model, self.width, self.height)
    }

    fn shape_of(&self, model: &Checkpoint, width: usize, height: usize) -> LatentShape {
        let scale = model.scale();
        LatentShape {
            batch: self.batch,
            frames: 1,
            height: height / scale,
            width: width / scale,
            channels: model.diffusion.net().wants().channels,
            is_video: false,
        }
    }

    /// The diffusion model with the noise levels of this request. Only Flux.2's depend on the size
    /// and the steps.
    pub(super) fn levels(&self, model: &Checkpoint) -> DiffusionModel {
        match self.flux2_mu(model) {
            Some(mu) => model.diffusion.with_sampling(ModelSampling::flux(mu)),
            None => model.diffusion.clone(),
        }
    }

    /// The shift of Flux.2's noise levels; `None` of other models.
    pub fn flux2_mu(&self, model: &Checkpoint) -> Option<f64> {
        let shape = self.latent_shape(model);
        let is_flux2 = matches!(model.diffusion.net(), Denoiser::Flux2(_));
        is_flux2.then(|| flux2_mu(shape.height * shape.width, self.steps))
    }

    /// The runs of the sampler, in order.
    pub(super) fn passes(&self, model: &Checkpoint) -> Vec<Pass> {
        let first = Pass {
            index: 0,
            shape: self.latent_shape(model),
            steps: self.steps,
            denoise: self.denoise,
            window: self.window,
            add_noise: self.add_noise,
            method: Upscale::default(),
        };
        let second = self.hires.map(|h| Pass {
            index: 1,
            shape: self.shape_of(model, h.width, h.height),
            steps: h.steps,
            denoise: h.denoise,
            window: None,
            add_noise: true,
            method: h.method,
        });
        std::iter::once(first).chain(second).collect()
    }

    /// What cannot be meant, before anything is loaded.
    pub(super) fn check(&self, model: &Checkpoint) -> Result<(), EngineError> {
        let scale = model.scale();
        if !self.references.is_empty() && !model.diffusion.net().takes_references() {
            return Err(EngineError::NoReferences {
                model: model.name().to_owned(),
                given: self.references.len(),
            });
        }
        let sizes = [(self.width, self.height), self.final_size()];
        let looked_at = self.references.iter().map(|p| (p.width, p.height));
        let sizes = sizes.into_iter().chain(looked_at);
        for (what, pixels) in sizes.flat_map(|s| [("width", s.0), ("height", s.1)]) {
            if pixels == 0 || !pixels.is_multiple_of(scale) {
                return Err(EngineError::Vae(nino_models::VaeError::Size {
                    what,
                    found: pixels,
                    multiple: scale,
                }));
            }
        }
        let fits = |what: &'static str, width: usize, height: usize| {
            if (width, height) == (self.width, self.height) {
                return Ok(());
            }
            Err(EngineError::StartSize {
                what,
                found: (width, height),
                wanted: (self.width, self.height),
            })
        };
        match &self.start {
            Start::Empty if self.inpaint.is_some() => return Err(EngineError::MaskAlone),
            Start::Empty => {}
            Start::Picture(p) => fits("image", p.width, p.height)?,
            Start::Latent(l) => {
                fits("latent", l.width * scale, l.height * scale)?;
                let expected = model.diffusion.net().wants().channels;
                if l.channels != expected {
                    return Err(EngineError::Channels {
                        expected,
                        found: l.channels,
                    });
                }
                if l.batch != 1 && l.batch != self.batch {
                    return Err(EngineError::LatentBatch {
                        found: l.batch,
                        wanted: self.batch,
                    });
                }
            }
        }
        if let Some(inpaint) = &self.inpaint {
            fits("mask", inpaint.mask.width, inpaint.mask.height)?;
        }
        if model.diffusion.edits() && self.inpaint.is_some() {
            return Err(EngineError::EditMask {
                model: model.name().to_owned(),
            });
        }
        model.diffusion.check_inputs()
    }

    /// Bytes of host memory that are held from the first stage to the last: what the request starts
    /// from, and its mask as given and as grown.
    pub(super) fn held_bytes(&self) -> usize {
        let start = match &self.start {
            Start::Empty => 0,
            Start::Picture(p) => p.rgb.len(),
            Start::Latent(l) => size_of_val(&l.values[..]),
        };
        let mask = self.inpaint.as_ref();
        let mask = mask.map_or(0, |i| size_of_val(&i.mask.values[..]));
        // The picture to paste back and its mask are made before sampling.
        let pasted = match &self.inpaint {
            Some(i) if i.paste => {
                let (width, height) = self.final_size();
                width * height * (3 + size_of::<f32>())
            }
            _ => 0,
        };
        let references: usize = self.references.iter().map(|p| p.rgb.len()).sum();
        let styles = self.styles.iter().map(|s| size_of_val(&s.image.values[..]));
        start + references + 2 * mask + pasted + styles.sum::<usize>()
    }

    /// The same while pictures are decoded, with those of the batch that are done.
    pub(super) fn beside_decode(&self) -> usize {
        let (width, height) = self.final_size();
        self.batch.saturating_sub(1) * width * height * 3 + self.held_bytes()
    }

    /// The latent to be decoded.
    pub(super) fn latent_size(&self, model: &Checkpoint) -> LatentSize {
        let scale = model.vae.kind.scale();
        let (width, height) = self.final_size();
        LatentSize {
            frames: 1,
            height: height / scale,
            width: width / scale,
        }
    }
}
