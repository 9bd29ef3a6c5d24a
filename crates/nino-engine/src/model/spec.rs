//! Built-in descriptions of models, to plan with no file at hand.

use super::text_encoders::EncoderConfig;
use nino_models::describe::DescribeError;
use nino_models::{
    Denoiser, Family, FileParams, Network, anima, clip, flux, flux2, krea2, llm, qwen_image, t5,
    unet, wan_transformer, z_image,
};
use nino_sample::{ModelSampling, Prediction};

/// Names that [`crate::Checkpoint::spec`] knows.
pub const MODEL_SPECS: [&str; 30] = [
    "sd15",
    "sd15-inpaint",
    "sd15-edit",
    "sd21",
    "sd21-768",
    "sdxl",
    "sdxl-turbo",
    "flux1-dev",
    "flux1-schnell",
    "chroma",
    "z-image-turbo",
    "z-image",
    "flux2-klein-4b",
    "flux2-klein-base-4b",
    "flux2-klein-9b",
    "flux2-klein-base-9b",
    "flux2-dev",
    "qwen-image",
    "qwen-image-edit-2509",
    "qwen-image-edit-2511",
    "krea2-turbo",
    "krea2-raw",
    "anima",
    "anima-turbo",
    "wan2.1-t2v-1.3b",
    "wan2.1-t2v-14b",
    "wan2.1-i2v-14b",
    "wan2.2-i2v-14b",
    "wan2.2-s2v-14b",
    "wan2.2-ti2v-5b",
];

/// What a model is made of.
pub(super) struct Description {
    pub(super) family: Family,
    pub(super) sampling: ModelSampling,
    pub(super) net: Denoiser,
    pub(super) text: Vec<EncoderConfig>,
    pub(super) vae: &'static str,
}

impl Description {
    pub(super) fn find(name: &str) -> Option<Description> {
        let eps = || ModelSampling::stable_diffusion(Prediction::Eps);
        let clip_l = || EncoderConfig::Clip(clip::Config::clip_l());
        let t5 = || EncoderConfig::T5(t5::Config::xxl());
        let sd15 = |inputs| Description {
            family: Family::Sd1,
            sampling: eps(),
            net: Denoiser::Unet(unet::Config::sd15().with_in_channels(inputs)),
            text: vec![clip_l()],
            vae: "sd-vae",
        };
        let sd21 = |prediction| Description {
            family: Family::Sd2,
            sampling: ModelSampling::stable_diffusion(prediction),
            net: Denoiser::Unet(unet::Config::sd21()),
            text: vec![EncoderConfig::Clip(clip::Config::clip_h())],
            vae: "sd-vae",
        };
        let flux = |config, sampling| Description {
            family: Family::Flux,
            sampling,
            net: Denoiser::Flux(config),
            text: vec![clip_l(), t5()],
            vae: "flux-vae",
        };
        let klein = |config, text| Description {
            family: Family::Klein,
            sampling: ModelSampling::flux(super::levels::FLUX2_MU),
            net: Denoiser::Flux2(config),
            text: vec![EncoderConfig::Llm(text)],
            vae: "flux2-vae",
        };
        let qwen = |config| Description {
            family: Family::QwenImage,
            sampling: ModelSampling::flux(super::levels::FLUX_MU),
            net: Denoiser::QwenImage(config),
            text: vec![EncoderConfig::Llm(llm::Config::qwen25_vl_7b())],
            vae: "wan21-vae",
        };
        let wan = |config: wan_transformer::Config| Description {
            family: Family::Wan,
            sampling: ModelSampling::flow(super::levels::WAN_SHIFT, 1000.0),
            net: Denoiser::Wan(config),
            text: vec![EncoderConfig::T5(t5::Config::xxl().multilingual())],
            vae: "wan21-vae",
        };
        let wan_14b = wan_transformer::Config::t2v_14b;
        Some(match name {
            "sd15" => sd15(4),
            "sd15-inpaint" => sd15(9),
            "sd15-edit" => sd15(8),
            "sd21" => sd21(Prediction::Eps),
            "sd21-768" => sd21(Prediction::V),
            "sdxl" | "sdxl-turbo" => Description {
                family: Family::Sdxl,
                sampling: eps(),
                net: Denoiser::Unet(unet::Config::sdxl()),
                text: vec![clip_l(), EncoderConfig::Clip(clip::Config::clip_g())],
                vae: "sdxl-vae",
            },
            "flux1-dev" => flux(flux::Config::dev(), ModelSampling::flux(1.15)),
            "flux1-schnell" => flux(flux::Config::schnell(), ModelSampling::flow(1.0, 1.0)),
            "chroma" => Description {
                family: Family::Chroma,
                text: vec![t5()],
                ..flux(flux::Config::chroma(), ModelSampling::flux(1.15))
            },
            "z-image-turbo" | "z-image" => Description {
                family: Family::ZImage,
                sampling: ModelSampling::flow(super::levels::Z_IMAGE_SHIFT, 1.0),
                net: Denoiser::ZImage(z_image::Config::published()),
                text: vec![EncoderConfig::Llm(llm::Config::qwen3_4b())],
                vae: "flux-vae",
            },
            "flux2-klein-4b" | "flux2-klein-base-4b" => {
                klein(flux2::Config::klein_4b(), llm::Config::qwen3_4b())
            }
            "flux2-klein-9b" | "flux2-klein-base-9b" => {
                klein(flux2::Config::klein_9b(), llm::Config::qwen3_8b())
            }
            "flux2-dev" => Description {
                family: Family::Flux2,
                ..klein(flux2::Config::dev(), llm::Config::mistral3_24b())
            },
            "qwen-image" | "qwen-image-edit-2509" => qwen(qwen_image::Config::published()),
            "qwen-image-edit-2511" => {
                qwen(qwen_image::Config::published().with_index_timestep_zero())
            }
            "krea2-turbo" | "krea2-raw" => Description {
                family: Family::Krea2,
                net: Denoiser::Krea2(krea2::Config::published()),
                text: vec![EncoderConfig::Llm(llm::Config::qwen3_vl_4b())],
                ..qwen(qwen_image::Config::published())
            },
            "anima" | "anima-turbo" => Description {
                family: Family::Anima,
                sampling: ModelSampling::flow(super::levels::ANIMA_SHIFT, 1.0),
                net: Denoiser::Anima(anima::Config::published()),
                text: vec![EncoderConfig::Llm(llm::Config::qwen3_06b())],
                vae: "wan21-vae",
            },
            "wan2.1-t2v-1.3b" => wan(wan_transformer::Config::t2v_1_3b()),
            "wan2.1-t2v-14b" => wan(wan_14b()),
            "wan2.1-i2v-14b" => wan(wan_14b().with_in_channels(36).with_image(None)),
            "wan2.2-i2v-14b" => wan(wan_14b().with_in_channels(36)),
            "wan2.2-s2v-14b" => wan(wan_14b().with_audio()),
            "wan2.2-ti2v-5b" => Description {
                family: Family::Wan5B,
                vae: "wan22-vae",
                ..wan(wan_transformer::Config::ti2v_5b())
            },
            _ => return None,
        })
    }

    /// The diffusion model's weights without bytes.
    pub(super) fn net_params(&self) -> Result<FileParams, DescribeError> {
        FileParams::described(&Network::Denoiser(self.net.clone()))
    }

    /// The same of a text encoder.
    pub(super) fn text_params(config: &EncoderConfig) -> Result<FileParams, DescribeError> {
        FileParams::described(&config.network())
    }
}
