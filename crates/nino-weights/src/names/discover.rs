//! Which networks a file holds, under which prefixes, in whose names.

use std::collections::BTreeMap;

use super::{Dialect, Net};
use crate::Index;

/// A network found in an index, before renaming.
#[derive(Clone, Debug)]
pub struct Found {
    pub net: Net,
    pub dialect: Dialect,
    pub prefix: String,
    /// Positions in the index's entries.
    pub members: Vec<usize>,
}

#[derive(Clone, Debug)]
pub struct Discovered {
    pub components: Vec<Found>,
    /// Names that belong to no network and are not known bookkeeping.
    pub rest: Vec<String>,
}

/// A name that only one network in one dialect has; what precedes it in a file is the prefix.
const SIGNATURES: &[(&str, Net, Dialect)] = &[
    ("input_blocks.0.0.weight", Net::Unet, Dialect::Original),
    (
        "time_embedding.linear_1.weight",
        Net::Unet,
        Dialect::HuggingFace,
    ),
    (
        "double_blocks.0.img_attn.qkv.weight",
        Net::Flux,
        Dialect::Original,
    ),
    (
        "single_transformer_blocks.0.proj_mlp.weight",
        Net::Flux,
        Dialect::HuggingFace,
    ),
    (
        "controlnet_x_embedder.weight",
        Net::ControlNet,
        Dialect::HuggingFace,
    ),
    (
        "control_all_x_embedder.2-1.weight",
        Net::ControlNet,
        Dialect::HuggingFace,
    ),
    (
        "lllite_conditioning1.conv1.weight",
        Net::ControlNet,
        Dialect::Original,
    ),
    (
        "controlnet_blocks.0.y_rms.weight",
        Net::ControlNet,
        Dialect::Original,
    ),
    // A whole one's last block; in a light one, the first inside of the first.
    ("body.7.block1.weight", Net::T2iAdapter, Dialect::Original),
    (
        "body.0.body.0.block1.weight",
        Net::T2iAdapter,
        Dialect::Original,
    ),
    (
        "body.0.resnets.0.block1.weight",
        Net::T2iAdapter,
        Dialect::HuggingFace,
    ),
    (
        "blocks.0.self_attn.norm_q.weight",
        Net::Wan,
        Dialect::Original,
    ),
    (
        "blocks.0.attn1.norm_q.weight",
        Net::Wan,
        Dialect::HuggingFace,
    ),
    (
        "noise_refiner.0.attention.qkv.weight",
        Net::ZImage,
        Dialect::Original,
    ),
    (
        "noise_refiner.0.attention.to_q.weight",
        Net::ZImage,
        Dialect::HuggingFace,
    ),
    (QWEN_BLOCK, Net::QwenImage, Dialect::Original),
    ("txtfusion.projector.weight", Net::Krea2, Dialect::Original),
    ("llm_adapter.embed.weight", Net::Anima, Dialect::Original),
    ("merger.ln_q.weight", Net::QwenVision, Dialect::Original),
    (SIGHT, Net::Qwen3Vision, Dialect::Original),
    (
        "decoder.mid.block_1.norm1.weight",
        Net::KlVae,
        Dialect::Original,
    ),
    (
        "encoder.mid.block_1.norm1.weight",
        Net::KlVae,
        Dialect::Original,
    ),
    (
        "decoder.mid_block.resnets.0.norm1.weight",
        Net::KlVae,
        Dialect::HuggingFace,
    ),
    (
        "encoder.mid_block.resnets.0.norm1.weight",
        Net::KlVae,
        Dialect::HuggingFace,
    ),
    (
        "decoder.middle.0.residual.0.gamma",
        Net::WanVae,
        Dialect::Original,
    ),
    (
        "encoder.middle.0.residual.0.gamma",
        Net::WanVae,
        Dialect::Original,
    ),
    (
        "decoder.mid_block.resnets.0.norm1.gamma",
        Net::WanVae,
        Dialect::HuggingFace,
    ),
    (
        "encoder.mid_block.resnets.0.norm1.gamma",
        Net::WanVae,
        Dialect::HuggingFace,
    ),
    (
        "decoder.layers.2.conv.0.weight",
        Net::Taesd,
        Dialect::HuggingFace,
    ),
    (
        "encoder.layers.1.conv.0.weight",
        Net::Taesd,
        Dialect::HuggingFace,
    ),
    (
        "text_model.encoder.layers.0.self_attn.q_proj.weight",
        Net::ClipText,
        Dialect::HuggingFace,
    ),
    (
        "vision_model.encoder.layers.0.self_attn.q_proj.weight",
        Net::ClipVision,
        Dialect::HuggingFace,
    ),
    (
        "transformer.resblocks.0.attn.in_proj_weight",
        Net::ClipText,
        Dialect::OpenClip,
    ),
    (
        "encoder.block.0.layer.0.SelfAttention.q.weight",
        Net::T5,
        Dialect::HuggingFace,
    ),
    ("enc.blk.0.attn_q.weight", Net::T5, Dialect::LlamaCpp),
    ("blocks.0.attn.q.weight", Net::T5, Dialect::WanT5),
    (
        "encoder.pos_conv_embed.conv.bias",
        Net::Wav2Vec2,
        Dialect::HuggingFace,
    ),
    ("redux_down.weight", Net::Redux, Dialect::Original),
    (
        "high_embedding_linear.0.weight",
        Net::Redux,
        Dialect::Original,
    ),
    ("body.0.rdb1.conv1.weight", Net::Rrdb, Dialect::Original),
    ("RRDB_trunk.0.RDB1.conv1.weight", Net::Rrdb, Dialect::Esrgan),
    (
        "model.1.sub.0.RDB1.conv1.0.weight",
        Net::Rrdb,
        Dialect::Esrgan,
    ),
    (
        "model.layers.0.input_layernorm.weight",
        Net::Llm,
        Dialect::HuggingFace,
    ),
    (
        "model.language_model.layers.0.input_layernorm.weight",
        Net::Llm,
        Dialect::HuggingFace,
    ),
    ("blk.0.attn_norm.weight", Net::Llm, Dialect::LlamaCpp),
];

/// The compact upscaler's layers are numbered, too: a convolution, slopes of its activation, and so
/// on.
const COMPACT: [(&str, usize); 3] = [
    ("body.0.weight", 4),
    ("body.1.weight", 1),
    ("body.2.weight", 4),
];

/// Layers of the tiny autoencoders have only numbers: the prefix is all that precedes them.
const TINY: &str = "3.conv.0.weight";
const TINY_VIDEO: &str = "4.conv.0.weight";

/// First layers of the picture input that a `ControlNet` has and a UNet does not.
const CONTROL: [&str; 2] = [
    "input_hint_block.0.weight",
    "controlnet_cond_embedding.conv_in.weight",
];

/// A tensor of the half of Qwen3-VL that sees. The half that reads has it, too: nothing else tells
/// it from Qwen3.
const SIGHT: &str = "deepstack_merger_list.0.norm.weight";

/// A tensor of Qwen-Image's first block.
const QWEN_BLOCK: &str = "transformer_blocks.0.img_mod.1.weight";

/// A layer that a `ControlNet` of Flux or Qwen-Image has for every block.
const FLUX_CONTROL: &str = "controlnet_blocks.0.weight";

/// Schedules, averages and training parts that checkpoints carry beside the networks.
const BOOKKEEPING: &[&str] = &[
    "model_ema.",
    "alphas_cumprod",
    "betas",
    "sqrt_",
    "log_one_minus_",
    "posterior_",
    "logvar",
    "lvlb_weights",
    "denoiser.",
    "scheduler.",
    "first_stage_model.loss.",
    "loss.",
    "cond_stage_model.logit_scale",
    "v_pred",
    "edm_",
    "ztsnr",
    "noise_augmentor.",
    "global_step",
    "vae_scale",
    "vae_shift",
    "scaled_fp8",
    // The vocabulary of a text encoder, as bytes.
    "spiece_model",
    "tekken_model",
];

/// What training leaves beside wav2vec 2.0: the head that writes down speech, and its codes.
const BESIDE_WAV2VEC2: &[&str] = &["lm_head.", "quantizer.", "project_hid.", "project_q."];

/// Finds every network. A tensor belongs to the one with the longest prefix that it starts with.
pub fn discover(index: &Index) -> Discovered {
    let mut prefixes: BTreeMap<String, (Net, Dialect)> = BTreeMap::new();
    for entry in index.entries() {
        for &(signature, net, dialect) in SIGNATURES {
            if let Some(prefix) = ends_with(&entry.name, signature) {
                let net = role(index, net, prefix);
                // That of Qwen-Image has its authors' names.
                let is_qwens = || index.contains(&format!("{prefix}{QWEN_BLOCK}"));
                let dialect = match net {
                    Net::ControlNet if is_qwens() => Dialect::Original,
                    _ => dialect,
                };
                let whole = match (net, dialect) {
                    (Net::T5, Dialect::WanT5) => Some("token_embedding.weight"),
                    // A T5 has blocks of the same names below `enc.` and `dec.`.
                    (Net::Llm, Dialect::LlamaCpp) => Some("token_embd.weight"),
                    _ => None,
                };
                if whole.is_none_or(|name| index.contains(&format!("{prefix}{name}"))) {
                    prefixes.insert(prefix.to_owned(), (net, dialect));
                }
            }
        }
        if let Some(found) = tiny(index, &entry.name) {
            prefixes.entry(found.0).or_insert(found.1);
        }
        if let Some(prefix) = compact(index, &entry.name) {
            prefixes.insert(prefix.to_owned(), (Net::Srvgg, Dialect::Original));
        }
    }
    let mut components: Vec<Found> = prefixes
        .into_iter()
        .map(|(prefix, (net, dialect))| Found {
            net,
            dialect,
            prefix,
            members: Vec::new(),
        })
        .collect();
    components.sort_by_key(|c| std::cmp::Reverse(c.prefix.len()));
    let has_wav2vec2 = components.iter().any(|c| c.net == Net::Wav2Vec2);
    let mut rest = Vec::new();
    for (i, entry) in index.entries().iter().enumerate() {
        let bookkeeping = BOOKKEEPING.iter().any(|b| entry.name.starts_with(b));
        let home = components
            .iter_mut()
            .find(|c| entry.name.starts_with(c.prefix.as_str()));
        match home {
            Some(component) if !(bookkeeping && component.prefix.is_empty()) => {
                let own = &entry.name[component.prefix.len()..];
                if !own.ends_with("position_ids") && !is_left(component.net, own) {
                    component.members.push(i);
                }
            }
            _ if bookkeeping => {}
            _ if has_wav2vec2 && BESIDE_WAV2VEC2.iter().any(|b| entry.name.starts_with(b)) => {}
            _ => rest.push(entry.name.clone()),
        }
        if ends_with(&entry.name, SIGHT).is_some() {
            let reads = |c: &&mut Found| c.net == Net::Llm && entry.name.starts_with(&c.prefix);
            let reader = components.iter_mut().find(reads);
            reader.into_iter().for_each(|c| c.members.push(i));
        }
    }
    components.sort_by(|a, b| (a.net, &a.prefix).cmp(&(b.net, &b.prefix)));
    Discovered { components, rest }
}

/// The head of a name that ends with whole segments of `signature`.
fn ends_with<'a>(name: &'a str, signature: &str) -> Option<&'a str> {
    name.strip_suffix(signature)
        .filter(|head| head.is_empty() || head.ends_with('.'))
}

/// What is left of training: VAE files keep the discriminator under `loss.`, models of Cosmos' kind
/// counters and tables of places.
fn is_left(net: Net, name: &str) -> bool {
    let of_cosmos = || {
        let beginnings = ["accum_", "pos_embedder."];
        name.ends_with("_extra_state") || beginnings.iter().any(|b| name.starts_with(b))
    };
    name.starts_with("loss.") || (net == Net::Anima && of_cosmos())
}

/// Networks that share a signature are told apart by what else stands under the prefix.
fn role(index: &Index, net: Net, prefix: &str) -> Net {
    let has = |name: &str| index.contains(&format!("{prefix}{name}"));
    match net {
        Net::Unet if CONTROL.iter().any(|n| has(n)) => Net::ControlNet,
        Net::Flux | Net::QwenImage if has(FLUX_CONTROL) => Net::ControlNet,
        Net::ClipText if prefix.ends_with("visual.") => Net::ClipVision,
        net => net,
    }
}

fn tiny(index: &Index, name: &str) -> Option<(String, (Net, Dialect))> {
    let head = ends_with(name, TINY).or_else(|| ends_with(name, TINY_VIDEO))?;
    if head.ends_with("layers.") {
        return None; // diffusers' spelling, found by its own signature
    }
    let first = ["0.weight", "1.weight"]
        .iter()
        .find_map(|n| index.get(&format!("{head}{n}")))?;
    if first.shape.len() != 4 {
        return None;
    }
    // TAEHV pools (layer 2) and grows (layer 7) in time with a bare convolution.
    let video = ["2.conv.weight", "7.conv.weight"]
        .iter()
        .any(|n| index.contains(&format!("{head}{n}")));
    let prefix = head
        .strip_suffix("decoder.")
        .or_else(|| head.strip_suffix("encoder."));
    // `decoder.` and `encoder.` side by side are one network; a prefix such as `taesd_decoder.` is
    // not.
    let prefix = prefix
        .filter(|p| p.is_empty() || p.ends_with('.'))
        .unwrap_or(head);
    Some((
        prefix.to_owned(),
        (
            if video { Net::Taehv } else { Net::Taesd },
            Dialect::Original,
        ),
    ))
}

fn compact<'a>(index: &Index, name: &'a str) -> Option<&'a str> {
    let prefix = ends_with(name, COMPACT[0].0)?;
    let has = |(layer, rank): (&str, usize)| {
        let found = index.get(&format!("{prefix}{layer}"));
        found.is_some_and(|entry| entry.shape.len() == rank)
    };
    COMPACT.into_iter().all(has).then_some(prefix)
}
