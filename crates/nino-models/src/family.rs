//! Families of diffusion models: text encoders, conditioning and latent format. One row per family.

use crate::clip;
use crate::denoiser::Denoiser;
use crate::flux::Modulation;
use crate::latent::LatentFormat;
use crate::llm;

/// Models with the same conditioning and latent format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    Sd1,
    Sd2,
    Sdxl,
    SdxlRefiner,
    /// Flux.1, with or without a guidance embedding.
    Flux,
    Chroma,
    /// Flux.2 klein, 4B and 9B.
    Klein,
    /// Flux.2 dev.
    Flux2,
    /// Qwen-Image and Qwen-Image-Edit.
    QwenImage,
    /// Krea 2, Turbo and base.
    Krea2,
    Anima,
    /// Wan 2.1, and the two experts of 2.2.
    Wan,
    /// Wan 2.2 5B, which has a latent space of its own.
    Wan5B,
    /// Z-Image, Turbo and base.
    ZImage,
    /// nino-emoji, the built-in model.
    Emoji,
}

/// The facts of one family.
#[derive(Clone, Copy, Debug)]
struct Facts {
    name: &'static str,
    latent: &'static str,
    /// Its text encoders, in the order of the context; empty where the checkpoint has its own.
    encoders: &'static [Encoder],
    /// Pixels of both sides that it was mainly trained with.
    size: usize,
    /// Layer of the text encoders whose hidden states condition it, counted from the last, which
    /// is 1.
    layer: usize,
    /// Whether these hidden states go through the encoder's final norm.
    norm: bool,
    vector_cond: VectorCond,
}

/// A kind of text encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoder {
    /// CLIP, by its width.
    Clip(usize),
    /// T5, of the width of the model's context.
    T5,
    /// UMT5, the multilingual T5.
    Umt5,
    /// A language model; the model's context determines its width.
    Llm(llm::Kind),
}

/// The contents of the vector conditioning (`y`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VectorCond {
    /// There is none.
    None,
    /// The pooled text embedding before its projection.
    Pooled,
    /// The pooled text embedding, then original size, crop and target size.
    Sizes,
    /// The pooled text embedding, then original size, crop and an aesthetic score.
    Score,
}

const SD1: Facts = Facts {
    name: "SD 1.x",
    latent: "sd15",
    encoders: &[Encoder::Clip(768)],
    size: 512,
    layer: 1,
    norm: true,
    vector_cond: VectorCond::None,
};
const SD2: Facts = Facts {
    name: "SD 2.x",
    encoders: &[Encoder::Clip(1024)],
    layer: 2,
    ..SD1
};
const SDXL: Facts = Facts {
    name: "SDXL",
    latent: "sdxl",
    encoders: &[Encoder::Clip(768), Encoder::Clip(1280)],
    size: 1024,
    layer: 2,
    norm: false,
    vector_cond: VectorCond::Sizes,
};
const SDXL_REFINER: Facts = Facts {
    name: "the SDXL refiner",
    encoders: &[Encoder::Clip(1280)],
    vector_cond: VectorCond::Score,
    ..SDXL
};
const FLUX: Facts = Facts {
    name: "Flux.1",
    latent: "flux",
    encoders: &[Encoder::Clip(768), Encoder::T5],
    size: 1024,
    layer: 1,
    norm: true,
    vector_cond: VectorCond::Pooled,
};
const CHROMA: Facts = Facts {
    name: "Chroma",
    encoders: &[Encoder::T5],
    vector_cond: VectorCond::None,
    ..FLUX
};
const WAN: Facts = Facts {
    name: "Wan",
    latent: "wan21",
    encoders: &[Encoder::Umt5],
    size: 480,
    vector_cond: VectorCond::None,
    ..FLUX
};
const WAN_5B: Facts = Facts {
    name: "Wan 2.2 5B",
    latent: "wan22",
    size: 704,
    ..WAN
};
const Z_IMAGE: Facts = Facts {
    name: "Z-Image",
    encoders: &[Encoder::Llm(llm::Kind::Qwen3)],
    layer: 2,
    norm: false,
    vector_cond: VectorCond::None,
    ..FLUX
};
const KLEIN: Facts = Facts {
    name: "Flux.2 klein",
    latent: "flux2",
    ..Z_IMAGE
};
const FLUX2: Facts = Facts {
    name: "Flux.2",
    encoders: &[Encoder::Llm(llm::Kind::Mistral3)],
    ..KLEIN
};
const QWEN_IMAGE: Facts = Facts {
    name: "Qwen-Image",
    latent: "wan21",
    encoders: &[Encoder::Llm(llm::Kind::Qwen25Vl)],
    vector_cond: VectorCond::None,
    ..FLUX
};
const KREA2: Facts = Facts {
    name: "Krea 2",
    encoders: &[Encoder::Llm(llm::Kind::Qwen3Vl)],
    norm: false,
    ..QWEN_IMAGE
};
const ANIMA: Facts = Facts {
    name: "Anima",
    encoders: &[Encoder::Llm(llm::Kind::Qwen3)],
    ..QWEN_IMAGE
};
const EMOJI: Facts = Facts {
    name: "nino-emoji",
    latent: "nino",
    encoders: &[],
    size: 256,
    ..SD1
};

/// The layers of Qwen3 whose inputs condition Flux.2 klein.
const KLEIN_TAPS: [usize; 3] = [9, 18, 27];
/// The layers of Mistral whose inputs condition Flux.2 dev.
const FLUX2_TAPS: [usize; 3] = [10, 20, 30];
/// The layers of Qwen3-VL whose inputs condition Krea 2.
const KREA2_TAPS: [usize; 12] = [2, 5, 8, 11, 14, 17, 20, 23, 26, 29, 32, 35];

impl Family {
    pub const ALL: [Family; 15] = [
        Family::Sd1,
        Family::Sd2,
        Family::Sdxl,
        Family::SdxlRefiner,
        Family::Flux,
        Family::Chroma,
        Family::Wan,
        Family::Wan5B,
        Family::ZImage,
        Family::Klein,
        Family::Flux2,
        Family::QwenImage,
        Family::Krea2,
        Family::Anima,
        Family::Emoji,
    ];

    /// The family of a diffusion model; `own` marks the built-in model. `None` for sizes that no
    /// known family has.
    pub fn of(denoiser: &Denoiser, own: bool) -> Option<Family> {
        let wants = denoiser.wants();
        match (denoiser, wants.context, wants.y) {
            (Denoiser::Unet(_), ..) if own => Some(Family::Emoji),
            (Denoiser::Unet(_), 768, None) => Some(Family::Sd1),
            (Denoiser::Unet(_), 1024, None) => Some(Family::Sd2),
            (Denoiser::Unet(_), 2048, Some(2816)) => Some(Family::Sdxl),
            (Denoiser::Unet(_), 1280, Some(2560)) => Some(Family::SdxlRefiner),
            (Denoiser::Unet(_), ..) => None,
            (Denoiser::Flux(c), ..) => Some(match c.modulation {
                Modulation::PerBlock { .. } => Family::Flux,
                Modulation::Approximated { .. } => Family::Chroma,
            }),
            (Denoiser::Wan(c), ..) => match c.out_channels {
                16 => Some(Family::Wan),
                48 => Some(Family::Wan5B),
                _ => None,
            },
            (Denoiser::ZImage(_), ..) => Some(Family::ZImage),
            (Denoiser::Flux2(c), ..) => Some(if c.guidance {
                Family::Flux2
            } else {
                Family::Klein
            }),
            (Denoiser::QwenImage(_), ..) => Some(Family::QwenImage),
            (Denoiser::Krea2(_), ..) => Some(Family::Krea2),
            (Denoiser::Anima(_), ..) => Some(Family::Anima),
        }
    }

    /// The family whose models take these text encoders.
    pub fn of_encoders(encoders: &[Encoder]) -> Option<Family> {
        let found = Family::ALL.into_iter().find(|f| f.encoders() == encoders);
        found.filter(|_| !encoders.is_empty())
    }

    fn facts(self) -> &'static Facts {
        match self {
            Family::Sd1 => &SD1,
            Family::Sd2 => &SD2,
            Family::Sdxl => &SDXL,
            Family::SdxlRefiner => &SDXL_REFINER,
            Family::Flux => &FLUX,
            Family::Chroma => &CHROMA,
            Family::Wan => &WAN,
            Family::Wan5B => &WAN_5B,
            Family::ZImage => &Z_IMAGE,
            Family::Klein => &KLEIN,
            Family::Flux2 => &FLUX2,
            Family::QwenImage => &QWEN_IMAGE,
            Family::Krea2 => &KREA2,
            Family::Anima => &ANIMA,
            Family::Emoji => &EMOJI,
        }
    }

    /// Its name for users.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// The latent format of its models.
    pub fn latent_format(self) -> Option<&'static LatentFormat> {
        LatentFormat::by_name(self.facts().latent)
    }

    /// Its text encoders, in the order of the context; empty where the checkpoint has its own.
    pub fn encoders(self) -> &'static [Encoder] {
        self.facts().encoders
    }

    /// Pixels of both sides of an image of the usual size.
    pub fn size(self) -> usize {
        self.facts().size
    }

    /// The contents of its vector conditioning.
    pub fn vector_cond(self) -> VectorCond {
        self.facts().vector_cond
    }

    /// Which hidden states of a CLIP text encoder condition it. `skip` (clip skip) replaces the
    /// family's own layer; it counts from the last, which is 1. For an encoder with fewer layers it
    /// is ignored, as in ComfyUI.
    pub fn want(self, c: &clip::Config, skip: Option<usize>) -> clip::Want {
        let facts = self.facts();
        // Diffusers' files of SD 2.x's encoder do not have the last layer, which is unused.
        let missing = usize::from(self == Family::Sd2 && c.n_layers == 23);
        let skip = skip.filter(|&n| n <= c.n_layers + missing);
        let skip = skip.unwrap_or(facts.layer).saturating_sub(missing).max(1);
        clip::Want {
            skip,
            norm: facts.norm,
            pooled: match facts.vector_cond {
                VectorCond::None => clip::Pooled::No,
                VectorCond::Pooled => clip::Pooled::Plain,
                VectorCond::Sizes | VectorCond::Score => clip::Pooled::Projected,
            },
        }
    }

    /// The layers of a language model whose inputs, concatenated, condition this family. `skip`
    /// replaces the family's own layer; it counts from the last, which is 1.
    pub fn taps(self, c: &llm::Config, skip: Option<usize>) -> Vec<usize> {
        match self {
            Family::Klein => return KLEIN_TAPS.to_vec(),
            Family::Flux2 => return FLUX2_TAPS.to_vec(),
            Family::Krea2 => return KREA2_TAPS.to_vec(),
            _ => {}
        }
        let skip = skip.filter(|&n| n <= c.n_layers);
        vec![
            c.n_layers + 1
                - skip
                    .unwrap_or(self.facts().layer)
                    .clamp(1, c.n_layers.max(1)),
        ]
    }

    /// Whether the hidden states of a language model go through its final norm. With `skip` they do
    /// not.
    pub fn ends_in_norm(self, c: &llm::Config, skip: Option<usize>) -> bool {
        let skip = skip.filter(|&n| n <= c.n_layers);
        self.facts().norm && skip.is_none()
    }
}

#[cfg(test)]
mod tests;
