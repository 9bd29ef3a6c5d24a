//! Families of diffusion models: what each wants of its text encoders and its latents. One row per
//! family.

use crate::clip;
use crate::denoiser::Denoiser;
use crate::latent::LatentFormat;

/// Models that are prompted and sampled alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    Sd1,
    Sd2,
    Sdxl,
    SdxlRefiner,
    /// The model in the box.
    Emoji,
}

/// The facts of one family.
#[derive(Clone, Copy, Debug)]
struct Facts {
    name: &'static str,
    latent: &'static str,
    /// Widths of its text encoders, the narrow one first; empty where the model brings its own.
    encoders: &'static [usize],
    /// Pixels of both sides that it was trained on, mostly.
    size: usize,
    /// Layer of the text encoders that conditions it, counted from the last, which is 1.
    layer: usize,
    /// Whether that layer goes through the encoder's last norm.
    norm: bool,
    label: Label,
}

/// What the label vector is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Label {
    /// There is none.
    None,
    /// Pooled text, then original size, crop and target size.
    Sizes,
    /// Pooled text, then original size, crop and an aesthetic score.
    Score,
}

const SD1: Facts = Facts {
    name: "SD 1.x",
    latent: "sd15",
    encoders: &[768],
    size: 512,
    layer: 1,
    norm: true,
    label: Label::None,
};
const SD2: Facts = Facts {
    name: "SD 2.x",
    encoders: &[1024],
    layer: 2,
    ..SD1
};
const SDXL: Facts = Facts {
    name: "SDXL",
    latent: "sdxl",
    encoders: &[768, 1280],
    size: 1024,
    layer: 2,
    norm: false,
    label: Label::Sizes,
};
const SDXL_REFINER: Facts = Facts {
    name: "the SDXL refiner",
    encoders: &[1280],
    label: Label::Score,
    ..SDXL
};
const EMOJI: Facts = Facts {
    name: "nino-emoji",
    latent: "nino",
    encoders: &[],
    size: 256,
    ..SD1
};

impl Family {
    pub const ALL: [Family; 5] = [
        Family::Sd1,
        Family::Sd2,
        Family::Sdxl,
        Family::SdxlRefiner,
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
            _ => None,
        }
    }

    /// The family whose models take text encoders of these widths.
    pub fn of_encoders(widths: &[usize]) -> Option<Family> {
        let found = Family::ALL.into_iter().find(|f| f.encoders() == widths);
        found.filter(|_| !widths.is_empty())
    }

    fn facts(self) -> &'static Facts {
        match self {
            Family::Sd1 => &SD1,
            Family::Sd2 => &SD2,
            Family::Sdxl => &SDXL,
            Family::SdxlRefiner => &SDXL_REFINER,
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

    /// Widths of its text encoders, the narrow one first; empty where the model brings its own.
    pub fn encoders(self) -> &'static [usize] {
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

    /// Which hidden states of a text encoder condition it. `skip` counts layers from the last,
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
            pooled: facts.label != Label::None,
        }
    }
}

#[cfg(test)]
mod tests;
