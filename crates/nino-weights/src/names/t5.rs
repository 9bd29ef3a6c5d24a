//! T5 and UMT5 encoders to the Hugging Face layout: from llama.cpp's names and from Wan's.

use super::rules::rewrite;

const LLAMA_CPP: &[(&str, &str)] = &[
    ("token_embd.weight", "shared.weight"),
    ("enc.output_norm.weight", "encoder.final_layer_norm.weight"),
    (
        "enc.blk.*.attn_norm.weight",
        "encoder.block.*.layer.0.layer_norm.weight",
    ),
    (
        "enc.blk.*.attn_q.weight",
        "encoder.block.*.layer.0.SelfAttention.q.weight",
    ),
    (
        "enc.blk.*.attn_k.weight",
        "encoder.block.*.layer.0.SelfAttention.k.weight",
    ),
    (
        "enc.blk.*.attn_v.weight",
        "encoder.block.*.layer.0.SelfAttention.v.weight",
    ),
    (
        "enc.blk.*.attn_o.weight",
        "encoder.block.*.layer.0.SelfAttention.o.weight",
    ),
    (
        "enc.blk.*.attn_rel_b.weight",
        "encoder.block.*.layer.0.SelfAttention.relative_attention_bias.weight",
    ),
    (
        "enc.blk.*.ffn_norm.weight",
        "encoder.block.*.layer.1.layer_norm.weight",
    ),
    (
        "enc.blk.*.ffn_gate.weight",
        "encoder.block.*.layer.1.DenseReluDense.wi_0.weight",
    ),
    (
        "enc.blk.*.ffn_up.weight",
        "encoder.block.*.layer.1.DenseReluDense.wi_1.weight",
    ),
    (
        "enc.blk.*.ffn_down.weight",
        "encoder.block.*.layer.1.DenseReluDense.wo.weight",
    ),
];

const WAN: &[(&str, &str)] = &[
    ("token_embedding.weight", "shared.weight"),
    ("norm.weight", "encoder.final_layer_norm.weight"),
    (
        "blocks.*.norm1.weight",
        "encoder.block.*.layer.0.layer_norm.weight",
    ),
    (
        "blocks.*.attn.q.weight",
        "encoder.block.*.layer.0.SelfAttention.q.weight",
    ),
    (
        "blocks.*.attn.k.weight",
        "encoder.block.*.layer.0.SelfAttention.k.weight",
    ),
    (
        "blocks.*.attn.v.weight",
        "encoder.block.*.layer.0.SelfAttention.v.weight",
    ),
    (
        "blocks.*.attn.o.weight",
        "encoder.block.*.layer.0.SelfAttention.o.weight",
    ),
    (
        "blocks.*.pos_embedding.embedding.weight",
        "encoder.block.*.layer.0.SelfAttention.relative_attention_bias.weight",
    ),
    (
        "blocks.*.norm2.weight",
        "encoder.block.*.layer.1.layer_norm.weight",
    ),
    (
        "blocks.*.ffn.gate.0.weight",
        "encoder.block.*.layer.1.DenseReluDense.wi_0.weight",
    ),
    (
        "blocks.*.ffn.fc1.weight",
        "encoder.block.*.layer.1.DenseReluDense.wi_1.weight",
    ),
    (
        "blocks.*.ffn.fc2.weight",
        "encoder.block.*.layer.1.DenseReluDense.wo.weight",
    ),
];

pub(super) fn from_llama_cpp(name: &str) -> Option<String> {
    rewrite(LLAMA_CPP, name)
}

pub(super) fn from_wan(name: &str) -> Option<String> {
    rewrite(WAN, name)
}

/// Some encoders are saved with only the tied copy of the embedding.
pub(super) fn from_hf(name: &str) -> String {
    let tied = name == "encoder.embed_tokens.weight";
    if tied { "shared.weight" } else { name }.to_owned()
}
