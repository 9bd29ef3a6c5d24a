//! One naming for every packager's file. A model file is one or more [`Component`]s; each is found
//! by a tensor name only that network has, whatever stands before it, and its tensors are renamed
//! to the original author's layout (LDM, BFL, Wan) without a prefix. CLIP text encoders are the
//! exception: SD 1 and the loose files use the Hugging Face layout, SD 2 and SDXL half of each, so
//! all of them are given in the Hugging Face one.
//!
//! Renaming is by tables of pure string rules; where layouts fuse, split or transpose tensors,
//! entries are recut to match without reading them.

mod clip;
mod discover;
mod flux;
mod kl_vae;
mod llm;
mod recut;
mod rrdb;
mod rules;
mod t5;
mod tiny;
mod unet;
mod wan;
mod wan_vae;
mod wav2vec2;
mod z_image;

use std::fmt;

use crate::{Index, Result};

pub use discover::{Discovered, Found, discover};
pub use recut::Problem;

/// The networks this crate knows the tensors of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Net {
    Unet,
    ControlNet,
    T2iAdapter,
    Flux,
    Wan,
    ZImage,
    QwenImage,
    Krea2,
    Anima,
    KlVae,
    WanVae,
    Taesd,
    Taehv,
    ClipText,
    ClipVision,
    /// The half of Qwen2.5-VL that sees.
    QwenVision,
    /// The half of Qwen3-VL that sees.
    Qwen3Vision,
    /// What makes a prompt's tokens of a picture.
    Redux,
    T5,
    /// A language model whose hidden states condition pictures.
    Llm,
    /// ESRGAN's and Real-ESRGAN's upscaler.
    Rrdb,
    /// Real-ESRGAN's compact upscaler.
    Srvgg,
    /// wav2vec 2.0, an audio encoder.
    Wav2Vec2,
}

/// Whose names a file uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dialect {
    /// The original author's single file; also what ComfyUI and most GGUF files use.
    Original,
    /// Hugging Face diffusers or transformers.
    HuggingFace,
    OpenClip,
    /// llama.cpp's names for T5 and language models.
    LlamaCpp,
    /// The text encoder as Wan's repository names it.
    WanT5,
    /// ESRGAN's own names, older than those of Real-ESRGAN.
    Esrgan,
}

/// One network inside a file: its tensors under canonical names.
#[derive(Clone, Debug)]
pub struct Component {
    pub net: Net,
    pub dialect: Dialect,
    /// What stood before the names in the file, such as `model.diffusion_model.`.
    pub prefix: String,
    pub index: Index,
    /// Names inside the component that its tables do not know, as the file has them.
    pub unmapped: Vec<String>,
}

/// What happens to a stored tensor on its way to a canonical one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Keep,
    /// Rows `part` of `of` equal parts of the stored tensor.
    Slice {
        part: usize,
        of: usize,
    },
    /// The stored tensor is piece `part` of `of` of the canonical one's rows.
    Join {
        part: usize,
        of: usize,
    },
    Transpose,
    /// First and second half of the rows change places.
    SwapHalves,
    /// A linear layer that is a 1x1 convolution in the original.
    AsConv,
}

/// Where a stored tensor goes; several targets for a fused one.
pub(crate) type Targets = Vec<(String, Op)>;

/// Splits an index into components with canonical names; what belongs to none is returned beside.
pub fn canonical(index: &Index) -> Result<(Vec<Component>, Vec<String>)> {
    let found = discover(index);
    let mut components = Vec::new();
    for one in found.components {
        let names: Vec<&str> = one
            .members
            .iter()
            .map(|&i| &index.entries()[i].name[one.prefix.len()..])
            .collect();
        let mapper = Mapper::new(one.net, one.dialect, &one.prefix, &names);
        let (renamed, unmapped) = recut::apply(index, &one, &mapper)?;
        components.push(Component {
            net: one.net,
            dialect: one.dialect,
            prefix: one.prefix,
            index: renamed,
            unmapped,
        });
    }
    Ok((components, found.rest))
}

/// The renaming of one component; knows the few facts about the whole that names depend on.
pub(crate) struct Mapper {
    net: Net,
    dialect: Dialect,
    /// `unet`: residual blocks per level. `kl_vae`: levels. `wan_vae`: 1 when blocks are nested.
    /// `rrdb`: the number of the last layer.
    count: usize,
    /// `unet`: levels with attention on the way up, as bits.
    up_attention: u64,
    /// `tiny`: what to put before a bare layer number.
    side: &'static str,
}

impl Mapper {
    pub(crate) fn new(net: Net, dialect: Dialect, prefix: &str, names: &[&str]) -> Mapper {
        let count = match (net, dialect) {
            (Net::Unet | Net::ControlNet, Dialect::HuggingFace) => {
                // A LoRA may name attentions only; every level has as many of one as of the other.
                (0..4)
                    .flat_map(|i| {
                        ["resnets", "attentions"].map(|k| format!("down_blocks.{i}.{k}."))
                    })
                    .map(|prefix| rules::count(names, &prefix))
                    .max()
                    .unwrap_or(0)
            }
            (Net::KlVae, Dialect::HuggingFace) => rules::count(names, "decoder.up_blocks.")
                .max(rules::count(names, "encoder.down_blocks.")),
            (Net::WanVae, Dialect::HuggingFace) => usize::from(
                names
                    .iter()
                    .any(|n| n.starts_with("encoder.down_blocks.0.resnets.")),
            ),
            (Net::Rrdb, Dialect::Esrgan) => rrdb::last_layer(names),
            _ => 0,
        };
        let levels = names.iter().filter_map(|n| {
            let (level, rest) = rules::number(n.strip_prefix("up_blocks.")?)?;
            (level < 64 && rest.starts_with("attentions.")).then_some(1 << level)
        });
        let up_attention = levels.fold(0, |bits, bit: u64| bits | bit);
        Mapper {
            net,
            dialect,
            count,
            up_attention,
            side: tiny::side(prefix, names),
        }
    }

    /// With at least so many residual blocks per level: names of a part of a UNet may show fewer.
    pub(crate) fn at_least(mut self, count: usize) -> Mapper {
        self.count = self.count.max(count);
        self
    }

    /// Canonical names of a stored tensor; `None` when the tables do not know it.
    pub(crate) fn map(&self, name: &str) -> Option<Targets> {
        let keep = |name: String| Some(vec![(name, Op::Keep)]);
        match (self.net, self.dialect) {
            (Net::Unet, Dialect::HuggingFace) => {
                unet::from_diffusers(name, self.count, self.up_attention).and_then(keep)
            }
            (Net::T2iAdapter, Dialect::HuggingFace) => keep(unet::adapter_from_diffusers(name)),
            (Net::ControlNet, Dialect::HuggingFace) if name.starts_with("control_") => {
                Some(z_image::from_diffusers(name))
            }
            (Net::ControlNet, Dialect::HuggingFace) => {
                let of_unet = unet::control_from_diffusers(name, self.count);
                let of_unet = of_unet.and_then(keep);
                of_unet.or_else(|| flux::control_from_diffusers(name))
            }
            (Net::KlVae, Dialect::HuggingFace) => kl_vae::from_diffusers(name, self.count),
            (Net::KlVae, _) => Some(kl_vae::from_original(name)),
            (Net::Flux, Dialect::HuggingFace) => flux::from_diffusers(name),
            (Net::Flux | Net::ControlNet, _) => keep(flux::from_original(name)),
            (Net::Wan, Dialect::HuggingFace) => wan::from_diffusers(name).and_then(keep),
            (Net::WanVae, Dialect::HuggingFace) => {
                wan_vae::from_diffusers(name, self.count == 1).and_then(keep)
            }
            (Net::Taesd | Net::Taehv, Dialect::HuggingFace) => {
                tiny::from_diffusers(name).and_then(keep)
            }
            (Net::Taesd | Net::Taehv, _) => keep(format!("{}{name}", self.side)),
            (Net::ClipText, Dialect::OpenClip) => clip::from_open_clip(name),
            (Net::ZImage, Dialect::HuggingFace) => Some(z_image::from_diffusers(name)),
            (Net::Llm, Dialect::LlamaCpp) => llm::from_llama_cpp(name).and_then(keep),
            (Net::Llm, _) => keep(llm::from_hf(name)),
            (Net::T5, Dialect::HuggingFace) => keep(t5::from_hf(name)),
            (Net::T5, Dialect::LlamaCpp) => t5::from_llama_cpp(name).and_then(keep),
            (Net::T5, Dialect::WanT5) => t5::from_wan(name).and_then(keep),
            (Net::Wav2Vec2, _) => keep(wav2vec2::from_hf(name)),
            (Net::Rrdb, Dialect::Esrgan) => rrdb::from_older(name, self.count).and_then(keep),
            _ => keep(name.to_owned()),
        }
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Dialect::Original => "original names",
            Dialect::HuggingFace => "Hugging Face names",
            Dialect::OpenClip => "open_clip names",
            Dialect::LlamaCpp => "llama.cpp names",
            Dialect::WanT5 => "Wan's names",
            Dialect::Esrgan => "ESRGAN's older names",
        })
    }
}

#[cfg(test)]
pub(crate) mod tests;
