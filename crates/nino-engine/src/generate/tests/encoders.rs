//! Text encoders as files have them beside f16: GGUF, fp8 and int8, each against the plain numbers
//! that its file stands for.

use super::comfy::{PROMPT, control, store};
use crate::tests::made;
use crate::tests::stored::{Tensor, in_blocks, nmse, plain, scaled, tensors};
use crate::{Family, TextEncoders, encode_text};
use nino_dtype::DType;
use std::path::Path;

const PLACE: &str = "text_encoders.qwen3_4b.transformer.";
/// Names of layers, and llama.cpp's.
const LLAMA: [(&str, &str); 11] = [
    ("input_layernorm", "attn_norm"),
    ("mlp.down_proj", "ffn_down"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("post_attention_layernorm", "ffn_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.v_proj", "attn_v"),
];

/// The encoder of the small Z-Image.
fn encoder(folder: &Path) -> Vec<Tensor> {
    let list = made::list("tiny_z_image");
    let own = list.lines().filter_map(|line| line.strip_prefix(PLACE));
    let own = own.fold(String::new(), |all, line| all + line + "\n");
    let path = folder.join("whole.safetensors");
    made::write_list(&own, &path);
    tensors(&path)
}

/// The name that llama.cpp gives a tensor.
fn llama(name: &str) -> String {
    match name {
        "model.embed_tokens.weight" => "token_embd.weight".to_owned(),
        "model.norm.weight" => "output_norm.weight".to_owned(),
        name => {
            let rest = name.strip_prefix("model.layers.").unwrap();
            let (i, layer) = rest.split_once('.').unwrap();
            let layer = layer.strip_suffix(".weight").unwrap();
            let (_, own) = LLAMA.iter().find(|(name, _)| *name == layer).unwrap();
            format!("blk.{i}.{own}.weight")
        }
    }
}

fn states(path: &Path) -> Vec<f32> {
    let text = TextEncoders::open(&[path.to_path_buf()]).unwrap();
    assert_eq!(text.family, Family::ZImage);
    control(|c| encode_text(&store(), &text, PROMPT, &[], c))
        .0
        .context
        .to_vec()
}

#[test]
fn encoders_in_gguf_fp8_and_int8_give_what_their_numbers_give() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let tensors = encoder(folder.path());
    let unchanged: Vec<Vec<f32>> = tensors.iter().map(|t| t.values.clone()).collect();
    let whole = states(&plain(at("f32.safetensors"), &tensors, &unchanged));
    // Products of 8 bits may round their other factor to 8 bits, too.
    for (name, (path, values), limit) in [
        ("gguf", in_blocks(at("q8.gguf"), &tensors, llama), 1e-3),
        (
            "fp8",
            scaled(at("fp8.safetensors"), &tensors, DType::F8E4M3),
            1e-8,
        ),
        (
            "int8",
            scaled(at("int8.safetensors"), &tensors, DType::I8),
            1e-3,
        ),
    ] {
        let wanted = states(&plain(at("numbers.safetensors"), &tensors, &values));
        let found = states(&path);
        let (near, rounding) = (nmse(&found, &wanted), nmse(&wanted, &whole));
        println!("{name}: NMSE {near:.1e}; its rounding alone {rounding:.1e}");
        assert!(near <= limit, "{name}: NMSE {near:.1e}");
        assert!(rounding > 1e-9, "{name}: its numbers are not those of f16");
    }
}

/// Rotary tables and causal masks depend on the number of tokens; the weights do not.
#[test]
fn prompts_of_all_lengths_share_an_encoders_weights() {
    let folder = tempfile::tempdir().unwrap();
    encoder(folder.path());
    let path = folder.path().join("whole.safetensors");
    let text = TextEncoders::open(&[path]).unwrap();
    let store = store();
    for prompt in ["a fox", PROMPT, "a fox in a deep forest, at night, in snow"] {
        control(|c| encode_text(&store, &text, prompt, &[], c));
    }
    assert_eq!(store.usage().loads, 1);
}
