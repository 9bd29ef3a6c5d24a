//! Language models as text encoders: llama.cpp's names, and those of models that also see, to
//! Hugging Face's for text alone.

use super::rules::rewrite;

const LLAMA_CPP: &[(&str, &str)] = &[
    ("token_embd.weight", "model.embed_tokens.weight"),
    ("output_norm.weight", "model.norm.weight"),
    ("output.weight", "lm_head.weight"),
    (
        "blk.*.attn_norm.weight",
        "model.layers.*.input_layernorm.weight",
    ),
    ("blk.*.attn_q.*", "model.layers.*.self_attn.q_proj.*"),
    ("blk.*.attn_k.*", "model.layers.*.self_attn.k_proj.*"),
    ("blk.*.attn_v.*", "model.layers.*.self_attn.v_proj.*"),
    (
        "blk.*.attn_output.weight",
        "model.layers.*.self_attn.o_proj.weight",
    ),
    (
        "blk.*.attn_q_norm.weight",
        "model.layers.*.self_attn.q_norm.weight",
    ),
    (
        "blk.*.attn_k_norm.weight",
        "model.layers.*.self_attn.k_norm.weight",
    ),
    (
        "blk.*.ffn_norm.weight",
        "model.layers.*.post_attention_layernorm.weight",
    ),
    (
        "blk.*.ffn_gate.weight",
        "model.layers.*.mlp.gate_proj.weight",
    ),
    ("blk.*.ffn_up.weight", "model.layers.*.mlp.up_proj.weight"),
    (
        "blk.*.ffn_down.weight",
        "model.layers.*.mlp.down_proj.weight",
    ),
];

pub(super) fn from_llama_cpp(name: &str) -> Option<String> {
    rewrite(LLAMA_CPP, name)
}

/// Models that also see have their language half one level deeper.
pub(super) fn from_hf(name: &str) -> String {
    match name.strip_prefix("model.language_model.") {
        Some(rest) => format!("model.{rest}"),
        None => name.to_owned(),
    }
}
