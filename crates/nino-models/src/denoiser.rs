//! The common interface of all diffusion models: detection, the inputs they take besides the
//! latent, and their graph.
//!
//! A new model is a file of its own, a variant here, a row in [`Family`](crate::Family) and a
//! golden; `docs/adding-a-model.md` walks through it.

use crate::control::ControlSpec;
use crate::flux::ReferenceMethod;
use crate::{Find, anima, flux, flux2, krea2, qwen_image, unet, wan_transformer, z_image};
use std::ops::Range;

mod record;

pub(crate) use record::scaled;
pub use record::{CONTROL, DenoiserGraph};

/// A diffusion model by its architecture, with its hyperparameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Denoiser {
    Anima(anima::Config),
    Unet(unet::Config),
    Flux(flux::Config),
    Flux2(flux2::Config),
    Krea2(krea2::Config),
    QwenImage(qwen_image::Config),
    Wan(wan_transformer::Config),
    ZImage(z_image::Config),
}

/// The inputs that a graph of a denoiser is recorded for. Optional inputs are only for models that
/// take them; each field names the method or the field of [`Wants`] that says so.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct DenoiserShape {
    /// Batch size.
    pub rows: usize,
    /// Latent frames: 1 for images.
    pub frames: usize,
    pub height: usize,
    pub width: usize,
    /// Tokens of the text embeddings.
    pub tokens: usize,
    /// T5 tokens of the prompt ([`Denoiser::takes_t5_tokens`]).
    pub t5_tokens: usize,
    /// Rows and columns of the reference latents ([`Denoiser::takes_references`]).
    pub references: Vec<[usize; 2]>,
    /// KV cache of the reference tokens ([`Denoiser::kv_cache_blocks`]).
    pub kv_cache: KvCache,
    /// `ControlNet`s and T2I adapters.
    pub control_nets: Vec<ControlSpec>,
    /// Tokens of the CLIP vision hidden states ([`Wants::image`]).
    pub image_tokens: usize,
    /// Number of VACE control videos ([`Wants::control`]).
    pub controls: usize,
    /// Spans of text tokens with an attention bias, in order ([`Denoiser::takes_bias`]).
    pub biased_spans: Vec<Range<usize>>,
    /// Whether a model with a guidance embedding runs without it
    /// ([`Denoiser::guidance_is_optional`]).
    pub disable_guidance: bool,
    /// Number of style tokens before the text tokens ([`Denoiser::style_width`]).
    pub style_tokens: usize,
    /// How reference tokens are positioned; `None` for the model's default.
    pub reference_method: Option<ReferenceMethod>,
    /// Whether there are camera embeddings ([`Wants::camera`]).
    pub camera: bool,
    /// Which inputs of a sound-to-video model there are ([`Wants::audio`]).
    pub sound: SoundShape,
    /// Blocks to skip, for skip-layer guidance ([`Denoiser::skippable_blocks`]). Of a UNet, any
    /// block stands for the self-attention of the middle one, which gives its values as they are.
    pub skipped: Vec<usize>,
    /// Of a UNet, activations that are made smaller in this run.
    pub shrinks: Vec<unet::Shrink>,
    /// Whether a UNet says how much its places are looked at.
    pub watched: bool,
}

/// The inputs of a sound-to-video model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SoundShape {
    /// Frames of the audio's features; 0 where there is no audio.
    pub audio_frames: usize,
    /// Whether there is a latent of a control video.
    pub control: bool,
    /// Whether there are latent frames before the video.
    pub motion: bool,
}

/// How a run uses the KV cache of the reference tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KvCache {
    /// It does not: keys and values are computed in every run.
    #[default]
    Off,
    /// It computes keys and values, with the reference tokens at timestep 0, and outputs them.
    Write,
    /// It takes keys and values as inputs, and no reference latents.
    Read,
}

/// The inputs of a denoiser besides the noisy latent and the timestep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wants {
    /// Channels of the latent.
    pub channels: usize,
    /// Whether latents have a frame axis: video models, also for images of one frame.
    pub frames: bool,
    /// Width of the text embeddings.
    pub context: usize,
    /// Width of the vector conditioning, such as SDXL's pooled text and sizes.
    pub y: Option<usize>,
    /// The guidance input.
    pub guidance: Guidance,
    /// Channels concatenated to the latent: a mask and a masked image for inpainting, or an image
    /// to edit.
    pub extra: usize,
    /// Whether every latent frame has its own timestep.
    pub frame_times: bool,
    /// Width of the CLIP vision hidden states, an optional input.
    pub image: Option<usize>,
    /// Channels of VACE control videos, of which at least one is required.
    pub control: Option<usize>,
    /// Channels of the camera embeddings, an optional input.
    pub camera: Option<usize>,
    /// The features of audio (Wan 2.2 S2V), an optional input, as the others of [`SoundShape`].
    pub audio: Option<wan_transformer::Audio>,
}

impl Wants {
    /// An image model whose only conditioning is text.
    fn text_only(channels: usize, context: usize) -> Wants {
        Wants {
            channels,
            frames: false,
            context,
            y: None,
            guidance: Guidance::None,
            extra: 0,
            frame_times: false,
            image: None,
            control: None,
            camera: None,
            audio: None,
        }
    }
}

/// The guidance input of a model.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Guidance {
    /// None: classifier-free guidance with a negative prompt, or no guidance.
    None,
    /// The embedded guidance scale of the sampler, of this width, instead of classifier-free
    /// guidance (LCM).
    Cfg(usize),
    /// A distilled guidance of the conditioning, independent of the sampler's scale (Flux). The
    /// value is the default.
    Distilled(f32),
}

impl Denoiser {
    /// Reads architecture and sizes from tensor shapes; `None` when this is no known diffusion
    /// model.
    pub fn detect(find: &Find) -> Option<Denoiser> {
        let unet = unet::Config::detect(find).map(Denoiser::Unet);
        unet.or_else(|| flux::Config::detect(find).map(Denoiser::Flux))
            .or_else(|| flux2::Config::detect(find).map(Denoiser::Flux2))
            .or_else(|| wan_transformer::Config::detect(find).map(Denoiser::Wan))
            .or_else(|| z_image::Config::detect(find).map(Denoiser::ZImage))
            .or_else(|| qwen_image::Config::detect(find).map(Denoiser::QwenImage))
            .or_else(|| krea2::Config::detect(find).map(Denoiser::Krea2))
            .or_else(|| anima::Config::detect(find).map(Denoiser::Anima))
    }

    /// The inputs it takes.
    pub fn wants(&self) -> Wants {
        match self {
            Denoiser::Unet(c) => Wants {
                channels: c.out_channels,
                frames: false,
                context: c.context_dim,
                y: c.y_dim(),
                guidance: c.guidance.map_or(Guidance::None, Guidance::Cfg),
                extra: c.in_channels.saturating_sub(c.out_channels),
                frame_times: false,
                image: None,
                control: None,
                camera: None,
                audio: None,
            },
            Denoiser::Flux(c) => Wants {
                channels: c.out_channels,
                frames: false,
                context: c.context_dim,
                y: c.vec_in(),
                guidance: match c.modulation {
                    flux::Modulation::PerBlock { guidance: true, .. } => Guidance::Distilled(3.5),
                    flux::Modulation::PerBlock { .. } => Guidance::None,
                    flux::Modulation::Approximated { .. } => Guidance::Distilled(0.0),
                },
                extra: c.in_channels.saturating_sub(c.out_channels),
                frame_times: false,
                image: None,
                control: None,
                camera: None,
                audio: None,
            },
            Denoiser::Flux2(c) => Wants {
                guidance: if c.guidance {
                    Guidance::Distilled(3.5)
                } else {
                    Guidance::None
                },
                ..Wants::text_only(c.channels, c.context_dim)
            },
            Denoiser::Anima(c) => Wants::text_only(c.channels, c.context_dim),
            Denoiser::Krea2(c) => Wants::text_only(c.channels, c.txt_layers * c.txt_dim),
            Denoiser::QwenImage(c) => Wants::text_only(c.channels, c.context_dim),
            Denoiser::Wan(c) => Wants {
                channels: c.out_channels,
                frames: true,
                context: c.context_dim,
                y: None,
                guidance: Guidance::None,
                extra: c.in_channels.saturating_sub(c.out_channels),
                frame_times: c.has_frame_timesteps(),
                image: c.image.map(|i| i.width),
                control: c.vace.map(|v| v.in_channels),
                camera: c.camera,
                audio: c.audio,
            },
            Denoiser::ZImage(c) => Wants::text_only(c.channels, c.cap_dim),
        }
    }

    /// The value of the guidance input for one row, from the sampler's scale `cfg` and the
    /// conditioning's `distilled` guidance.
    pub fn guidance_values(&self, cfg: f32, distilled: Option<f32>) -> Vec<f32> {
        match self.wants().guidance {
            Guidance::None => Vec::new(),
            Guidance::Cfg(n) => guidance_embedding(cfg, n),
            Guidance::Distilled(default) => vec![distilled.unwrap_or(default)],
        }
    }

    /// Whether it takes reference latents, as Flux Kontext, Flux.2 and Qwen-Image-Edit. Wan uses
    /// only the last one, which has the size of the video's frames.
    pub fn takes_references(&self) -> bool {
        match self {
            Denoiser::Anima(_) | Denoiser::Unet(_) | Denoiser::ZImage(_) => false,
            Denoiser::Flux2(_) | Denoiser::Krea2(_) | Denoiser::QwenImage(_) => true,
            Denoiser::Flux(c) => c.vec_in().is_some() && c.in_channels == c.out_channels,
            Denoiser::Wan(c) => c.reference.is_some() || c.audio.is_some(),
        }
    }

    /// Whether it supports a reference method. Krea 2 accepts all, and uses the positions of
    /// [`ReferenceMethod::Index`] for each.
    pub fn supports_reference_method(&self, method: ReferenceMethod) -> bool {
        use ReferenceMethod as M;
        match self {
            Denoiser::Flux(_) => method != M::IndexTimestepZero,
            Denoiser::Flux2(_) => method == M::Index,
            Denoiser::QwenImage(_) => matches!(method, M::Index | M::IndexTimestepZero),
            Denoiser::Anima(_)
            | Denoiser::Unet(_)
            | Denoiser::Krea2(_)
            | Denoiser::Wan(_)
            | Denoiser::ZImage(_) => true,
        }
    }

    /// Whether it can run without its guidance embedding.
    pub fn guidance_is_optional(&self) -> bool {
        match self {
            Denoiser::Flux(c) => c.vec_in().is_some(),
            Denoiser::Flux2(_) => true,
            Denoiser::Anima(_)
            | Denoiser::Unet(_)
            | Denoiser::Krea2(_)
            | Denoiser::QwenImage(_)
            | Denoiser::Wan(_)
            | Denoiser::ZImage(_) => false,
        }
    }

    /// Width of the style tokens that it takes before the text tokens (USO); `None` where it takes
    /// none.
    pub fn style_width(&self) -> Option<usize> {
        match self {
            Denoiser::Flux(c) => c.vec_in().map(|_| c.hidden),
            _ => None,
        }
    }

    /// Number of blocks with a KV cache of reference tokens; 0 where it is not supported.
    pub fn kv_cache_blocks(&self) -> usize {
        match self {
            Denoiser::Flux2(c) => c.depth + c.depth_single,
            _ => 0,
        }
    }

    /// Width of the cached keys, and of the cached values.
    pub fn kv_cache_width(&self) -> usize {
        match self {
            Denoiser::Flux2(c) => c.hidden,
            _ => 0,
        }
    }

    /// Whether it supports an attention bias of spans of text tokens.
    pub fn takes_bias(&self) -> bool {
        matches!(self, Denoiser::Flux(_))
    }

    /// Whether repeating the text embeddings changes the result. UNets only have cross-attention to
    /// the text, so a prompt can be repeated to the length of a longer one.
    pub fn counts_tokens(&self) -> bool {
        match self {
            Denoiser::Unet(_) => false,
            Denoiser::Anima(_)
            | Denoiser::Flux(_)
            | Denoiser::Flux2(_)
            | Denoiser::Krea2(_)
            | Denoiser::QwenImage(_)
            | Denoiser::Wan(_)
            | Denoiser::ZImage(_) => true,
        }
    }

    /// Number of blocks that can be skipped individually; 0 where it is not supported.
    pub fn skippable_blocks(&self) -> usize {
        match self {
            Denoiser::Wan(c) => c.n_layers,
            Denoiser::Anima(_)
            | Denoiser::Unet(_)
            | Denoiser::Flux(_)
            | Denoiser::Flux2(_)
            | Denoiser::Krea2(_)
            | Denoiser::QwenImage(_)
            | Denoiser::ZImage(_) => 0,
        }
    }

    /// Whether it takes the T5 tokens of the prompt besides the text embeddings.
    pub fn takes_t5_tokens(&self) -> bool {
        matches!(self, Denoiser::Anima(_))
    }
}

/// Sinusoidal embedding of the guidance scale: sines, then cosines. Computed in f32 as in training:
/// angles reach thousands, so rounding matters.
fn guidance_embedding(cfg: f32, size: usize) -> Vec<f32> {
    let half = size / 2;
    let log_step = -(10_000f64.ln() / (half as f64 - 1.0)) as f32;
    let angle = |i: usize| f64::from((cfg - 1.0) * 1000.0 * (i as f32 * log_step).exp());
    let sines = (0..half).map(|i| angle(i).sin() as f32);
    let cosines = (0..half).map(|i| angle(i).cos() as f32);
    let mut out: Vec<f32> = sines.chain(cosines).collect();
    out.resize(size, 0.0);
    out
}

#[cfg(test)]
mod tests {
    use super::guidance_embedding;

    #[test]
    fn guidance_is_embedded_as_diffusers_does() {
        let found = guidance_embedding(8.5, 256);
        let some: Vec<f32> = [0, 1, 40, 127, 128, 150, 255].map(|i| found[i]).to_vec();
        let wanted = [
            -0.85124, 0.84213, -0.68636, 0.68164, -0.52478, 0.86048, 0.73169,
        ];
        for (f, w) in some.iter().zip(wanted) {
            assert!((f - w).abs() < 2e-3, "{some:?}");
        }
    }
}
