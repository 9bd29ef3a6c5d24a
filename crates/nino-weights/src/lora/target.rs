//! From a LoRA's module name to the canonical tensor it changes.

use super::{LoraPart, Rows};
use crate::names::{Dialect, Mapper, Net, Op};

/// Prefixes whose rest is dotted; the first that fits is taken, then the list is tried again.
const DOTTED: &[(&str, Option<LoraPart>)] = &[
    ("base_model.model.", None),
    ("model.diffusion_model.", Some(LoraPart::Diffusion)),
    ("diffusion_model.", Some(LoraPart::Diffusion)),
    ("unet.", Some(LoraPart::Diffusion)),
    ("transformer.", Some(LoraPart::Diffusion)),
    ("text_encoder.", Some(LoraPart::TextEncoder(0))),
    ("text_encoder_2.", Some(LoraPart::TextEncoder(1))),
    ("text_encoder_3.", Some(LoraPart::TextEncoder(2))),
    (
        "text_encoders.clip_l.transformer.",
        Some(LoraPart::TextEncoder(0)),
    ),
    (
        "text_encoders.clip_g.transformer.",
        Some(LoraPart::TextEncoder(1)),
    ),
    (
        "text_encoders.t5xxl.transformer.",
        Some(LoraPart::TextEncoder(1)),
    ),
    (
        "text_encoders.qwen3_06b.transformer.",
        Some(LoraPart::TextEncoder(0)),
    ),
    (
        "text_encoders.qwen3_4b.transformer.",
        Some(LoraPart::TextEncoder(0)),
    ),
    ("clip_l.transformer.", Some(LoraPart::TextEncoder(0))),
    ("clip_g.transformer.", Some(LoraPart::TextEncoder(1))),
    ("t5xxl.transformer.", Some(LoraPart::TextEncoder(1))),
];

/// Prefixes whose rest has underscores for dots.
const FLAT: &[(&str, LoraPart)] = &[
    // Wan-Fun's.
    ("lora_unet__", LoraPart::Diffusion),
    ("lora_unet_", LoraPart::Diffusion),
    ("lora_transformer_", LoraPart::Diffusion),
    ("lycoris_", LoraPart::Diffusion),
    ("lora_te1_", LoraPart::TextEncoder(0)),
    ("lora_te2_", LoraPart::TextEncoder(1)),
    ("lora_te3_", LoraPart::TextEncoder(2)),
    ("lora_te_", LoraPart::TextEncoder(0)),
];

/// Module names that contain underscores; all other underscores of a flat name were dots.
const WORDS: &[&str] = &[
    "adaLN_modulation",
    "adaln_modulation",
    "adaln_modulation_cross_attn",
    "adaln_modulation_mlp",
    "adaln_modulation_self_attn",
    "add_embedding",
    "add_k_proj",
    "add_q_proj",
    "add_v_proj",
    "all_final_layer",
    "all_x_embedder",
    "cap_embedder",
    "condition_embedder",
    "context_embedder",
    "context_refiner",
    "conv_in",
    "conv_out",
    "conv_shortcut",
    "cross_attn",
    "double_blocks",
    "down_blocks",
    "down_proj",
    "emb_layers",
    "feed_forward",
    "ff_context",
    "final_layer",
    "gate_proj",
    "guidance_embedder",
    "guidance_in",
    "img_attn",
    "img_emb",
    "img_in",
    "img_mlp",
    "img_mod",
    "in_layer",
    "in_layers",
    "input_blocks",
    "k_img",
    "k_proj",
    "key_norm",
    "label_emb",
    "layer_norm1",
    "layer_norm2",
    "layerwise_blocks",
    "linear_1",
    "linear_2",
    "linear_in",
    "linear_out",
    "llm_adapter",
    "mid_block",
    "middle_block",
    "noise_refiner",
    "norm1_context",
    "norm_out",
    "o_proj",
    "out_layer",
    "out_layers",
    "out_proj",
    "output_blocks",
    "output_proj",
    "patch_embedding",
    "proj_in",
    "proj_mlp",
    "proj_out",
    "q_proj",
    "query_norm",
    "refiner_blocks",
    "self_attn",
    "single_blocks",
    "single_transformer_blocks",
    "skip_connection",
    "t_embedder",
    "text_embedder",
    "text_embedding",
    "text_fusion",
    "text_model",
    "text_projection",
    "time_emb_proj",
    "time_embed",
    "time_embedder",
    "time_embedding",
    "time_in",
    "time_mod_proj",
    "time_proj",
    "time_projection",
    "time_text_embed",
    "timestep_embedder",
    "to_add_out",
    "to_gate",
    "to_k",
    "to_out",
    "to_q",
    "to_qkv_mlp_proj",
    "to_v",
    "token_embedding",
    "transformer_blocks",
    "txt_attn",
    "txt_in",
    "txt_mlp",
    "txt_mod",
    "up_blocks",
    "up_proj",
    "v_img",
    "v_proj",
    "vector_in",
    "wi_0",
    "wi_1",
    "x_embedder",
];

/// First segments of names that are canonical already.
const ORIGINAL: &[&str] = &[
    "input_blocks",
    "middle_block",
    "output_blocks",
    "out",
    "time_embed",
    "label_emb",
    "double_blocks",
    "single_blocks",
    "img_in",
    "txt_in",
    "time_in",
    "vector_in",
    "guidance_in",
    "final_layer",
    "blocks",
    "patch_embedding",
    "text_embedding",
    "time_embedding",
    "time_projection",
    "head",
    "img_emb",
    "cap_embedder",
    "t_embedder",
    "first",
    "last",
    "tmlp",
    "tproj",
    "txtfusion",
    "txtmlp",
    "llm_adapter",
];

/// First segments of Qwen-Image's names, some of which diffusers has for Flux, too.
const QWEN_IMAGE: [&str; 5] = [
    "transformer_blocks",
    "time_text_embed",
    "norm_out",
    "proj_out",
    "txt_norm",
];

/// Whether paths are of Qwen-Image: it has layers that Flux has not, and more blocks of the kind.
fn is_qwen_image(paths: &[&str]) -> bool {
    let block = |path: &&str| -> Option<usize> {
        path.strip_prefix("transformer_blocks.")?
            .split('.')
            .next()?
            .parse()
            .ok()
    };
    let named = [".img_mod.1", ".txt_mod.1", ".img_mlp.net.", ".txt_mlp.net."];
    let has = |part: &str| paths.iter().any(|path| path.contains(part));
    let beyond_flux = paths.iter().filter_map(block).any(|i| i >= FLUX_BLOCKS);
    named.into_iter().any(has) || (beyond_flux && !has("single_transformer_blocks."))
}

/// Diffusers' names of Krea 2's layers, by how they begin, and the canonical ones.
const KREA2: [(&str, &str); 9] = [
    ("transformer_blocks.", "blocks."),
    ("text_fusion.", "txtfusion."),
    ("img_in.", "first."),
    ("time_embed.linear_1.", "tmlp.0."),
    ("time_embed.linear_2.", "tmlp.2."),
    ("time_mod_proj.", "tproj.1."),
    ("txt_in.linear_1.", "txtmlp.1."),
    ("txt_in.linear_2.", "txtmlp.3."),
    ("final_layer.linear.", "last.linear."),
];
/// The same of the layers of a block.
const KREA2_LAYERS: [(&str, &str); 8] = [
    (".attn.to_q.", ".attn.wq."),
    (".attn.to_k.", ".attn.wk."),
    (".attn.to_v.", ".attn.wv."),
    (".attn.to_gate.", ".attn.gate."),
    (".attn.to_out.0.", ".attn.wo."),
    (".ff.gate.", ".mlp.gate."),
    (".ff.up.", ".mlp.up."),
    (".ff.down.", ".mlp.down."),
];

/// Whether paths are diffusers' of Krea 2, by layers that no other model has.
fn is_krea2(paths: &[&str]) -> bool {
    let named = [".attn.to_gate", ".ff.gate", ".ff.up", "text_fusion."];
    let has = |part: &&str| paths.iter().any(|path| path.contains(part));
    named.iter().any(has)
}

/// Krea 2's canonical name of a tensor that diffusers calls so.
fn of_krea2(name: &str) -> Option<String> {
    let (old, new) = KREA2.iter().find(|(old, _)| name.starts_with(old))?;
    let name = format!("{new}{}", &name[old.len()..]);
    let layer = KREA2_LAYERS.iter().find(|(old, _)| name.contains(old));
    Some(layer.map_or(name.clone(), |(old, new)| name.replace(old, new)))
}

/// The ends of XLabs' names of Flux's layers, without the processor, and the canonical ones. Those
/// of single blocks are the first rows of a layer, or all of one.
const XLABS: [(&str, &str, &str); 6] = [
    (
        "double_blocks.",
        ".qkv_lora1.weight",
        ".img_attn.qkv.weight",
    ),
    (
        "double_blocks.",
        ".proj_lora1.weight",
        ".img_attn.proj.weight",
    ),
    (
        "double_blocks.",
        ".qkv_lora2.weight",
        ".txt_attn.qkv.weight",
    ),
    (
        "double_blocks.",
        ".proj_lora2.weight",
        ".txt_attn.proj.weight",
    ),
    ("single_blocks.", ".qkv.weight", ".linear1.weight"),
    ("single_blocks.", ".proj.weight", ".linear2.weight"),
];

/// Flux's canonical name of a tensor that XLabs calls so.
fn of_xlabs(name: &str) -> Option<(String, Op)> {
    XLABS.iter().find_map(|(first, old, new)| {
        let block = name.strip_suffix(old).filter(|n| n.starts_with(first))?;
        let op = match *new {
            // Queries, keys and values stand before the rest of the rows.
            ".linear1.weight" => Op::Join { part: 0, of: 2 },
            _ => Op::Keep,
        };
        Some((format!("{block}{new}"), op))
    })
}

/// Double blocks of Flux.1.
const FLUX_BLOCKS: usize = 19;

/// Resolves module names; knows the whole list because where a level's upsampler stands depends on
/// it.
pub(super) struct Resolver {
    unet: Mapper,
    flux: Mapper,
    wan: Mapper,
    z_image: Mapper,
    of_qwen_image: bool,
    of_krea2: bool,
}

impl Resolver {
    pub(super) fn new<'a>(modules: impl Iterator<Item = &'a str>) -> Resolver {
        let paths: Vec<String> = modules.map(|m| locate(m).1).collect();
        let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
        let mapper = |net| Mapper::new(net, Dialect::HuggingFace, "", &paths);
        Resolver {
            // All but a few distilled models have two, and a LoRA may train a single block.
            unet: mapper(Net::Unet).at_least(2),
            flux: mapper(Net::Flux),
            wan: mapper(Net::Wan),
            z_image: mapper(Net::ZImage),
            of_qwen_image: is_qwen_image(&paths),
            of_krea2: is_krea2(&paths),
        }
    }

    /// The canonical tensor a module's update changes; `kind` is `weight` or `bias`.
    pub(super) fn resolve(
        &self,
        module: &str,
        kind: &str,
    ) -> Option<(LoraPart, String, Option<Rows>)> {
        let (part, path) = locate(module);
        // Flux's norms of queries and keys have scales.
        let kind = match kind {
            "weight" if path.ends_with("query_norm") || path.ends_with("key_norm") => "scale",
            kind => kind,
        };
        let name = format!("{path}.{kind}");
        if part != LoraPart::Diffusion {
            return known_text(&path).then_some((part, name, None));
        }
        let (target, op) = self.canonical(&name)?;
        let rows = match op {
            Op::Join { part, of } => Some(Rows { part, of }),
            // An update's rows would have to change places too; none is better than a wrong one.
            Op::SwapHalves => return None,
            _ => None,
        };
        Some((part, target, rows))
    }

    fn canonical(&self, name: &str) -> Option<(String, Op)> {
        let first = name.split('.').next()?;
        if let Some(name) = of_krea2(name).filter(|_| self.of_krea2) {
            return Some((name, Op::Keep));
        }
        if self.of_qwen_image && QWEN_IMAGE.contains(&first) {
            return Some((name.to_owned(), Op::Keep));
        }
        let mapper = match first {
            // Anima's own; others have one layer of that name.
            "x_embedder" if name.starts_with("x_embedder.proj.") => {
                return Some((name.to_owned(), Op::Keep));
            }
            "time_embedding" if name.contains(".linear_") => &self.unet,
            "down_blocks" | "up_blocks" | "mid_block" | "conv_in" | "conv_out"
            | "add_embedding" => &self.unet,
            "transformer_blocks"
            | "single_transformer_blocks"
            | "x_embedder"
            | "context_embedder"
            | "time_text_embed"
            | "norm_out"
            | "proj_out" => &self.flux,
            "condition_embedder" => &self.wan,
            "layers" | "noise_refiner" | "context_refiner" | "all_x_embedder"
            | "all_final_layer" => &self.z_image,
            "blocks"
                if [".attn1.", ".attn2.", ".ffn.net."]
                    .iter()
                    .any(|s| name.contains(s)) =>
            {
                &self.wan
            }
            first if ORIGINAL.contains(&first) => {
                return of_xlabs(name).or_else(|| Some((name.to_owned(), Op::Keep)));
            }
            _ => return None,
        };
        mapper.map(name)?.into_iter().next()
    }
}

/// The part and the dotted path of a module.
fn locate(module: &str) -> (LoraPart, String) {
    let (part, path) = strip(module);
    // Attention processors name the layer after the processor and leave out the list in `to_out`.
    let mut path = path.replace(".processor.", ".");
    if path.ends_with(".to_out") && path.contains(".attn") {
        path.push_str(".0");
    }
    (part, path)
}

fn strip(module: &str) -> (LoraPart, String) {
    if let Some((rest, part)) = FLAT
        .iter()
        .find_map(|(p, part)| Some((module.strip_prefix(p)?, part)))
    {
        let mut path = unflatten(rest);
        // The layers of a language model, of which the root is left out.
        if *part != LoraPart::Diffusion && path.starts_with("layers.") {
            path.insert_str(0, "model.");
        }
        return (*part, path);
    }
    let (mut rest, mut part) = (module, None);
    while let Some((tail, found)) = DOTTED
        .iter()
        .find_map(|(p, part)| Some((rest.strip_prefix(p)?, *part)))
    {
        // `transformer.` may also begin a text encoder's own names.
        if part.is_some() {
            break;
        }
        (rest, part) = (tail, found);
    }
    let by_name = if rest.starts_with("text_model.") {
        LoraPart::TextEncoder(0)
    } else {
        LoraPart::Diffusion
    };
    (part.unwrap_or(by_name), rest.to_owned())
}

/// Puts the dots back: the longest known word at each place, else up to the next underscore.
fn unflatten(flat: &str) -> String {
    let mut segments = Vec::new();
    let mut rest = flat;
    while !rest.is_empty() {
        let ends = |word: &&&str| {
            rest.strip_prefix(**word)
                .is_some_and(|t| t.is_empty() || t.starts_with('_'))
        };
        let word = WORDS.iter().filter(ends).max_by_key(|w| w.len()).copied();
        let segment = word.unwrap_or_else(|| rest.split('_').next().unwrap_or(rest));
        segments.push(segment);
        rest = rest[segment.len()..].trim_start_matches('_');
    }
    segments.join(".")
}

fn known_text(path: &str) -> bool {
    path.starts_with("text_model.")
        || path.starts_with("encoder.block.")
        || path.starts_with("text_projection")
        || path.starts_with("model.layers.")
}
