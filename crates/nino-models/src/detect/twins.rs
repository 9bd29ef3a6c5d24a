//! Twins: models with the same tensor names and shapes. The file's name and metadata decide.

use super::{Confidence, Kind};
use nino_weights::Index;

/// What a diffusion model predicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prediction {
    Eps,
    V,
    /// SD 2.x without a hint: the 768 models predict v, the 512 ones eps.
    EpsOrV,
    Flow,
}

pub(super) struct Choice {
    pub(super) kind: Kind,
    pub(super) confidence: Confidence,
    pub(super) reason: String,
}

/// Groups of twins, and the words in a file's name that indicate each. The first is the default.
const TWINS: &[&[(Kind, &[&str])]] = &[
    &[
        (Kind::Qwen3Medium, &["qwen_3_4b", "qwen3_4b", "qwen3-4b"]),
        (Kind::Qwen3Vl4B, &["vl"]),
    ],
    &[
        (
            Kind::QwenImage,
            &[
                "qwen_image.",
                "qwen_image_fp8",
                "qwen_image_bf16",
                "qwen_image_25",
                "qwen-image-q",
                "qwen-image-25",
            ],
        ),
        (Kind::QwenImageEdit, &["edit"]),
    ],
    &[
        (Kind::ZImageTurbo, &["turbo"]),
        (Kind::ZImage, &["z_image", "z-image", "zimage", "base"]),
    ],
    &[
        (
            Kind::Wan21T2v14B,
            &["wan2.1", "wan2_1", "wan21", "wan_2.1", "wan-2.1"],
        ),
        (Kind::Wan22T2v14BHigh, &["high"]),
        (Kind::Wan22T2v14BLow, &["low"]),
    ],
    &[
        (Kind::Wan22FunControl14BHigh, &["high"]),
        (Kind::Wan22FunControl14BLow, &["low"]),
    ],
    &[
        (Kind::Wan22I2v14BHigh, &["high"]),
        (Kind::Wan22I2v14BLow, &["low"]),
    ],
    &[
        (
            Kind::SdVae,
            &["sd-vae", "sd15", "sd1", "840000", "560000", "kl-f8"],
        ),
        (Kind::SdxlVae, &["xl"]),
    ],
    &[
        (Kind::FluxVae, &["flux", "ae.safetensors", "ae.sft"]),
        (Kind::Sd3Vae, &["sd3", "sd_3"]),
    ],
    &[
        (Kind::TaeSd1, &["taesd_", "taesd.", "taesd/"]),
        (Kind::TaeSdxl, &["taesdxl"]),
    ],
    &[
        (Kind::TaeFlux, &["taef1", "flux"]),
        (Kind::TaeSd3, &["taesd3", "sd3"]),
    ],
    &[
        (Kind::TaeWan21, &["taew2_1", "wan"]),
        (Kind::TaeHunyuan, &["taehv", "hunyuan"]),
    ],
];

/// Decides between a fitting kind and its twins.
pub(super) fn choose(kind: Kind, hint: &str, index: &Index) -> Choice {
    let Some(twins) = TWINS.iter().find(|t| t.iter().any(|(k, _)| *k == kind)) else {
        let reason = "all tensors fit and no other model has them".to_owned();
        return Choice {
            kind,
            confidence: Confidence::Certain,
            reason,
        };
    };
    // A VAE inside a checkpoint belongs to its diffusion model.
    if kind == Kind::SdVae
        && index
            .entries()
            .iter()
            .any(|e| e.name.starts_with("conditioner."))
    {
        let reason = "all tensors fit; it is inside an SDXL checkpoint".to_owned();
        return Choice {
            kind: Kind::SdxlVae,
            confidence: Confidence::Certain,
            reason,
        };
    }
    let named = twins.iter().find_map(|(k, words)| {
        words
            .iter()
            .find(|w| hint.contains(**w))
            .map(|word| (*k, *word))
    });
    let others = |kind| {
        let others = twins
            .iter()
            .filter(|(k, _)| *k != kind)
            .map(|(k, _)| k.label());
        others.collect::<Vec<_>>().join(" or ")
    };
    match named {
        Some((kind, word)) => Choice {
            kind,
            confidence: Confidence::Likely,
            reason: format!(
                "all tensors fit, as they would for {}; {word:?} is in the file's name",
                others(kind)
            ),
        },
        None => Choice {
            kind: twins[0].0,
            confidence: Confidence::Guess,
            reason: format!("all tensors fit, as they would for {}", others(twins[0].0)),
        },
    }
}

/// What the model predicts, from metadata and names; `None` for networks other than diffusion
/// models.
pub(super) fn prediction(kind: Kind, hint: &str, index: &Index) -> Option<Prediction> {
    use Kind as K;
    let by_metadata = [
        "modelspec.predict_key",
        "modelspec.prediction_type",
        "prediction_type",
    ]
    .iter()
    .find_map(|key| index.metadata.get(*key)?.as_str());
    match kind {
        K::Sd1
        | K::Sd1Inpaint
        | K::Sd1Edit
        | K::BkSdmBase
        | K::BkSdmSmall
        | K::BkSdmTiny
        | K::Sdxl
        | K::SdxlInpaint
        | K::SdxlEdit
        | K::SdxlRefiner
        | K::Sd2
        | K::Sd2Inpaint
        | K::Sd2Depth
        | K::BkSdmV2Base
        | K::BkSdmV2Small
        | K::BkSdmV2Tiny => {
            if index.contains("v_pred") || by_metadata.is_some_and(|p| p.starts_with('v')) {
                return Some(Prediction::V);
            }
            if by_metadata.is_some_and(|p| p.starts_with("eps")) {
                return Some(Prediction::Eps);
            }
            Some(match kind {
                K::Sd2 => sd2_by_name(hint),
                _ if hint.contains("vpred")
                    || hint.contains("v-pred")
                    || hint.contains("v_pred") =>
                {
                    Prediction::V
                }
                _ => Prediction::Eps,
            })
        }
        // It predicts the depth map itself.
        K::LotusD => None,
        _ if kind.part() == super::Part::Diffusion => Some(Prediction::Flow),
        _ => None,
    }
}

fn sd2_by_name(hint: &str) -> Prediction {
    if ["base", "512", "turbo", "eps"]
        .iter()
        .any(|w| hint.contains(w))
    {
        return Prediction::Eps;
    }
    if ["768", "vpred", "v-pred", "v_pred", "-v."]
        .iter()
        .any(|w| hint.contains(w))
    {
        return Prediction::V;
    }
    Prediction::EpsOrV
}
