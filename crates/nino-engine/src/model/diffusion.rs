//! A diffusion model out of a file: its network, how it is sampled, and its LoRAs. ComfyUI's MODEL.

use super::control_net::{ControlNetFile, Hint, Steering};
use super::few_steps;
use super::identity::{NetId, Origin, Part};
use super::levels;
use super::lora::{Loras, Source};
use super::perpendicular::EmptyPrompt;
use super::skip::SkipLayers;
use super::step_cache::StepReuse;
use super::unet::Shrinks;
use crate::decode::Precision;
use crate::{Conditioning, EngineError, StyleTokens};
use nino_dtype::DType;
use nino_graph::Device;
use nino_models::latent::LatentFormat;
use nino_models::wan_transformer::RopeScale;
use nino_models::{Denoiser, Family, FileParams, Guidance, VectorCond};
use nino_sample::{Blend, Correction, ModelSampling, Prediction};
use nino_weights::lora::LoraPart;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// A diffusion model. [`DiffusionModel::open`](crate::DiffusionModel::open) reads one from a file.
#[derive(Clone)]
pub struct DiffusionModel {
    /// Name for messages: the file's, or the description's.
    pub name: String,
    pub family: Family,
    /// How the network's output becomes a prediction, and over which noise levels.
    pub sampling: ModelSampling,
    /// How the two prompts' predictions become one. ComfyUI's `RescaleCFG`.
    pub blend: Blend,
    /// What is done to that one, in this order. ComfyUI's `CFGZeroStar` and `CFGNorm`.
    pub corrections: Vec<Correction>,
    pub(super) skip: Option<SkipLayers>,
    pub(super) reuse: Option<StepReuse>,
    pub(super) shrinks: Shrinks,
    /// A prompt that takes part in the guidance.
    pub(super) empty: Option<Arc<EmptyPrompt>>,
    /// What is grey in a mask is painted later; see `SamplerOptions::gradual`.
    pub gradual_mask: Option<f32>,
    pub(super) net: Denoiser,
    pub(super) weights: FileParams,
    pub(super) loras: Arc<Loras>,
    pub(super) origin: Origin,
    pub(super) quantize: Option<DType>,
    pub(super) latent: Option<&'static LatentFormat>,
    /// `ControlNet`s of the run that it is for.
    pub(super) steering: Steering,
    /// Pictures that steer every prompt.
    pub(super) hints: Vec<Arc<Hint>>,
    /// Whether latents to look at are looked at once, and told that they have no noise.
    pub(super) keep_references: bool,
    /// Styles that stand before every prompt.
    pub(super) styles: Vec<Arc<StyleTokens>>,
}

/// Channels of a mask of frames: those under one latent frame.
const FRAME_MASK: usize = 4;

/// How a network follows a clip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Follows {
    /// By blocks of its own, which see what to keep and what to change.
    Vace,
    /// As channels beside those of the frames that are given, and with their mask.
    Frames { masked: bool },
}

/// What a network takes beside the latent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Beside {
    Nothing,
    /// A picture: to be changed as the prompt says (instruct-pix2pix), or that says where what is
    /// (Flux Canny and Depth).
    Picture,
    /// A mask, then the picture without what is masked (SD inpaint models).
    Masked,
    /// The picture without what is masked, then the mask of every pixel (Flux Fill).
    MaskedPixels,
    /// Frames of a clip and a mask of which are given (Wan).
    Frames,
    /// So many channels of a kind not known here.
    Unknown(usize),
}

/// Pixels under one pixel of the latent: channels of a mask of every pixel.
const PIXELS: usize = 64;

impl DiffusionModel {
    /// The same model with plain weights held as `dtype`, converted while they are loaded.
    #[must_use]
    pub fn quantized(&self, dtype: DType) -> DiffusionModel {
        let mut model = self.clone();
        model.weights.quantize(dtype);
        model.quantize = Some(dtype);
        model
    }

    /// The same model sampled as one that predicts this; `zsnr` ends the levels in pure noise.
    #[must_use]
    pub fn with_prediction(&self, prediction: Prediction, zsnr: bool) -> DiffusionModel {
        DiffusionModel {
            sampling: levels::sampling(prediction, zsnr),
            ..self.clone()
        }
    }

    /// The same model, which looks at other latents in the first step only, as ones without noise,
    /// and keeps what it saw. ComfyUI's `FluxKVCache`.
    pub fn with_kept_references(&self) -> Result<DiffusionModel, EngineError> {
        if self.net.kv_cache_blocks() == 0 {
            return Err(EngineError::KeptReferences {
                model: self.name.clone(),
            });
        }
        Ok(DiffusionModel {
            keep_references: true,
            ..self.clone()
        })
    }

    pub(crate) fn keeps_references(&self) -> bool {
        self.keep_references
    }

    /// The same model that is told other places of frames, rows and columns: multiplied by `scale`,
    /// then moved by `shift`. Models that count no places so stay as they are. ComfyUI's
    /// `ScaleROPE`.
    pub fn with_stretched_places(
        &self,
        scale: [f32; 3],
        shift: [f32; 3],
    ) -> Result<DiffusionModel, EngineError> {
        let mut model = self.clone();
        match &mut model.net {
            Denoiser::Wan(config) => config.rope_scale = Some(RopeScale::new(scale, shift)),
            Denoiser::Flux(_) | Denoiser::Flux2(_) | Denoiser::ZImage(_) => {
                return Err(EngineError::NoStretch {
                    model: self.name.clone(),
                });
            }
            Denoiser::Anima(_)
            | Denoiser::Krea2(_)
            | Denoiser::QwenImage(_)
            | Denoiser::Unet(_) => {}
        }
        Ok(model)
    }

    /// Whether a model that edits was trained to look at several pictures, spoken of by number. The
    /// first Qwen-Image-Edit was not.
    pub fn numbers_pictures(&self) -> bool {
        let name = self.name.to_lowercase();
        !name.contains("edit") || ["2509", "2511", "plus"].iter().any(|w| name.contains(w))
    }

    /// Whether it was distilled to a few steps.
    pub fn wants_few_steps(&self) -> bool {
        self.takes_guidance() || self.names().any(|name| few_steps::defaults(name).is_some())
    }

    /// Whether the network takes the sampler's guidance as an input, instead of being run for a
    /// negative prompt too.
    pub fn takes_guidance(&self) -> bool {
        matches!(self.net.wants().guidance, Guidance::Cfg(_))
    }

    /// The model's name and its LoRAs'.
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.loras.names())
    }

    /// Bits that a weight has on average, as it is held.
    pub fn bits_per_weight(&self) -> f64 {
        let entries = self.weights.index().entries().iter();
        let bits =
            entries.map(|e| self.weights.dtype(&e.name).bits_per_value() * e.n_values() as f64);
        bits.sum::<f64>() / self.weights.index().n_params().max(1) as f64
    }

    /// Whether it is told a guidance of the prompt's own, beside the sampler's (Flux).
    pub fn takes_own_guidance(&self) -> bool {
        matches!(self.net.wants().guidance, Guidance::Distilled(_))
    }

    /// The same model sampled over other noise levels, as ComfyUI's `ModelSamplingFlux` and
    /// `ModelSamplingAuraFlow` set them.
    #[must_use]
    pub fn with_sampling(&self, sampling: ModelSampling) -> DiffusionModel {
        DiffusionModel {
            sampling,
            ..self.clone()
        }
    }

    /// The same model, whose guided predictions are corrected in one more way.
    #[must_use]
    pub fn with_correction(&self, correction: Correction) -> DiffusionModel {
        let mut model = self.clone();
        model.corrections.push(correction);
        model
    }

    /// Whether the network takes a mask and the picture under it.
    pub fn paints_over(&self) -> bool {
        matches!(self.beside(), Beside::Masked | Beside::MaskedPixels)
    }

    /// Whether the network takes a whole picture: instruct-pix2pix, Flux Canny and Depth.
    pub fn edits(&self) -> bool {
        self.beside() == Beside::Picture
    }

    /// Whether it makes clips out of pictures: it sees the frames that are given.
    pub fn sees_frames(&self) -> bool {
        self.beside() == Beside::Frames
    }

    /// How the network follows a clip; `None` where it does not.
    pub fn follows(&self) -> Option<Follows> {
        let wants = self.net.wants();
        let mask = wants.extra.checked_sub(2 * wants.channels);
        match (&self.net, mask) {
            _ if wants.control.is_some() => Some(Follows::Vace),
            (Denoiser::Wan(_), Some(0)) => Some(Follows::Frames { masked: false }),
            (Denoiser::Wan(_), Some(FRAME_MASK)) => Some(Follows::Frames { masked: true }),
            _ => None,
        }
    }

    /// What the network takes beside the latent, by the number of channels.
    pub(super) fn beside(&self) -> Beside {
        let wants = self.net.wants();
        match wants.extra {
            0 => Beside::Nothing,
            _ if matches!(self.net, Denoiser::Wan(_)) => Beside::Frames,
            n if n == wants.channels => Beside::Picture,
            n if n == wants.channels + 1 => Beside::Masked,
            n if n == wants.channels + PIXELS => Beside::MaskedPixels,
            n => Beside::Unknown(n),
        }
    }

    /// An error when it takes inputs that nothing here can give.
    pub(crate) fn check_inputs(&self) -> Result<(), EngineError> {
        match self.beside() {
            Beside::Unknown(more) => Err(EngineError::InputChannels {
                model: self.name.clone(),
                kind: match more {
                    1 => "a depth-to-image model",
                    3 => "an upscaler",
                    _ => "of an unknown kind",
                },
                more,
            }),
            _ => Ok(()),
        }
    }

    /// The latent space it works in.
    pub fn latent_format(&self) -> Option<&'static LatentFormat> {
        self.latent
    }

    /// A prompt of zeros of the sizes that the model takes, to time steps with.
    pub fn blank_prompt(&self) -> Conditioning {
        const TOKENS: usize = 77;
        let wants = self.net.wants();
        let sizes = match self.family.vector_cond() {
            VectorCond::None | VectorCond::Pooled => 0,
            VectorCond::Sizes => 6,
            VectorCond::Score => 5,
        };
        // Each size is told as 256 values.
        let pooled = wants.y.unwrap_or(0).saturating_sub(256 * sizes);
        Conditioning {
            context: Arc::new(vec![0.0; TOKENS * wants.context]),
            width: wants.context,
            pooled: vec![0.0; pooled],
            ..Conditioning::default()
        }
    }

    /// The network.
    pub fn net(&self) -> &Denoiser {
        &self.net
    }

    /// The file it was opened from.
    pub(crate) fn origin_path(&self) -> Option<&Path> {
        self.origin.path()
    }

    /// Whether it is what its file has: no LoRA, no quantization, nothing that steers it.
    pub(crate) fn is_as_opened(&self) -> bool {
        let id = self.id();
        let bare = self.hints.is_empty() && self.styles.is_empty() && !self.keep_references;
        let bare = bare && self.freeu().is_empty() && self.hypertile().is_none();
        let bare = bare && self.shrinks.is_empty() && self.reuse.is_none();
        bare && id.loras.is_empty() && id.quantize.is_none() && id.controls.is_empty()
    }

    /// What its weights are kept by.
    pub(crate) fn id(&self) -> NetId {
        let nets = self.steering.nets().iter();
        NetId {
            origin: self.origin.clone(),
            part: Part::Diffusion,
            loras: self.loras.ids(LoraPart::Diffusion),
            quantize: self.quantize,
            controls: nets.map(ControlNetFile::id).collect(),
        }
    }

    /// The files of its weights.
    pub(crate) fn paths(&self) -> Vec<&Path> {
        self.origin.paths().collect()
    }

    /// The same model beside the networks that steer the prompts of a run.
    pub(crate) fn steered(&self, steering: Steering) -> DiffusionModel {
        DiffusionModel {
            steering,
            ..self.clone()
        }
    }

    /// The same model, every prompt of which is steered by a picture. ComfyUI's
    /// `ZImageFunControlnet`.
    #[must_use]
    pub fn with_hint(&self, hint: Arc<Hint>) -> DiffusionModel {
        let mut model = self.clone();
        model.hints.push(hint);
        model
    }

    /// The same model, before every prompt of which a picture's style stands. ComfyUI's
    /// `USOStyleReference`.
    pub fn with_style(&self, style: Arc<StyleTokens>) -> Result<DiffusionModel, EngineError> {
        let expected = self.net.style_width().unwrap_or(0);
        if style.width != expected {
            return Err(EngineError::StyleStates {
                expected,
                found: style.width,
            });
        }
        let mut model = self.clone();
        // The last one stands first.
        model.styles.insert(0, style);
        Ok(model)
    }

    /// Tokens of all its styles.
    pub(crate) fn style_tokens(&self) -> usize {
        let each = self.styles.iter();
        each.map(|s| s.values.len() / s.width.max(1)).sum()
    }

    /// The values of all its styles, one after the other.
    pub(crate) fn style_values(&self) -> Vec<f32> {
        self.styles
            .iter()
            .flat_map(|s| s.values.iter().copied())
            .collect()
    }

    /// The pictures that steer every prompt.
    pub(crate) fn hints(&self) -> &[Arc<Hint>] {
        &self.hints
    }

    pub(crate) fn steering(&self) -> &Steering {
        &self.steering
    }

    /// How weights stored as `stored` are held on a device: as they are, but a model too small for
    /// memory to matter is held in the type that is fastest and loses nothing there.
    pub(crate) fn held(&self, stored: DType, device: &dyn Device) -> DType {
        held(self.family, stored, device)
    }

    /// What a plan for `spec` is kept by: with what no weight of the model says.
    pub(crate) fn plan_key(&self, spec: &impl fmt::Debug) -> String {
        let clean = matches!(&self.net, Denoiser::QwenImage(c) if c.index_timestep_zero);
        let stretch = match &self.net {
            Denoiser::Wan(config) => config.rope_scale,
            _ => None,
        };
        let unet = (self.freeu(), self.hypertile());
        format!("{spec:?}, clean references: {clean}, stretched by {stretch:?}, {unet:?}")
    }

    /// The type that its activations are stored in. Those of Qwen-Image exceed f16. A CPU that
    /// multiplies bf16 faster does so where that was measured to make no difference.
    pub(crate) fn dtype(&self, precision: Precision, device: &dyn Device) -> DType {
        match (&self.net, precision, precision.dtype(device)) {
            (Denoiser::QwenImage(_), Precision::Auto, DType::F16) => DType::BF16,
            (_, Precision::Auto, DType::F32) if self.is_close_in_bf16() => {
                device.faster_dtype().unwrap_or(DType::F32)
            }
            (_, _, dtype) => dtype,
        }
    }

    /// Whether latents after 20 steps in bf16 are within NMSE 1e-4 of those in f32. That was
    /// measured of SD 1.x in full width (`docs/performance.md`); of narrow networks it is not so,
    /// because their sums have few terms.
    fn is_close_in_bf16(&self) -> bool {
        let full = |unet: &nino_models::unet::Config| unet.model_channels >= 320;
        self.family == Family::Sd1 && matches!(&self.net, Denoiser::Unet(unet) if full(unet))
    }

    /// Its weights with the LoRAs applied.
    pub(crate) fn source(&self) -> Source {
        let nets = self.steering.nets().iter();
        Source {
            file: self.weights.clone(),
            part: LoraPart::Diffusion,
            loras: Arc::clone(&self.loras),
            controls: nets.map(ControlNetFile::source).collect(),
        }
    }
}

/// See [`DiffusionModel::held`].
pub(super) fn held(family: Family, stored: DType, device: &dyn Device) -> DType {
    match family {
        Family::Emoji => device.activation_dtype(),
        _ => stored,
    }
}
