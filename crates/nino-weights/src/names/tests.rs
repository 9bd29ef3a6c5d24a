//! Tests of renaming: rules one by one, and cutting of fused tensors.

use std::path::PathBuf;

use nino_dtype::DType;

use super::{Component, canonical};
use crate::tests::golden;
use crate::{Entry, Format, Index, Span};

/// An index of f16 tensors laid out one after the other in a file that need not exist.
pub(crate) fn index<S: AsRef<str>>(file: &str, tensors: &[(S, Vec<usize>)]) -> Index {
    let mut offset = 0;
    let entries = tensors.iter().map(|(name, shape)| {
        let len = shape.iter().product::<usize>() as u64 * 2;
        offset += len;
        let span = Span {
            file: 0,
            offset: offset - len,
            len,
        };
        Entry::plain(name.as_ref().to_owned(), DType::F16, shape.clone(), span)
    });
    Index::new(
        Format::Safetensors,
        vec![PathBuf::from(file)],
        entries.collect(),
    )
}

/// Names and shapes that `goldens/weights/names` lists, ranges such as `{0-18}` written out.
pub(crate) fn golden_list(model: &str) -> Vec<(String, Vec<usize>)> {
    let text = std::fs::read_to_string(golden(&format!("names/{model}.txt"))).unwrap();
    let lines = text.lines().map(|line| line.rsplit_once(' ').unwrap());
    let sizes = |shape: &str| shape.split('x').map(|d| d.parse().unwrap()).collect();
    let tensors =
        lines.flat_map(|(name, shape)| expand(name).into_iter().map(move |n| (n, sizes(shape))));
    tensors.collect()
}

fn expand(name: &str) -> Vec<String> {
    let Some((head, rest)) = name.split_once('{') else {
        return vec![name.to_owned()];
    };
    let (range, tail) = rest.split_once('}').unwrap();
    let (a, b) = range.split_once('-').unwrap();
    (a.parse::<usize>().unwrap()..=b.parse().unwrap())
        .flat_map(|n| expand(&format!("{head}{n}{tail}")))
        .collect()
}

fn one(tensors: &[(&str, Vec<usize>)]) -> Component {
    let (mut components, rest) = canonical(&index("x", tensors)).unwrap();
    assert_eq!(components.len(), 1, "{components:?}");
    assert!(rest.is_empty(), "{rest:?}");
    components.remove(0)
}

#[test]
fn fused_projections_are_joined_and_split_without_reading() {
    let flux = one(&[
        (
            "transformer.single_transformer_blocks.0.proj_mlp.weight",
            vec![8, 2],
        ),
        (
            "transformer.single_transformer_blocks.0.attn.to_k.weight",
            vec![2, 2],
        ),
        (
            "transformer.single_transformer_blocks.0.attn.to_q.weight",
            vec![2, 2],
        ),
        (
            "transformer.single_transformer_blocks.0.attn.to_v.weight",
            vec![2, 2],
        ),
        ("transformer.norm_out.linear.weight", vec![4, 2]),
    ]);
    let fused = flux.index.get("single_blocks.0.linear1.weight").unwrap();
    assert_eq!(fused.shape, [14, 2]);
    // q, k, v, mlp, whatever their order in the file.
    assert_eq!(
        fused.spans.iter().map(|s| s.offset).collect::<Vec<_>>(),
        [40, 32, 48, 0]
    );
    let swapped = flux
        .index
        .get("final_layer.adaLN_modulation.1.weight")
        .unwrap();
    assert_eq!(
        swapped.spans.iter().map(|s| s.offset).collect::<Vec<_>>(),
        [64, 56]
    );

    let clip = one(&[
        (
            "conditioner.embedders.1.model.transformer.resblocks.0.attn.in_proj_weight",
            vec![6, 2],
        ),
        ("conditioner.embedders.1.model.text_projection", vec![2, 3]),
    ]);
    let v = clip
        .index
        .get("text_model.encoder.layers.0.self_attn.v_proj.weight")
        .unwrap();
    assert_eq!(
        (v.shape.as_slice(), v.spans[0].offset, v.spans[0].len),
        (&[2, 2][..], 16, 8)
    );
    let projection = clip.index.get("text_projection.weight").unwrap();
    assert_eq!(projection.shape, [3, 2]);
    assert_eq!(projection.strides.as_deref(), Some(&[1, 3][..]));
}

#[test]
fn a_missing_piece_is_named() {
    let tensors = [
        ("single_transformer_blocks.0.proj_mlp.weight", vec![8, 2]),
        ("single_transformer_blocks.0.attn.to_k.weight", vec![2, 2]),
    ];
    let error = canonical(&index("x", &tensors)).unwrap_err().to_string();
    assert!(
        error.contains("piece 0 of 4 of \"single_blocks.0.linear1.weight\""),
        "{error}"
    );
}

#[test]
fn gguf_and_wan_names_of_t5_are_known() {
    let gguf = one(&[
        ("enc.blk.0.attn_q.weight", vec![4, 4]),
        ("enc.blk.23.ffn_gate.weight", vec![4, 4]),
        ("token_embd.weight", vec![8, 4]),
    ]);
    assert!(
        gguf.index
            .contains("encoder.block.23.layer.1.DenseReluDense.wi_0.weight")
    );
    assert!(gguf.index.contains("shared.weight"));
    let wan = one(&[
        ("blocks.0.attn.q.weight", vec![4, 4]),
        ("token_embedding.weight", vec![8, 4]),
    ]);
    assert!(
        wan.index
            .contains("encoder.block.0.layer.0.SelfAttention.q.weight")
    );
}

#[test]
fn bookkeeping_and_training_leftovers_belong_to_nothing() {
    let tensors = [
        (
            "model.diffusion_model.input_blocks.0.0.weight",
            vec![4, 4, 3, 3],
        ),
        ("model_ema.diffusion_modelinput_blocks00weight", vec![4]),
        ("alphas_cumprod", vec![1000]),
        (
            "first_stage_model.decoder.mid.block_1.norm1.weight",
            vec![4],
        ),
        ("first_stage_model.loss.discriminator.weight", vec![4]),
        (
            "cond_stage_model.transformer.text_model.embeddings.position_ids",
            vec![77],
        ),
        ("something.else", vec![1]),
    ];
    let (components, rest) = canonical(&index("x", &tensors)).unwrap();
    assert_eq!(
        components
            .iter()
            .map(|c| c.index.entries().len())
            .collect::<Vec<_>>(),
        [1, 1]
    );
    assert_eq!(
        rest,
        [
            "cond_stage_model.transformer.text_model.embeddings.position_ids",
            "something.else"
        ]
    );
}

#[test]
fn a_control_net_is_not_a_unet() {
    for hint in [
        "input_hint_block.0.weight",
        "controlnet_cond_embedding.conv_in.weight",
    ] {
        let signature = ["input_blocks.0.0.weight", "time_embedding.linear_1.weight"]
            [usize::from(hint.starts_with('c'))];
        let found = one(&[(signature, vec![4, 4, 3, 3]), (hint, vec![4, 3, 3, 3])]);
        assert_eq!(found.net, super::Net::ControlNet, "{hint}");
    }
}

#[test]
fn numbers_that_no_network_has_are_none() {
    let huge = usize::MAX;
    for name in [
        format!("down_blocks.{huge}.resnets.0.norm1.weight"),
        format!("up_blocks.0.resnets.{huge}.norm1.weight"),
        format!("mid_block.resnets.{huge}.norm1.weight"),
    ] {
        assert_eq!(super::unet::from_diffusers(&name, 2, 0), None, "{name}");
    }
    let name = format!("controlnet_cond_embedding.blocks.{huge}.weight");
    assert_eq!(super::unet::control_from_diffusers(&name, 2), None);
}
