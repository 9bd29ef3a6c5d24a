//! The settings that a model was made for: what a user who says nothing gets.

use super::diffusion::{Beside, DiffusionModel};
use super::few_steps;
use nino_models::{Family, Guidance};
use nino_sample::Prediction;

/// Settings a user who says nothing gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defaults {
    pub steps: usize,
    pub cfg: f32,
    pub sampler: &'static str,
    pub scheduler: &'static str,
    /// Pixels of both sides.
    pub size: usize,
    /// What a Flux is told of the guidance; its own when `None`.
    pub guidance: Option<f32>,
}

impl DiffusionModel {
    /// The settings it was made for.
    pub fn defaults(&self) -> Defaults {
        let base = Defaults {
            steps: 20,
            cfg: 7.0,
            sampler: "euler",
            scheduler: "normal",
            size: 512,
            guidance: None,
        };
        let base = match self.names().find_map(few_steps::defaults) {
            _ if self.takes_guidance() => few_steps::GUIDED,
            _ if self.sampling.prediction == Prediction::Edm => Defaults {
                steps: 25,
                cfg: 3.0,
                sampler: "dpmpp_2m",
                scheduler: "karras",
                ..base
            },
            few => few.unwrap_or(base),
        };
        match self.family {
            Family::Sd2 if self.sampling.prediction == Prediction::V => {
                Defaults { size: 768, ..base }
            }
            // SDXL Turbo was distilled at 512.
            Family::Sdxl if base.sampler == few_steps::TURBO.sampler => base,
            Family::Flux => self.flux_defaults(),
            Family::Chroma => Defaults {
                steps: 26,
                cfg: 3.5,
                sampler: "euler",
                scheduler: "beta",
                size: self.family.size(),
                guidance: None,
            },
            Family::Wan | Family::Wan5B => Defaults {
                steps: 20,
                cfg: 5.0,
                sampler: "uni_pc",
                scheduler: "simple",
                size: self.family.size(),
                guidance: None,
            },
            Family::ZImage => self.z_image_defaults(),
            Family::Klein => self.klein_defaults(),
            Family::Flux2 => Defaults {
                steps: 20,
                cfg: 1.0,
                sampler: "euler",
                scheduler: "simple",
                size: self.family.size(),
                guidance: Some(4.0),
            },
            Family::QwenImage => self.qwen_defaults(),
            Family::Krea2 => self.krea2_defaults(),
            Family::Anima => self.anima_defaults(),
            Family::Emoji => Defaults {
                cfg: 4.0,
                scheduler: "simple",
                size: self.family.size(),
                ..base
            },
            family => Defaults {
                size: family.size(),
                ..base
            },
        }
    }

    /// Turbo was distilled to a few steps without guidance.
    fn z_image_defaults(&self) -> Defaults {
        let turbo = self.name.to_lowercase().contains("turbo");
        Defaults {
            steps: if turbo { 8 } else { 25 },
            cfg: if turbo { 1.0 } else { 4.0 },
            sampler: "res_multistep",
            scheduler: "simple",
            size: self.family.size(),
            guidance: None,
        }
    }

    /// The base models are guided; the others were distilled to a few steps.
    fn klein_defaults(&self) -> Defaults {
        let base = self.name.to_lowercase().contains("base");
        Defaults {
            steps: if base { 20 } else { 4 },
            cfg: if base { 5.0 } else { 1.0 },
            sampler: "euler",
            scheduler: "simple",
            size: self.family.size(),
            guidance: None,
        }
    }

    /// Whether the name of the model, or that of one of its LoRAs, says that it was distilled.
    fn is_turbo(&self) -> bool {
        self.names().any(|n| n.to_lowercase().contains("turbo"))
    }

    /// Turbo was distilled to a few steps without guidance; the other one is called raw.
    fn krea2_defaults(&self) -> Defaults {
        let turbo = self.is_turbo();
        Defaults {
            steps: if turbo { 8 } else { 52 },
            cfg: if turbo { 1.0 } else { 3.5 },
            ..self.qwen_defaults()
        }
    }

    /// Turbo was distilled to a few steps without guidance.
    fn anima_defaults(&self) -> Defaults {
        let turbo = self.is_turbo();
        Defaults {
            steps: if turbo { 8 } else { 30 },
            cfg: if turbo { 1.0 } else { 4.0 },
            sampler: "er_sde",
            scheduler: "simple",
            size: self.family.size(),
            guidance: None,
        }
    }

    /// LoRAs of 4 and 8 steps are common, and go without guidance.
    fn qwen_defaults(&self) -> Defaults {
        let named = |word: &str| self.names().any(|n| n.to_lowercase().contains(word));
        let few = [("4step", 4), ("4-step", 4), ("8step", 8), ("8-step", 8)];
        let few = few.into_iter().find(|(word, _)| named(word));
        Defaults {
            steps: few.map_or(20, |(_, steps)| steps),
            cfg: if few.is_some() { 1.0 } else { 2.5 },
            sampler: "euler",
            scheduler: "simple",
            size: self.family.size(),
            guidance: None,
        }
    }

    /// Flux that is not told the guidance was distilled to a few steps; one that sees a picture is
    /// guided strongly.
    fn flux_defaults(&self) -> Defaults {
        let sees = self.beside() != Beside::Nothing;
        let strong = if self.name.to_lowercase().contains("depth") {
            10.0
        } else {
            30.0
        };
        Defaults {
            steps: match self.net.wants().guidance {
                Guidance::None => 4,
                Guidance::Cfg(_) | Guidance::Distilled(_) => 20,
            },
            cfg: 1.0,
            sampler: "euler",
            scheduler: if sees { "normal" } else { "simple" },
            size: self.family.size(),
            guidance: sees.then_some(strong),
        }
    }
}
