//! Built-in descriptions of models, to plan with no file at hand.

use nino_models::describe::DescribeError;
use nino_models::{Denoiser, Family, FileParams, Network, clip, unet};
use nino_sample::Prediction;

/// Names that [`crate::Checkpoint::spec`] knows.
pub const MODEL_SPECS: [&str; 7] = [
    "sd15",
    "sd15-inpaint",
    "sd15-edit",
    "sd21",
    "sd21-768",
    "sdxl",
    "sdxl-turbo",
];

/// What a model is made of.
pub(super) struct Description {
    pub(super) family: Family,
    pub(super) prediction: Prediction,
    pub(super) unet: unet::Config,
    pub(super) text: Vec<clip::Config>,
    pub(super) vae: &'static str,
}

impl Description {
    pub(super) fn find(name: &str) -> Option<Description> {
        let sd15 = Description {
            family: Family::Sd1,
            prediction: Prediction::Eps,
            unet: unet::Config::sd15(),
            text: vec![clip::Config::clip_l()],
            vae: "sd-vae",
        };
        Some(match name {
            "sd15" => sd15,
            "sd15-inpaint" | "sd15-edit" => Description {
                unet: unet::Config::sd15().with_inputs(if name == "sd15-edit" { 8 } else { 9 }),
                ..sd15
            },
            "sd21" | "sd21-768" => Description {
                family: Family::Sd2,
                prediction: if name == "sd21" {
                    Prediction::Eps
                } else {
                    Prediction::V
                },
                unet: unet::Config::sd21(),
                text: vec![clip::Config::clip_h()],
                ..sd15
            },
            "sdxl" | "sdxl-turbo" => Description {
                family: Family::Sdxl,
                unet: unet::Config::sdxl(),
                text: vec![clip::Config::clip_l(), clip::Config::clip_g()],
                vae: "sdxl-vae",
                ..sd15
            },
            _ => return None,
        })
    }

    /// The UNet's weights without bytes.
    pub(super) fn unet_params(&self) -> Result<FileParams, DescribeError> {
        FileParams::described(&Network::Denoiser(Denoiser::Unet(self.unet.clone())))
    }

    /// The same of a text encoder.
    pub(super) fn text_params(config: &clip::Config) -> Result<FileParams, DescribeError> {
        FileParams::described(&Network::ClipText(config.clone()))
    }
}
