//! Weights multiplied by numbers. ComfyUI's `UNetSelfAttentionMultiply` and its like.
//!
//! A weight that is quantized in its file is held as f16 then, as one with a LoRA that cannot run
//! beside it.

use super::diffusion::DiffusionModel;
use super::lora::Loras;
use super::text_encoders::TextEncoders;
use nino_weights::Index;
use nino_weights::lora::LoraPart;
use std::sync::Arc;

impl DiffusionModel {
    /// The same model with every weight for which `factor` gives a number multiplied by it.
    #[must_use]
    pub fn with_factors(&self, factor: impl Fn(&str) -> Option<f32>) -> DiffusionModel {
        let (part, index) = (LoraPart::Diffusion, self.weights.index());
        DiffusionModel {
            loras: multiplied(&self.loras, part, index, factor),
            ..self.clone()
        }
    }
}

impl TextEncoders {
    /// The same of all text encoders.
    #[must_use]
    pub fn with_factors(&self, factor: impl Fn(&str) -> Option<f32>) -> TextEncoders {
        let mut text = self.clone();
        for (i, encoder) in self.encoders.iter().enumerate() {
            let (part, index) = (self.lora_part(i), encoder.weights.index());
            text.loras = multiplied(&text.loras, part, index, &factor);
        }
        text
    }
}

#[expect(clippy::float_cmp, reason = "exactly 1 changes nothing")]
fn multiplied(
    loras: &Arc<Loras>,
    part: LoraPart,
    index: &Index,
    factor: impl Fn(&str) -> Option<f32>,
) -> Arc<Loras> {
    let names = index.entries().iter().map(|entry| &entry.name);
    let factors = names.filter_map(|name| Some((name.clone(), factor(name)?)));
    let factors: Vec<_> = factors.filter(|&(_, factor)| factor != 1.0).collect();
    if factors.is_empty() {
        return Arc::clone(loras);
    }
    Arc::new(loras.multiplied(part, factors))
}
