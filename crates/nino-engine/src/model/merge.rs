//! Models whose weights are mixed with those of another model of the same kind. ComfyUI's
//! `ModelMergeSimple`, `CLIPMergeSimple` and their like.
//!
//! Weights are mixed in f32 while they are loaded, after the LoRAs of both models are applied. A
//! weight that is quantized in its file is held as f16 then, like one with a LoRA that cannot run
//! beside it.

use super::diffusion::DiffusionModel;
use super::lora::Loras;
use super::text_encoders::TextEncoders;
use crate::EngineError;
use nino_weights::Index;
use nino_weights::lora::LoraPart;
use std::sync::Arc;

/// A weight becomes `own·w + other·v`, where `v` is the other model's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    pub own: f32,
    pub other: f32,
}

impl DiffusionModel {
    /// The same model, mixed with another one. `mix` says how, by the name of the weight. Weights
    /// that only one of the models has stay as they are. Where the sizes of a weight differ, as in
    /// the first layer of an inpainting model, only its own factor counts, as in ComfyUI.
    pub fn mixed(
        &self,
        other: &DiffusionModel,
        mix: impl Fn(&str) -> Mix,
    ) -> Result<DiffusionModel, EngineError> {
        let fail = |why| EngineError::Merge {
            model: self.name.clone(),
            other: other.name.clone(),
            why,
        };
        if self.family != other.family {
            return Err(fail(format!(
                "one is {}, the other {}",
                self.family.name(),
                other.family.name()
            )));
        }
        if self.loras.has_grown() || other.loras.has_grown() {
            return Err(fail("a control LoRA changes the size of a layer".into()));
        }
        let (part, own, theirs) = (
            LoraPart::Diffusion,
            self.weights.index(),
            other.weights.index(),
        );
        if !own.entries().iter().any(|e| theirs.get(&e.name).is_some()) {
            return Err(fail("they have no weight in common".into()));
        }
        let (tensors, alone) = shared(own, theirs, mix);
        let loras = self
            .loras
            .mixed(part, (other.id(), other.source()), tensors);
        Ok(DiffusionModel {
            name: format!("{} + {}", self.name, other.name),
            loras: Arc::new(multiplied(loras, part, alone)),
            ..self.clone()
        })
    }
}

impl TextEncoders {
    /// The same text encoders, mixed with others of the same kinds; see [`DiffusionModel::mixed`].
    pub fn mixed(&self, other: &TextEncoders, mix: Mix) -> Result<TextEncoders, EngineError> {
        let kinds = |text: &TextEncoders| -> Vec<_> {
            text.encoders.iter().map(|e| e.config.kind()).collect()
        };
        if kinds(self) != kinds(other) {
            return Err(EngineError::Merge {
                model: format!("text encoders {:?}", kinds(self)),
                other: format!("text encoders {:?}", kinds(other)),
                why: "they are of different kinds".into(),
            });
        }
        let mut loras = (*self.loras).clone();
        for (i, (mine, theirs)) in self.encoders.iter().zip(&other.encoders).enumerate() {
            let part = self.lora_part(i);
            let (tensors, alone) = shared(mine.weights.index(), theirs.weights.index(), |_| mix);
            loras = loras.mixed(part, (other.id(i), other.source(i)), tensors);
            loras = multiplied(loras, part, alone);
        }
        Ok(TextEncoders {
            loras: Arc::new(loras),
            ..self.clone()
        })
    }
}

type Named<T> = Vec<(String, T)>;

/// The weights that two networks share, with their factors, and those of which the sizes differ,
/// with their own factor. Weights that stay as they are have none.
pub(super) fn shared(
    own: &Index,
    other: &Index,
    mix: impl Fn(&str) -> Mix,
) -> (Named<[f32; 2]>, Named<f32>) {
    let (mut tensors, mut alone) = (Vec::new(), Vec::new());
    for entry in own.entries() {
        let Some(theirs) = other.get(&entry.name) else {
            continue;
        };
        let Mix { own, other } = mix(&entry.name);
        if (own, other) == (1.0, 0.0) {
            continue;
        }
        if theirs.shape == entry.shape {
            tensors.push((entry.name.clone(), [own, other]));
        } else {
            tracing::warn!(
                "{} is not merged: its sizes are {:?} and {:?}",
                entry.name,
                entry.shape,
                theirs.shape
            );
            alone.push((entry.name.clone(), own));
        }
    }
    (tensors, alone)
}

fn multiplied(loras: Loras, part: LoraPart, factors: Named<f32>) -> Loras {
    if factors.is_empty() {
        return loras;
    }
    loras.multiplied(part, factors)
}

#[cfg(test)]
mod tests;
