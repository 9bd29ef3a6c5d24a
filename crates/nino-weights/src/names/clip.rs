//! `open_clip` text towers (SD 2, SDXL) to the Hugging Face layout of CLIP text models.

use super::rules::{Captures, rewrite_op};
use super::{Op, Targets};

const RULES: &[(&str, &str, Op)] = &[
    (
        "token_embedding.weight",
        "text_model.embeddings.token_embedding.weight",
        Op::Keep,
    ),
    (
        "positional_embedding",
        "text_model.embeddings.position_embedding.weight",
        Op::Keep,
    ),
    ("ln_final.*", "text_model.final_layer_norm.*", Op::Keep),
    ("text_projection", "text_projection.weight", Op::Transpose),
    ("text_projection.weight", "text_projection.weight", Op::Keep),
    ("logit_scale", "logit_scale", Op::Keep),
    (
        "transformer.resblocks.*.ln_1.*",
        "text_model.encoder.layers.*.layer_norm1.*",
        Op::Keep,
    ),
    (
        "transformer.resblocks.*.ln_2.*",
        "text_model.encoder.layers.*.layer_norm2.*",
        Op::Keep,
    ),
    (
        "transformer.resblocks.*.mlp.c_fc.*",
        "text_model.encoder.layers.*.mlp.fc1.*",
        Op::Keep,
    ),
    (
        "transformer.resblocks.*.mlp.c_proj.*",
        "text_model.encoder.layers.*.mlp.fc2.*",
        Op::Keep,
    ),
    (
        "transformer.resblocks.*.attn.out_proj.*",
        "text_model.encoder.layers.*.self_attn.out_proj.*",
        Op::Keep,
    ),
];

/// The original keeps q, k and v in one matrix; the target has three.
const FUSED: [(&str, &str); 2] = [
    ("transformer.resblocks.*.attn.in_proj_weight", "weight"),
    ("transformer.resblocks.*.attn.in_proj_bias", "bias"),
];

pub(super) fn from_open_clip(name: &str) -> Option<Targets> {
    for (pattern, kind) in FUSED {
        if let Some(captures) = Captures::of(pattern, name) {
            let target = |(part, which)| {
                let name = format!("text_model.encoder.layers.*.self_attn.{which}_proj.{kind}");
                (captures.fill(&name), Op::Slice { part, of: 3 })
            };
            return Some(
                ["q", "k", "v"]
                    .into_iter()
                    .enumerate()
                    .map(target)
                    .collect(),
            );
        }
    }
    Some(vec![rewrite_op(RULES, name)?])
}
