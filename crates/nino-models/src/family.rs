//! Families of diffusion models: what each wants of its text encoders and its latents. One row per
//! family.

use crate::clip;
use crate::denoiser::Denoiser;
use crate::flux::Modulation;
use crate::latent::LatentFormat;

/// Models that are prompted and sampled alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    Sd1,
    Sd2,
    Sdxl,
    SdxlRefiner,
    /// Flux.1, guided or not.
    Flux,
    Chroma,
    /// Wan 2.1, and the two experts of 2.2.
    Wan,
    /// Wan 2.2 5B, which has a latent space of its own.
    Wan5B,
    /// The model in the box.
    Emoji,
}

/// The facts of one family.
#[derive(Clone, Copy, Debug)]
struct Facts {
    name: &'static str,
    latent: &'static str,
    /// Its text encoders, in the order of the context; empty where the model brings its own.
    encoders: &'static [Encoder],
    /// Pixels of both sides that it was trained on, mostly.
    size: usize,
    /// Layer of the text encoders that conditions it, counted from the last, which is 1.
    layer: usize,
    /// Whether that layer goes through the encoder's last norm.
    norm: bool,
    label: Label,
}

/// A kind of text encoder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Encoder {
    /// CLIP, by its width.
    Clip(usize),
    /// T5, of the width that the model's context has.
    T5,
    /// Its multilingual kin.
    Umt5,
}

/// What the label vector is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// There is none.
    None,
    /// Pooled text and nothing else, before its projection.
    Pooled,
    /// Pooled text, then original size, crop and target size.
    Sizes,
    /// Pooled text, then original size, crop and an aesthetic score.
    Score,
}

const SD1: Facts = Facts {
    name: "SD 1.x",
    latent: "sd15",
    encoders: &[Encoder::Clip(768)],
    size: 512,
    layer: 1,
    norm: true,
    label: Label::None,
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
    label: Label::Sizes,
};
const SDXL_REFINER: Facts = Facts {
    name: "the SDXL refiner",
    encoders: &[Encoder::Clip(1280)],
    label: Label::Score,
    ..SDXL
};
const FLUX: Facts = Facts {
    name: "Flux.1",
    latent: "flux",
    encoders: &[Encoder::Clip(768), Encoder::T5],
    size: 1024,
    layer: 1,
    norm: true,
    label: Label::Pooled,
};
const CHROMA: Facts = Facts {
    name: "Chroma",
    encoders: &[Encoder::T5],
    label: Label::None,
    ..FLUX
};
const WAN: Facts = Facts {
    name: "Wan",
    latent: "wan21",
    encoders: &[Encoder::Umt5],
    size: 480,
    label: Label::None,
    ..FLUX
};
const WAN_5B: Facts = Facts {
    name: "Wan 2.2 5B",
    latent: "wan22",
    size: 704,
    ..WAN
};
const EMOJI: Facts = Facts {
    name: "nino-emoji",
    latent: "nino",
    encoders: &[],
    size: 256,
    ..SD1
};

impl Family {
    pub const ALL: [Family; 9] = [
        Family::Sd1,
        Family::Sd2,
        Family::Sdxl,
        Family::SdxlRefiner,
        Family::Flux,
        Family::Chroma,
        Family::Wan,
        Family::Wan5B,
        Family::Emoji,
    ];

    /// The family a diffusion model is of; `own` says that its file is one of ours. `None` for
    /// sizes that no known family has.
    pub fn of(denoiser: &Denoiser, own: bool) -> Option<Family> {
        let wants = denoiser.wants();
        match (denoiser, wants.context, wants.label) {
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
            Family::Emoji => &EMOJI,
        }
    }

    /// What people call it.
    pub fn name(self) -> &'static str {
        self.facts().name
    }

    /// The latent space its models work in.
    pub fn latent_format(self) -> Option<&'static LatentFormat> {
        LatentFormat::by_name(self.facts().latent)
    }

    /// Its text encoders, in the order of the context; empty where the model brings its own.
    pub fn encoders(self) -> &'static [Encoder] {
        self.facts().encoders
    }

    /// Pixels of both sides of a usual picture.
    pub fn size(self) -> usize {
        self.facts().size
    }

    /// What its label vector is made of.
    pub fn label(self) -> Label {
        self.facts().label
    }

    /// Which hidden states of a CLIP text encoder condition it. `skip` counts layers from the last,
    /// which is 1; an encoder with fewer layers keeps to the family's own, as ComfyUI's does.
    pub fn want(self, c: &clip::Config, skip: Option<usize>) -> clip::Want {
        let facts = self.facts();
        // Diffusers leaves out the last layer of SD 2.x's encoder, which nothing reads.
        let left_out = usize::from(self == Family::Sd2 && c.n_layers == 23);
        let skip = skip.filter(|&n| n <= c.n_layers + left_out);
        let skip = skip.unwrap_or(facts.layer).saturating_sub(left_out).max(1);
        clip::Want {
            skip,
            norm: facts.norm,
            pooled: match facts.label {
                Label::None => clip::Pooled::No,
                Label::Pooled => clip::Pooled::Plain,
                Label::Sizes | Label::Score => clip::Pooled::Projected,
            },
        }
    }
}

#[cfg(test)]
mod tests;
