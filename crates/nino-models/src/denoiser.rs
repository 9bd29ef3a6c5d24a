//! One face for every diffusion model: what a file holds, what it takes beside the latent, and its
//! graph.
//!
//! A new model is a file of its own, a variant here, a row in [`Family`](crate::Family) and a
//! golden; `docs/adding-a-model.md` walks through it.

use crate::control::Controlled;
use crate::flux::Places;
use crate::{Find, anima, flux, flux2, krea2, qwen_image, unet, wan_transformer, z_image};
use std::ops::Range;

mod record;

pub(crate) use record::scaled;
pub use record::{CONTROL, DenoiserGraph};

/// A diffusion model by its architecture, with the sizes its tensors tell.
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

/// What a graph of a denoiser is recorded for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct DenoiserShape {
    /// Latents of one run.
    pub rows: usize,
    /// Latent frames: 1 for pictures.
    pub frames: usize,
    pub height: usize,
    pub width: usize,
    /// Tokens of the prompt.
    pub tokens: usize,
    /// Words in T5's vocabulary that ask for the prompt; only of models that take them
    /// ([`Denoiser::takes_queries`]).
    pub queries: usize,
    /// Rows and columns of the latents to look at beside the one that is denoised; only of models
    /// that take them ([`Denoiser::takes_references`]).
    pub references: Vec<[usize; 2]>,
    /// What becomes of them between runs; only of models that can keep them
    /// ([`Denoiser::kept_blocks`]).
    pub kept: Kept,
    /// `ControlNet`s that steer it.
    pub steering: Vec<Controlled>,
    /// Tokens of CLIP's view of pictures; only of models that look at it ([`Wants::image`]).
    pub image_tokens: usize,
    /// Clips to follow; only of models that follow some ([`Wants::control`]).
    pub controls: usize,
    /// Stretches of the prompt's tokens that attention is told to heed more or less, in the order
    /// they were added to it; only of models that can be told ([`Denoiser::takes_bias`]).
    pub biased: Vec<Range<usize>>,
    /// Whether a model that takes guidance as a number is told none.
    pub unguided: bool,
    /// Tokens of pictures' styles before those of the prompt; only of models that take them
    /// ([`Denoiser::style_width`]).
    pub style: usize,
    /// Where the latents to look at are; where the model has them of itself when `None`.
    pub places: Option<Places>,
    /// Whether it is told a camera's path; only of models that take one ([`Wants::camera`]).
    pub camera: bool,
    /// Blocks that are left out; only of models that can do without
    /// ([`Denoiser::skippable_blocks`]).
    pub skipped: Vec<usize>,
}

/// Whether keys and values of latents to look at stay from one run to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kept {
    /// No: they are made anew in every run.
    #[default]
    No,
    /// This run gives them. The latents are told that they have no noise.
    Made,
    /// This run is given them, and the latents are not looked at again.
    Given,
}

/// What a denoiser's inputs are, beside the noisy latent and the timestep.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Wants {
    /// Channels of the latent.
    pub channels: usize,
    /// Whether latents have frames: clips, or pictures as clips of one frame.
    pub frames: bool,
    /// Width of the encoded prompt.
    pub context: usize,
    /// Length of the label vector, such as SDXL's pooled text and sizes.
    pub label: Option<usize>,
    /// What it is told of the guidance.
    pub guidance: Guidance,
    /// Channels that stand beside the latent's: a mask and a picture to paint over, or a picture to
    /// edit.
    pub extra: usize,
    /// Whether every frame has a timestep of its own.
    pub frame_times: bool,
    /// Width of the tokens of CLIP's view of a picture, which it may be shown.
    pub image: Option<usize>,
    /// Channels of clips to follow (VACE); it needs at least one.
    pub control: Option<usize>,
    /// Channels that say how a camera sees the pixels under a latent pixel, which it may be told.
    pub camera: Option<usize>,
}

impl Wants {
    /// Of a model of pictures that takes nothing but a prompt.
    fn plain(channels: usize, context: usize) -> Wants {
        Wants {
            channels,
            frames: false,
            context,
            label: None,
            guidance: Guidance::None,
            extra: 0,
            frame_times: false,
            image: None,
            control: None,
            camera: None,
        }
    }
}

/// How a model takes guidance as an input.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Guidance {
    /// Not at all: it is guided by a negative prompt, or not guided.
    None,
    /// The sampler's guidance, embedded in so many values: it is told that instead of being guided
    /// by a negative prompt.
    Cfg(usize),
    /// A number of the prompt's own, beside the sampler's guidance; this one where a prompt has
    /// none.
    Number(f32),
}

impl Denoiser {
    /// What the tensors of a file make up; `None` when it is no known diffusion model.
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

    pub fn wants(&self) -> Wants {
        match self {
            Denoiser::Unet(c) => Wants {
                channels: c.out_channels,
                frames: false,
                context: c.context_dim,
                label: c.label(),
                guidance: c.guidance.map_or(Guidance::None, Guidance::Cfg),
                extra: c.in_channels.saturating_sub(c.out_channels),
                frame_times: false,
                image: None,
                control: None,
                camera: None,
            },
            Denoiser::Flux(c) => Wants {
                channels: c.out_channels,
                frames: false,
                context: c.context_dim,
                label: c.vec_in(),
                guidance: match c.modulation {
                    flux::Modulation::PerBlock { guidance: true, .. } => Guidance::Number(3.5),
                    flux::Modulation::PerBlock { .. } => Guidance::None,
                    flux::Modulation::Approximated { .. } => Guidance::Number(0.0),
                },
                extra: c.in_channels.saturating_sub(c.out_channels),
                frame_times: false,
                image: None,
                control: None,
                camera: None,
            },
            Denoiser::Flux2(c) => Wants {
                guidance: if c.guidance {
                    Guidance::Number(3.5)
                } else {
                    Guidance::None
                },
                ..Wants::plain(c.channels, c.context_dim)
            },
            Denoiser::Anima(c) => Wants::plain(c.channels, c.context_dim),
            Denoiser::Krea2(c) => Wants::plain(c.channels, c.txt_layers * c.txt_dim),
            Denoiser::QwenImage(c) => Wants::plain(c.channels, c.context_dim),
            Denoiser::Wan(c) => Wants {
                channels: c.out_channels,
                frames: true,
                context: c.context_dim,
                label: None,
                guidance: Guidance::None,
                extra: c.in_channels.saturating_sub(c.out_channels),
                frame_times: c.has_frame_times(),
                image: c.image.map(|i| i.width),
                control: c.vace.map(|v| v.in_channels),
                camera: c.camera,
            },
            Denoiser::ZImage(c) => Wants::plain(c.channels, c.cap_dim),
        }
    }

    /// What the guidance input is given, for one row: for a sampler's guidance of `cfg` and a
    /// prompt's own of `number`.
    pub fn guidance_values(&self, cfg: f32, number: Option<f32>) -> Vec<f32> {
        match self.wants().guidance {
            Guidance::None => Vec::new(),
            Guidance::Cfg(n) => guidance_embedding(cfg, n),
            Guidance::Number(usual) => vec![number.unwrap_or(usual)],
        }
    }

    /// Whether it can look at other latents beside the one that it denoises, as Flux Kontext was
    /// trained to, Flux.2 and Qwen-Image-Edit. Wan looks at the last one, a frame of the clip's
    /// size.
    pub fn takes_references(&self) -> bool {
        match self {
            Denoiser::Anima(_) | Denoiser::Unet(_) | Denoiser::ZImage(_) => false,
            Denoiser::Flux2(_) | Denoiser::Krea2(_) | Denoiser::QwenImage(_) => true,
            Denoiser::Flux(c) => c.vec_in().is_some() && c.in_channels == c.out_channels,
            Denoiser::Wan(c) => c.reference.is_some(),
        }
    }

    /// Whether latents to look at can be had there. Krea 2 has them in pictures of their own,
    /// whatever it is told.
    pub fn takes_places(&self, places: Places) -> bool {
        match self {
            Denoiser::Flux(_) => places != Places::Clean,
            Denoiser::Flux2(_) => places == Places::Index,
            Denoiser::QwenImage(_) => matches!(places, Places::Index | Places::Clean),
            Denoiser::Anima(_)
            | Denoiser::Unet(_)
            | Denoiser::Krea2(_)
            | Denoiser::Wan(_)
            | Denoiser::ZImage(_) => true,
        }
    }

    /// Whether it can do without the guidance that it takes as a number.
    pub fn goes_unguided(&self) -> bool {
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

    /// Width of the tokens of pictures' styles that it takes before those of a prompt (USO); `None`
    /// where it takes none.
    pub fn style_width(&self) -> Option<usize> {
        match self {
            Denoiser::Flux(c) => c.vec_in().map(|_| c.hidden),
            _ => None,
        }
    }

    /// Blocks whose keys and values of latents to look at can stay between runs; 0 where none can.
    pub fn kept_blocks(&self) -> usize {
        match self {
            Denoiser::Flux2(c) => c.depth + c.depth_single,
            _ => 0,
        }
    }

    /// Width of those keys and of those values.
    pub fn kept_width(&self) -> usize {
        match self {
            Denoiser::Flux2(c) => c.hidden,
            _ => 0,
        }
    }

    /// Whether attention can be told to heed some of the prompt's tokens more or less.
    pub fn takes_bias(&self) -> bool {
        matches!(self, Denoiser::Flux(_))
    }

    /// Whether every token of a prompt counts for itself. Where it does not, as with UNets, a
    /// prompt repeated to a longer one's length stays the same.
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

    /// Blocks that can be left out one by one; 0 where there is no such choice.
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

    /// Whether it asks for the context with words in T5's vocabulary.
    pub fn takes_queries(&self) -> bool {
        matches!(self, Denoiser::Anima(_))
    }
}

/// Sines and cosines of the guidance, in f32 as the models were trained with: angles are thousands,
/// so rounding shows.
fn guidance_embedding(cfg: f32, size: usize) -> Vec<f32> {
    let half = size / 2;
    let fall = -(10_000f64.ln() / (half as f64 - 1.0)) as f32;
    let angle = |i: usize| f64::from((cfg - 1.0) * 1000.0 * (i as f32 * fall).exp());
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
