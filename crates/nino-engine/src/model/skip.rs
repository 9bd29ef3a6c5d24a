//! Guidance away from what a network makes without some of its blocks. ComfyUI's
//! `SkipLayerGuidanceDiT` and `SkipLayerGuidanceDiTSimple`, and its `PerturbedAttentionGuidance`.

use crate::{DiffusionModel, EngineError};
use nino_models::Denoiser;
use nino_sample::{Correction, SkippedLayers};

/// Blocks that are left out, and what for.
#[derive(Clone, Debug, PartialEq)]
pub struct SkipLayers {
    /// Of a UNet, any block stands for the self-attention of the middle one.
    blocks: Vec<usize>,
    /// Noise levels between which they are left out: from the first down to the second.
    sigmas: (f64, f64),
    way: SkipWay,
}

/// Which prediction is made without the blocks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SkipWay {
    /// A third one, of the positive prompt: the guided one goes `scale` times as far away from it
    /// as the positive one is. `rescale` is the share of the correction that brings the deviation
    /// back.
    Apart { scale: f32, rescale: f32 },
    /// The negative prompt's own.
    Negative,
}

impl SkipLayers {
    /// The blocks left out of a prediction, where any are.
    pub(crate) fn blocks(&self) -> &[usize] {
        &self.blocks
    }

    /// Whether the blocks are left out at a noise level.
    pub(crate) fn counts_at(&self, sigma: f32) -> bool {
        let (start, end) = self.sigmas;
        (end..=start).contains(&f64::from(sigma))
    }

    pub(crate) fn is_negative(&self) -> bool {
        self.way == SkipWay::Negative
    }

    /// The guidance by a third prediction.
    fn guidance(&self) -> Option<Correction> {
        match self.way {
            SkipWay::Apart { scale, rescale } => Some(Correction::SkippedLayers(SkippedLayers {
                scale,
                sigmas: self.sigmas,
                rescale,
            })),
            SkipWay::Negative => None,
        }
    }
}

impl DiffusionModel {
    /// The same model, guided away from what it makes without some blocks during a part of the
    /// sampling: from the first share of it to the second, by the noise levels it has now. Blocks
    /// that it has not are left out of the list.
    pub fn with_skipped_layers(
        &self,
        blocks: &[usize],
        way: SkipWay,
        (start, end): (f64, f64),
    ) -> Result<DiffusionModel, EngineError> {
        let n = self.net.skippable_blocks();
        if n == 0 {
            return Err(EngineError::NoSkippedLayers {
                model: self.name.clone(),
            });
        }
        let mut model = self.clone();
        let blocks: Vec<usize> = blocks.iter().copied().filter(|&b| b < n).collect();
        let has_effect = !matches!(way, SkipWay::Apart { scale, .. } if scale <= 0.0);
        model.skip = (has_effect && !blocks.is_empty()).then(|| SkipLayers {
            blocks,
            sigmas: (
                self.sampling.percent_to_sigma(start),
                self.sampling.percent_to_sigma(end),
            ),
            way,
        });
        let guidance = model.skip.as_ref().and_then(SkipLayers::guidance);
        model.corrections.extend(guidance);
        Ok(model)
    }

    /// The same UNet, guided away from what it makes where the self-attention of its middle block
    /// gives its values as they are (Ahn et al. 2024). ComfyUI's `PerturbedAttentionGuidance`.
    pub fn with_perturbed_attention(&self, scale: f32) -> Result<DiffusionModel, EngineError> {
        if !matches!(self.net, Denoiser::Unet(_)) {
            return Err(EngineError::UnetOnly {
                model: self.name.clone(),
                what: "perturbed-attention guidance",
            });
        }
        let mut model = self.clone();
        model.skip = (scale > 0.0).then(|| SkipLayers {
            blocks: vec![0],
            sigmas: (f64::INFINITY, 0.0),
            way: SkipWay::Apart {
                scale,
                rescale: 0.0,
            },
        });
        let guidance = model.skip.as_ref().and_then(SkipLayers::guidance);
        model.corrections.extend(guidance);
        Ok(model)
    }

    /// Blocks that are left out of some predictions.
    pub fn skipped_layers(&self) -> Option<&SkipLayers> {
        self.skip.as_ref()
    }
}
