//! Differences between a file's tensors and a network's list: missing, unknown and mis-shaped
//! tensors.

use crate::describe::{Need, TensorSpec};
use nino_weights::names::{Component, Net};
use std::collections::HashSet;

/// All tensors that do not fit, by their canonical names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    pub missing: Vec<String>,
    pub unknown: Vec<String>,
    pub misshaped: Vec<Misshaped>,
    /// Which of `encoder` and `decoder` an autoencoder's file has; empty for other networks.
    pub halves: Vec<&'static str>,
}

/// A tensor whose shape is not the network's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misshaped {
    pub name: String,
    pub expected: Vec<usize>,
    pub found: Vec<usize>,
}

/// A tensor that files of a network may have and the network does not use.
struct Extra {
    /// `None` for every network.
    net: Option<Net>,
    /// A name, or a prefix of names if it ends with a dot.
    name: &'static str,
}

impl Extra {
    const fn of(net: Net, name: &'static str) -> Extra {
        Extra {
            net: Some(net),
            name,
        }
    }
}

/// Tensors that are not reported as unknown, each with the reason. Noise schedules and averages at
/// the top level of a checkpoint are not listed: `nino_weights::names` removes them before.
const EXTRAS: [Extra; 19] = [
    // The temperature of CLIP's training loss.
    Extra::of(Net::ClipText, "logit_scale"),
    // open_clip's causal mask, a constant saved as a buffer.
    Extra::of(Net::ClipText, "attn_mask"),
    // Positions 0, 1, 2 and so on, a constant saved as a buffer.
    Extra::of(Net::ClipText, "text_model.embeddings.position_ids"),
    // The image embedding, which most models do not use.
    Extra::of(Net::ClipVision, "vision_model.post_layernorm."),
    Extra::of(Net::ClipVision, "visual_projection."),
    Extra::of(Net::ClipVision, "vision_model.head."),
    // The output head, which text encoders do not use.
    Extra::of(Net::Llm, "lm_head.weight"),
    Extra::of(Net::Llm, "model.lm_head.weight"),
    // The vision tower, which prompts without images do not use.
    Extra::of(Net::Llm, "model.visual."),
    Extra::of(Net::Llm, "visual."),
    // The empty marker of models with reference tokens at timestep 0.
    Extra::of(Net::QwenImage, crate::qwen_image::INDEX_TIMESTEP_ZERO),
    // The number of batches of Flux.2's statistics, which only training uses.
    Extra::of(Net::KlVae, "bn.num_batches_tracked"),
    // What frames are masked with in training, and its other parts.
    Extra::of(Net::Wav2Vec2, "masked_spec_embed"),
    Extra::of(Net::Wav2Vec2, "lm_head."),
    Extra::of(Net::Wav2Vec2, "quantizer."),
    Extra::of(Net::Wav2Vec2, "project_hid."),
    Extra::of(Net::Wav2Vec2, "project_q."),
    // Averages over training, next to the weights that are used.
    Extra {
        net: None,
        name: "model_ema.",
    },
    // Inputs and outputs in our own golden files.
    Extra {
        net: None,
        name: "golden.",
    },
];

impl Difference {
    /// Compares a file's component with the list of a network. An autoencoder's file may have only
    /// the encoder or only the decoder.
    pub fn between(component: &Component, tensors: &[TensorSpec]) -> Difference {
        let index = &component.index;
        let mut result = Difference::default();
        for (need, half) in [(Need::Encoder, "encoder"), (Need::Decoder, "decoder")] {
            // By names below the prefix: files of one half may have the other's `quant_conv`.
            let exists = |t: &TensorSpec| {
                let below = t
                    .name
                    .strip_prefix(half)
                    .is_some_and(|r| r.starts_with('.'));
                t.need == need && below && index.contains(&t.name)
            };
            if tensors.iter().any(exists) {
                result.halves.push(half);
            }
        }
        let needed = |need| match need {
            Need::Always => true,
            Need::Optional => false,
            Need::Encoder => result.halves.contains(&"encoder"),
            Need::Decoder => result.halves.contains(&"decoder"),
        };
        for tensor in tensors {
            match index.shape(&tensor.name) {
                Some(found) if tensor.fits(found) => {}
                Some(found) => result.misshaped.push(Misshaped {
                    name: tensor.name.clone(),
                    expected: tensor.shape.clone(),
                    found: found.to_vec(),
                }),
                None if needed(tensor.need) => result.missing.push(tensor.name.clone()),
                None => {}
            }
        }
        let known: HashSet<&str> = tensors.iter().map(|t| t.name.as_str()).collect();
        let names = index.entries().iter().map(|e| e.name.as_str());
        let unlisted = names.filter(|name| !known.contains(name));
        let unlisted = unlisted.filter(|name| !is_extra(component.net, name));
        // Names that could not be mapped are those of the file, with the prefix.
        let is_known = |name: &str| {
            let below = name.strip_prefix(&component.prefix).unwrap_or(name);
            is_extra(component.net, below)
        };
        let unmapped = component.unmapped.iter().map(String::as_str);
        let unknown = unlisted.chain(unmapped.filter(|name| !is_known(name)));
        result.unknown = unknown.map(str::to_owned).collect();
        result
    }

    /// The number of tensors that do not fit.
    pub fn count(&self) -> usize {
        self.missing.len() + self.unknown.len() + self.misshaped.len()
    }

    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }
}

/// Whether files of a network may have this tensor, which is not on the network's list.
fn is_extra(net: Net, name: &str) -> bool {
    EXTRAS.iter().any(|extra| {
        let named =
            name == extra.name || (extra.name.ends_with('.') && name.starts_with(extra.name));
        named && extra.net.is_none_or(|of| of == net)
    })
}
