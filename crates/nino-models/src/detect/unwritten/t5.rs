//! T5 v1.1 and UMT5 encoders, in the Hugging Face layout.

use super::List;
use crate::describe::TensorSpec;

pub(in crate::detect) struct T5 {
    vocab: usize,
    d: usize,
    ff: usize,
    layers: usize,
    heads: usize,
    /// UMT5 has relative positions in every layer, T5 in the first.
    bias_everywhere: bool,
}

impl T5 {
    pub(in crate::detect) const XXL: T5 = T5 {
        vocab: 32128,
        d: 4096,
        ff: 10240,
        layers: 24,
        heads: 64,
        bias_everywhere: false,
    };
    pub(in crate::detect) const XL: T5 = T5 {
        d: 2048,
        ff: 5120,
        heads: 32,
        ..T5::XXL
    };
    pub(in crate::detect) const LARGE: T5 = T5 {
        d: 1024,
        ff: 2816,
        heads: 16,
        ..T5::XXL
    };
    pub(in crate::detect) const BASE: T5 = T5 {
        d: 768,
        ff: 2048,
        layers: 12,
        heads: 12,
        ..T5::XXL
    };
    pub(in crate::detect) const UMT5_XXL: T5 = T5 {
        vocab: 256_384,
        bias_everywhere: true,
        ..T5::XXL
    };
    pub(in crate::detect) const UMT5_BASE: T5 = T5 {
        vocab: 256_384,
        bias_everywhere: true,
        ..T5::BASE
    };
}

const HEAD: usize = 64;
const BUCKETS: usize = 32;

pub(in crate::detect) fn t5(c: &T5) -> Vec<TensorSpec> {
    let mut s = List::default();
    let inner = c.heads * HEAD;
    s.weight("shared", &[c.vocab, c.d]);
    for i in 0..c.layers {
        let attn = format!("encoder.block.{i}.layer.0");
        for proj in ["q", "k", "v"] {
            s.weight(&format!("{attn}.SelfAttention.{proj}"), &[inner, c.d]);
        }
        s.weight(&format!("{attn}.SelfAttention.o"), &[c.d, inner]);
        if i == 0 || c.bias_everywhere {
            let name = format!("{attn}.SelfAttention.relative_attention_bias");
            s.weight(&name, &[BUCKETS, c.heads]);
        }
        s.weight(&format!("{attn}.layer_norm"), &[c.d]);
        let ff = format!("encoder.block.{i}.layer.1");
        s.weight(&format!("{ff}.DenseReluDense.wi_0"), &[c.ff, c.d]);
        s.weight(&format!("{ff}.DenseReluDense.wi_1"), &[c.ff, c.d]);
        s.weight(&format!("{ff}.DenseReluDense.wo"), &[c.d, c.ff]);
        s.weight(&format!("{ff}.layer_norm"), &[c.d]);
    }
    s.weight("encoder.final_layer_norm", &[c.d]);
    s.tensors
}
