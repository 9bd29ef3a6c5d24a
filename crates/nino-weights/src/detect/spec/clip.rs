//! CLIP text encoders, in the Hugging Face layout.

use super::{Need, Spec};

const VOCAB: usize = 49408;
const POSITIONS: usize = 77;

pub(in crate::detect) fn clip(layers: usize, d: usize, mlp: usize) -> Spec {
    text_model([VOCAB, POSITIONS], layers, d, mlp)
}

/// The encoder of the model this program carries: own vocabulary, short prompts.
pub(in crate::detect) fn emoji_clip() -> Spec {
    text_model([3072, 32], 4, 256, 1024)
}

fn text_model([vocab, positions]: [usize; 2], layers: usize, d: usize, mlp: usize) -> Spec {
    let mut s = Spec::default();
    s.weight("text_model.embeddings.token_embedding", &[vocab, d]);
    s.weight("text_model.embeddings.position_embedding", &[positions, d]);
    for i in 0..layers {
        let layer = format!("text_model.encoder.layers.{i}");
        for proj in ["q_proj", "k_proj", "v_proj", "out_proj"] {
            s.linear(&format!("{layer}.self_attn.{proj}"), d, d);
        }
        s.norm(&format!("{layer}.layer_norm1"), d);
        s.linear(&format!("{layer}.mlp.fc1"), mlp, d);
        s.linear(&format!("{layer}.mlp.fc2"), d, mlp);
        s.norm(&format!("{layer}.layer_norm2"), d);
    }
    s.norm("text_model.final_layer_norm", d);
    s.need(Need::Optional);
    s.weight("text_projection", &[d, d]);
    s.raw("logit_scale", &[]);
    s
}
