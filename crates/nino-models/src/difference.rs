//! What a file's tensors lack, have beyond and have in other shapes than a network's list.

use crate::describe::{Need, TensorSpec};
use nino_weights::names::{Component, Net};
use std::collections::HashSet;

/// All that does not fit, whole: missing, unknown and mis-shaped tensors by their canonical names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Difference {
    pub missing: Vec<String>,
    pub unknown: Vec<String>,
    pub misshaped: Vec<Misshaped>,
    /// The halves of an autoencoder that are there; empty for other networks.
    pub halves: Vec<&'static str>,
}

/// A tensor whose shape is not the network's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misshaped {
    pub name: String,
    pub expected: Vec<usize>,
    pub found: Vec<usize>,
}

/// A tensor that files of a network hold and the network does not use.
struct Extra {
    /// `None` for every network.
    net: Option<Net>,
    /// The name, or where it ends with a dot, the beginning of names.
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

/// Tensors that may be there without being a fault, each with its reason. Schedules and averages
/// beside the networks of a checkpoint never get this far: `nino_weights::names` leaves them out.
const EXTRAS: [Extra; 14] = [
    // The temperature of CLIP's training loss.
    Extra::of(Net::ClipText, "logit_scale"),
    // open_clip's causal mask, a constant saved as a buffer.
    Extra::of(Net::ClipText, "attn_mask"),
    // Positions 0, 1, 2 and so on, a constant saved as a buffer.
    Extra::of(Net::ClipText, "text_model.embeddings.position_ids"),
    // They make one vector of a picture, for which most models have no use.
    Extra::of(Net::ClipVision, "vision_model.post_layernorm."),
    Extra::of(Net::ClipVision, "visual_projection."),
    Extra::of(Net::ClipVision, "vision_model.head."),
    // It makes the next word out of the last states, for which nothing here has a use.
    Extra::of(Net::Llm, "lm_head.weight"),
    Extra::of(Net::Llm, "model.lm_head.weight"),
    // The half that sees of models that do, which prompts of text alone go without.
    Extra::of(Net::Llm, "model.visual."),
    Extra::of(Net::Llm, "visual."),
    // Says that pictures to look at have no noise: it has no values.
    Extra::of(Net::QwenImage, crate::qwen_image::CLEAN),
    // How many batches made Flux.2's statistics: of use to training only.
    Extra::of(Net::KlVae, "bn.num_batches_tracked"),
    // Averages over training, beside the weights that are used.
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
    /// Compares a file's component with the list of a network. Half an autoencoder is whole.
    pub fn between(component: &Component, tensors: &[TensorSpec]) -> Difference {
        let index = &component.index;
        let mut result = Difference::default();
        for (need, half) in [(Need::Encoder, "encoder"), (Need::Decoder, "decoder")] {
            // By names below the half itself: files of one half may keep the other's `quant_conv`.
            let there = |t: &TensorSpec| {
                let own = t
                    .name
                    .strip_prefix(half)
                    .is_some_and(|r| r.starts_with('.'));
                t.need == need && own && index.contains(&t.name)
            };
            if tensors.iter().any(there) {
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
        // Names that no table knows are as the file has them.
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

/// Whether a tensor that is not on a network's list may be in its files all the same.
fn is_extra(net: Net, name: &str) -> bool {
    EXTRAS.iter().any(|extra| {
        let named =
            name == extra.name || (extra.name.ends_with('.') && name.starts_with(extra.name));
        named && extra.net.is_none_or(|of| of == net)
    })
}
