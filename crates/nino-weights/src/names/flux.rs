//! diffusers' `FluxTransformer2DModel` and `ChromaTransformer2DModel` to Black Forest Labs' names.
//! The original fuses q, k and v (and the first MLP matrix in single blocks), and its last
//! modulation has shift before scale.

use super::rules::rewrite_op;
use super::{Op, Targets};

const QKV: [Op; 3] = [
    Op::Join { part: 0, of: 3 },
    Op::Join { part: 1, of: 3 },
    Op::Join { part: 2, of: 3 },
];
const QKV_MLP: [Op; 4] = [
    Op::Join { part: 0, of: 4 },
    Op::Join { part: 1, of: 4 },
    Op::Join { part: 2, of: 4 },
    Op::Join { part: 3, of: 4 },
];

const RULES: &[(&str, &str, Op)] = &[
    ("x_embedder.*", "img_in.*", Op::Keep),
    ("context_embedder.*", "txt_in.*", Op::Keep),
    (
        "time_text_embed.timestep_embedder.linear_1.*",
        "time_in.in_layer.*",
        Op::Keep,
    ),
    (
        "time_text_embed.timestep_embedder.linear_2.*",
        "time_in.out_layer.*",
        Op::Keep,
    ),
    (
        "time_text_embed.text_embedder.linear_1.*",
        "vector_in.in_layer.*",
        Op::Keep,
    ),
    (
        "time_text_embed.text_embedder.linear_2.*",
        "vector_in.out_layer.*",
        Op::Keep,
    ),
    (
        "time_text_embed.guidance_embedder.linear_1.*",
        "guidance_in.in_layer.*",
        Op::Keep,
    ),
    (
        "time_text_embed.guidance_embedder.linear_2.*",
        "guidance_in.out_layer.*",
        Op::Keep,
    ),
    (
        "norm_out.linear.*",
        "final_layer.adaLN_modulation.1.*",
        Op::SwapHalves,
    ),
    ("proj_out.*", "final_layer.linear.*", Op::Keep),
    (
        "transformer_blocks.*.norm1.linear.*",
        "double_blocks.*.img_mod.lin.*",
        Op::Keep,
    ),
    (
        "transformer_blocks.*.norm1_context.linear.*",
        "double_blocks.*.txt_mod.lin.*",
        Op::Keep,
    ),
    (
        "transformer_blocks.*.attn.to_q.*",
        "double_blocks.*.img_attn.qkv.*",
        QKV[0],
    ),
    (
        "transformer_blocks.*.attn.to_k.*",
        "double_blocks.*.img_attn.qkv.*",
        QKV[1],
    ),
    (
        "transformer_blocks.*.attn.to_v.*",
        "double_blocks.*.img_attn.qkv.*",
        QKV[2],
    ),
    (
        "transformer_blocks.*.attn.add_q_proj.*",
        "double_blocks.*.txt_attn.qkv.*",
        QKV[0],
    ),
    (
        "transformer_blocks.*.attn.add_k_proj.*",
        "double_blocks.*.txt_attn.qkv.*",
        QKV[1],
    ),
    (
        "transformer_blocks.*.attn.add_v_proj.*",
        "double_blocks.*.txt_attn.qkv.*",
        QKV[2],
    ),
    (
        "transformer_blocks.*.attn.norm_q.weight",
        "double_blocks.*.img_attn.norm.query_norm.scale",
        Op::Keep,
    ),
    (
        "transformer_blocks.*.attn.norm_k.weight",
        "double_blocks.*.img_attn.norm.key_norm.scale",
        Op::Keep,
    ),
    (
        "transformer_blocks.*.attn.norm_added_q.weight",
        "double_blocks.*.txt_attn.norm.query_norm.scale",
        Op::Keep,
    ),
    (
        "transformer_blocks.*.attn.norm_added_k.weight",
        "double_blocks.*.txt_attn.norm.key_norm.scale",
        Op::Keep,
    ),
    (
        "transformer_blocks.*.attn.to_out.0.*",
        "double_blocks.*.img_attn.proj.*",
        Op::Keep,
    ),
    (
        "transformer_blocks.*.attn.to_add_out.*",
        "double_blocks.*.txt_attn.proj.*",
        Op::Keep,
    ),
    (
        "transformer_blocks.*.ff.net.0.proj.*",
        "double_blocks.*.img_mlp.0.*",
        Op::Keep,
    ),
    (
        "transformer_blocks.*.ff.net.2.*",
        "double_blocks.*.img_mlp.2.*",
        Op::Keep,
    ),
    (
        "transformer_blocks.*.ff_context.net.0.proj.*",
        "double_blocks.*.txt_mlp.0.*",
        Op::Keep,
    ),
    (
        "transformer_blocks.*.ff_context.net.2.*",
        "double_blocks.*.txt_mlp.2.*",
        Op::Keep,
    ),
    // Flux.2's, in LoRAs.
    (
        "transformer_blocks.*.ff.linear_in.*",
        "double_blocks.*.img_mlp.0.*",
        Op::Keep,
    ),
    (
        "transformer_blocks.*.ff.linear_out.*",
        "double_blocks.*.img_mlp.2.*",
        Op::Keep,
    ),
    (
        "transformer_blocks.*.ff_context.linear_in.*",
        "double_blocks.*.txt_mlp.0.*",
        Op::Keep,
    ),
    (
        "transformer_blocks.*.ff_context.linear_out.*",
        "double_blocks.*.txt_mlp.2.*",
        Op::Keep,
    ),
    (
        "single_transformer_blocks.*.attn.to_qkv_mlp_proj.*",
        "single_blocks.*.linear1.*",
        Op::Keep,
    ),
    (
        "single_transformer_blocks.*.attn.to_out.0.*",
        "single_blocks.*.linear2.*",
        Op::Keep,
    ),
    (
        "single_transformer_blocks.*.attn.to_out.*",
        "single_blocks.*.linear2.*",
        Op::Keep,
    ),
    (
        "single_transformer_blocks.*.norm.linear.*",
        "single_blocks.*.modulation.lin.*",
        Op::Keep,
    ),
    (
        "single_transformer_blocks.*.attn.to_q.*",
        "single_blocks.*.linear1.*",
        QKV_MLP[0],
    ),
    (
        "single_transformer_blocks.*.attn.to_k.*",
        "single_blocks.*.linear1.*",
        QKV_MLP[1],
    ),
    (
        "single_transformer_blocks.*.attn.to_v.*",
        "single_blocks.*.linear1.*",
        QKV_MLP[2],
    ),
    (
        "single_transformer_blocks.*.proj_mlp.*",
        "single_blocks.*.linear1.*",
        QKV_MLP[3],
    ),
    (
        "single_transformer_blocks.*.attn.norm_q.weight",
        "single_blocks.*.norm.query_norm.scale",
        Op::Keep,
    ),
    (
        "single_transformer_blocks.*.attn.norm_k.weight",
        "single_blocks.*.norm.key_norm.scale",
        Op::Keep,
    ),
    (
        "single_transformer_blocks.*.proj_out.*",
        "single_blocks.*.linear2.*",
        Op::Keep,
    ),
];

/// Chroma's small network, which makes the modulation of all blocks.
const APPROXIMATOR: &[(&str, &str, Op)] = &[
    (
        "distilled_guidance_layer.*.*",
        "distilled_guidance_layer.*.*",
        Op::Keep,
    ),
    (
        "distilled_guidance_layer.layers.*.linear_1.*",
        "distilled_guidance_layer.layers.*.in_layer.*",
        Op::Keep,
    ),
    (
        "distilled_guidance_layer.layers.*.linear_2.*",
        "distilled_guidance_layer.layers.*.out_layer.*",
        Op::Keep,
    ),
    (
        "distilled_guidance_layer.norms.*.weight",
        "distilled_guidance_layer.norms.*.scale",
        Op::Keep,
    ),
];

pub(super) fn from_diffusers(name: &str) -> Option<Targets> {
    let known = rewrite_op(RULES, name).or_else(|| rewrite_op(APPROXIMATOR, name));
    Some(vec![known?])
}

/// The layers that a `ControlNet` of Flux has beside the blocks.
const CONTROL: &[(&str, &str, Op)] = &[
    ("controlnet_x_embedder.*", "pos_embed_input.*", Op::Keep),
    ("controlnet_blocks.*.*", "controlnet_blocks.*.*", Op::Keep),
    (
        "controlnet_single_blocks.*.*",
        "controlnet_single_blocks.*.*",
        Op::Keep,
    ),
    (
        "controlnet_mode_embedder.*",
        "controlnet_mode_embedder.*",
        Op::Keep,
    ),
];

/// The same of a `ControlNet`.
pub(super) fn control_from_diffusers(name: &str) -> Option<Targets> {
    let known = rewrite_op(CONTROL, name).map(|known| vec![known]);
    known.or_else(|| from_diffusers(name))
}

/// The original layout; newer savers call the norms' scale a weight.
pub(super) fn from_original(name: &str) -> String {
    for norm in ["query_norm", "key_norm"] {
        if let Some(head) = name.strip_suffix(&format!("{norm}.weight")) {
            return format!("{head}{norm}.scale");
        }
    }
    let norms = name.starts_with("distilled_guidance_layer.norms.");
    match name.strip_suffix(".weight").filter(|_| norms) {
        Some(head) => format!("{head}.scale"),
        None => name.to_owned(),
    }
}
