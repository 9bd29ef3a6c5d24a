//! Tests of LoRA files.

use std::path::Path;
use std::sync::Arc;

use nino_dtype::DType;

use super::{ControlLora, Delta, Factor, LoraFormat, LoraPart, Rows, parse, recognize};
use crate::names::canonical;
use crate::names::tests::{golden_list, index};
use crate::safetensors::{NewTensor, Writer};
use crate::{TensorReader, open};

fn write(dir: &Path, tensors: &[(&str, Vec<usize>, f32)]) -> TensorReader {
    let path = dir.join("lora.safetensors");
    let list: Vec<NewTensor> = tensors
        .iter()
        .map(|(n, s, _)| NewTensor {
            name: (*n).into(),
            dtype: DType::F32,
            shape: s.clone(),
        })
        .collect();
    let mut writer = Writer::create(&path, &list, &std::collections::BTreeMap::new()).unwrap();
    for (_, shape, value) in tensors {
        let n = shape.iter().product::<usize>();
        writer.write(&value.to_le_bytes().repeat(n)).unwrap();
    }
    writer.finish().unwrap();
    open(path).unwrap()
}

#[test]
fn a_real_lora_resolves_every_target() {
    let Some(path) = nino_testing::data_or_skip("lora/sd15_rank4.safetensors") else {
        return;
    };
    let reader = open(path).unwrap();
    let lora = parse(&reader).unwrap();
    assert_eq!(lora.format, LoraFormat::AttnProcs);
    assert_eq!(lora.updates.len(), 128);
    let (unet, _) = canonical(&index("x", &golden_list("sd1"))).unwrap();
    let sd1 = &unet[0].index;
    assert!(lora.unmatched(LoraPart::Diffusion, sd1).is_empty());
    for update in &lora.updates {
        let Delta::LowRank(low) = &update.delta else {
            panic!()
        };
        let target = sd1.shape(&update.target).unwrap();
        assert_eq!(
            (low.up.shape[0], low.down.shape[1], low.rank, low.scale),
            (target[0], target[1], 4, 1.0)
        );
    }
}

#[test]
fn kohya_names_resolve_in_every_base() {
    let dir = tempfile::tempdir().unwrap();
    let modules = [
        (
            "lora_unet_down_blocks_1_attentions_0_transformer_blocks_0_attn1_to_out_0",
            "input_blocks.4.1.transformer_blocks.0.attn1.to_out.0.weight",
        ),
        (
            "lora_unet_mid_block_attentions_0_proj_in",
            "middle_block.1.proj_in.weight",
        ),
        (
            "lora_unet_up_blocks_1_attentions_2_transformer_blocks_0_ff_net_0_proj",
            "output_blocks.5.1.transformer_blocks.0.ff.net.0.proj.weight",
        ),
        (
            "lora_unet_up_blocks_1_upsamplers_0_conv",
            "output_blocks.5.2.conv.weight",
        ),
        (
            "lora_unet_down_blocks_0_resnets_1_conv1",
            "input_blocks.2.0.in_layers.2.weight",
        ),
        (
            "lora_unet_input_blocks_4_1_transformer_blocks_1_attn2_to_k",
            "input_blocks.4.1.transformer_blocks.1.attn2.to_k.weight",
        ),
        (
            "lora_te1_text_model_encoder_layers_11_self_attn_q_proj",
            "text_model.encoder.layers.11.self_attn.q_proj.weight",
        ),
        (
            "lora_te2_text_model_encoder_layers_0_mlp_fc1",
            "text_model.encoder.layers.0.mlp.fc1.weight",
        ),
        (
            "lora_unet_double_blocks_0_img_attn_qkv",
            "double_blocks.0.img_attn.qkv.weight",
        ),
        (
            "lora_unet_single_blocks_37_linear2",
            "single_blocks.37.linear2.weight",
        ),
        (
            "lora_unet_blocks_0_self_attn_q",
            "blocks.0.self_attn.q.weight",
        ),
        (
            "lora_unet_blocks_0_cross_attn_k_img",
            "blocks.0.cross_attn.k_img.weight",
        ),
    ];
    let names: Vec<[String; 3]> = modules
        .map(|(m, _)| {
            [
                format!("{m}.lora_down.weight"),
                format!("{m}.lora_up.weight"),
                format!("{m}.alpha"),
            ]
        })
        .to_vec();
    let mut tensors = Vec::new();
    for [down, up, alpha] in &names {
        tensors.push((down.as_str(), vec![4, 8], 0.0));
        tensors.push((up.as_str(), vec![8, 4], 0.0));
        tensors.push((alpha.as_str(), vec![], 2.0));
    }
    let lora = parse(&write(dir.path(), &tensors)).unwrap();
    assert_eq!(lora.format, LoraFormat::Kohya);
    for (module, target) in modules {
        let update = lora
            .updates
            .iter()
            .find(|u| u.target == target)
            .unwrap_or_else(|| panic!("{module}"));
        let Delta::LowRank(low) = &update.delta else {
            panic!()
        };
        assert_eq!((low.alpha, low.scale), (Some(2.0), 0.5), "{module}");
    }
    let te2 = lora
        .updates
        .iter()
        .filter(|u| u.part == LoraPart::TextEncoder(1))
        .count();
    assert_eq!(te2, 1);
}

#[test]
fn updates_of_z_image_find_their_rows() {
    let dir = tempfile::tempdir().unwrap();
    let modules = [
        "diffusion_model.layers.3.attention.to_k",
        "diffusion_model.layers.3.attention.to_out.0",
        "diffusion_model.noise_refiner.1.feed_forward.w2",
        "lora_unet_layers_0_adaLN_modulation_0",
        "lora_unet_context_refiner_0_attention_to_q",
    ];
    let pairs = modules.iter().flat_map(|module| {
        let (down, up) = if module.starts_with("lora_unet") {
            ("lora_down", "lora_up")
        } else {
            ("lora_A", "lora_B")
        };
        [
            (format!("{module}.{down}.weight"), vec![2, 8]),
            (format!("{module}.{up}.weight"), vec![8, 2]),
        ]
    });
    let pairs: Vec<_> = pairs.collect();
    let tensors = pairs
        .iter()
        .map(|(name, shape)| (name.as_str(), shape.clone(), 0.0));
    let lora = parse(&write(dir.path(), &tensors.collect::<Vec<_>>())).unwrap();
    let found = lora.updates.iter().map(|u| (u.target.as_str(), u.rows));
    let mut found: Vec<_> = found.collect();
    found.sort_by_key(|(target, _)| *target);
    assert_eq!(
        found,
        [
            (
                "context_refiner.0.attention.qkv.weight",
                Some(Rows { part: 0, of: 3 })
            ),
            ("layers.0.adaLN_modulation.0.weight", None),
            ("layers.3.attention.out.weight", None),
            (
                "layers.3.attention.qkv.weight",
                Some(Rows { part: 1, of: 3 })
            ),
            ("noise_refiner.1.feed_forward.w2.weight", None),
        ]
    );
}

#[test]
fn peft_updates_of_fused_tensors_carry_their_rows() {
    let dir = tempfile::tempdir().unwrap();
    let reader = write(
        dir.path(),
        &[
            (
                "transformer.single_transformer_blocks.3.attn.to_v.lora_A.weight",
                vec![2, 8],
                0.0,
            ),
            (
                "transformer.single_transformer_blocks.3.attn.to_v.lora_B.weight",
                vec![8, 2],
                0.0,
            ),
            (
                "transformer.transformer_blocks.0.attn.to_out.0.lora_A.weight",
                vec![2, 8],
                0.0,
            ),
            (
                "transformer.transformer_blocks.0.attn.to_out.0.lora_B.weight",
                vec![8, 2],
                0.0,
            ),
            (
                "diffusion_model.blocks.0.self_attn.norm_q.diff",
                vec![8],
                0.0,
            ),
            ("diffusion_model.blocks.0.ffn.0.diff_b", vec![8], 0.0),
        ],
    );
    let lora = parse(&reader).unwrap();
    assert_eq!(lora.format, LoraFormat::Peft);
    let targets: Vec<_> = lora
        .updates
        .iter()
        .map(|u| (u.target.as_str(), u.rows))
        .collect();
    assert_eq!(
        targets,
        [
            ("blocks.0.ffn.0.bias", None),
            ("blocks.0.self_attn.norm_q.weight", None),
            ("double_blocks.0.img_attn.proj.weight", None),
            (
                "single_blocks.3.linear1.weight",
                Some(Rows { part: 2, of: 4 })
            ),
        ]
    );
}

#[test]
fn other_adapters_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    for (end, format) in [("oft_diag", "OFT"), ("on_input", "IA3")] {
        let name = format!("lora_unet_mid_block_attentions_0_proj_in.{end}");
        let reader = write(dir.path(), &[(name.as_str(), vec![4, 4], 0.0)]);
        assert!(recognize(reader.index()).is_some());
        let error = parse(&reader).unwrap_err().to_string();
        assert!(error.contains(format) && error.contains(&name), "{error}");
    }
}

#[test]
fn broken_pairs_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let base = "lora_unet_mid_block_attentions_0_proj_in";
    let (down, up) = (
        format!("{base}.lora_down.weight"),
        format!("{base}.lora_up.weight"),
    );
    let error = parse(&write(dir.path(), &[(&down, vec![4, 8], 0.0)]))
        .unwrap_err()
        .to_string();
    assert!(error.contains("lacks its up matrix"), "{error}");
    let reader = write(
        dir.path(),
        &[(&down, vec![4, 8], 0.0), (&up, vec![8, 5], 0.0)],
    );
    assert!(
        parse(&reader)
            .unwrap_err()
            .to_string()
            .contains("do not multiply")
    );
    let reader = write(
        dir.path(),
        &[
            ("lora_unet_foo_bar.lora_down.weight", vec![4, 8], 0.0),
            ("lora_unet_foo_bar.lora_up.weight", vec![8, 4], 0.0),
        ],
    );
    assert!(
        parse(&reader)
            .unwrap_err()
            .to_string()
            .contains("lora_unet_foo_bar")
    );
}

#[test]
fn lycoris_factors_and_magnitudes_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let base = "lora_unet_mid_block_attentions_0_proj_in";
    let name = |end: &str| format!("{base}.{end}");
    let [w1a, w1b, w2a, w2b] = ["hada_w1_a", "hada_w1_b", "hada_w2_a", "hada_w2_b"].map(name);
    let (alpha, dora) = (name("alpha"), name("dora_scale"));
    let reader = write(
        dir.path(),
        &[
            (&w1a, vec![8, 4], 0.0),
            (&w1b, vec![4, 8], 0.0),
            (&w2a, vec![8, 4], 0.0),
            (&w2b, vec![4, 8], 0.0),
            (&alpha, vec![], 2.0),
            (&dora, vec![8, 1], 0.0),
        ],
    );
    let lora = parse(&reader).unwrap();
    assert_eq!(lora.format, LoraFormat::LoHa);
    let [update] = &lora.updates[..] else {
        panic!("{:?}", lora.updates)
    };
    let Delta::Hadamard(pair) = &update.delta else {
        panic!()
    };
    assert!((pair.scale - 0.5).abs() < 1e-9);
    assert_eq!(update.magnitude.as_ref().unwrap().shape, [8, 1]);

    let [w1, w2a, w2b] = ["lokr_w1", "lokr_w2_a", "lokr_w2_b"].map(name);
    let kron = [
        (w1.as_str(), vec![2, 2], 0.0),
        (w2a.as_str(), vec![4, 2], 0.0),
        (w2b.as_str(), vec![2, 4], 0.0),
    ];
    let lora = parse(&write(dir.path(), &kron)).unwrap();
    assert_eq!(lora.format, LoraFormat::LoKr);
    assert!(matches!(
        &lora.updates[0].delta,
        Delta::Kronecker(pair) if matches!(pair.factors, [Factor::Whole(_), Factor::Product { .. }])
    ));
    let error = parse(&write(dir.path(), &kron[..2]))
        .unwrap_err()
        .to_string();
    assert!(error.contains("second matrix of a factor"), "{error}");
}

#[test]
fn names_of_no_layer_are_listed_beside_the_updates() {
    let dir = tempfile::tempdir().unwrap();
    let base = "lora_unet_mid_block_attentions_0_proj_in";
    let [down, up] = ["lora_down", "lora_up"].map(|e| format!("{base}.{e}.weight"));
    let reader = write(
        dir.path(),
        &[
            (&down, vec![4, 8], 0.0),
            (&up, vec![8, 4], 0.0),
            ("lora_unet_foo_bar.lora_down.weight", vec![4, 8], 0.0),
            ("lora_unet_foo_bar.lora_up.weight", vec![8, 4], 0.0),
        ],
    );
    let lora = parse(&reader).unwrap();
    assert_eq!(lora.updates.len(), 1);
    assert_eq!(lora.unknown, ["lora_unet_foo_bar"]);
}

#[test]
fn a_lora_of_a_single_block_finds_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let module = "unet.up_blocks.0.attentions.1.transformer_blocks.3.attn1.to_q";
    let [down, up] = ["lora_A", "lora_B"].map(|e| format!("{module}.{e}.weight"));
    let reader = write(
        dir.path(),
        &[(&down, vec![4, 8], 0.0), (&up, vec![8, 4], 0.0)],
    );
    let lora = parse(&reader).unwrap();
    assert_eq!(
        lora.updates[0].target,
        "output_blocks.1.1.transformer_blocks.3.attn1.to_q.weight"
    );
    let module = "unet.up_blocks.1.attentions.0.transformer_blocks.0.attn1.to_q";
    let [down, up] = ["lora_A", "lora_B"].map(|e| format!("{module}.{e}.weight"));
    let reader = write(
        dir.path(),
        &[(&down, vec![4, 8], 0.0), (&up, vec![8, 4], 0.0)],
    );
    let lora = parse(&reader).unwrap();
    assert_eq!(
        lora.updates[0].target,
        "output_blocks.3.1.transformer_blocks.0.attn1.to_q.weight"
    );
}

#[test]
fn updates_of_qwen_image_keep_their_names() {
    for modules in [
        // By layers that Flux has not.
        [
            "transformer_blocks.3.attn.to_k",
            "diffusion_model.transformer_blocks.3.img_mlp.net.2",
            "lora_unet_transformer_blocks_0_txt_mod_1",
        ],
        // By blocks beyond Flux's.
        [
            "transformer.transformer_blocks.3.attn.to_out.0",
            "transformer_blocks.59.attn.add_v_proj",
            "lora_unet_transformer_blocks_20_attn_to_add_out",
        ],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let pairs = modules.iter().flat_map(|module| {
            let (down, up) = if module.starts_with("lora_unet") {
                ("lora_down", "lora_up")
            } else {
                ("lora_A", "lora_B")
            };
            [
                (format!("{module}.{down}.weight"), vec![2, 8]),
                (format!("{module}.{up}.weight"), vec![8, 2]),
            ]
        });
        let pairs: Vec<_> = pairs.collect();
        let tensors = pairs
            .iter()
            .map(|(name, shape)| (name.as_str(), shape.clone(), 0.0));
        let lora = parse(&write(dir.path(), &tensors.collect::<Vec<_>>())).unwrap();
        let mut found: Vec<&str> = lora.updates.iter().map(|u| u.target.as_str()).collect();
        found.sort_unstable();
        let wanted = match modules[0] {
            "transformer_blocks.3.attn.to_k" => [
                "transformer_blocks.0.txt_mod.1.weight",
                "transformer_blocks.3.attn.to_k.weight",
                "transformer_blocks.3.img_mlp.net.2.weight",
            ],
            _ => [
                "transformer_blocks.20.attn.to_add_out.weight",
                "transformer_blocks.3.attn.to_out.0.weight",
                "transformer_blocks.59.attn.add_v_proj.weight",
            ],
        };
        assert_eq!(found, wanted);
        assert!(lora.updates.iter().all(|u| u.rows.is_none()));
    }
}

/// Pairs of a module of a LoRA and the tensor that its update changes.
fn check_targets(modules: &[(&str, &str)]) {
    let dir = tempfile::tempdir().unwrap();
    let pairs = modules.iter().flat_map(|(module, _)| {
        [
            (format!("{module}.lora_down.weight"), vec![2, 8]),
            (format!("{module}.lora_up.weight"), vec![8, 2]),
        ]
    });
    let pairs: Vec<_> = pairs.collect();
    let tensors = pairs
        .iter()
        .map(|(name, shape)| (name.as_str(), shape.clone(), 0.0));
    let lora = parse(&write(dir.path(), &tensors.collect::<Vec<_>>())).unwrap();
    let mut found: Vec<&str> = lora.updates.iter().map(|u| u.target.as_str()).collect();
    let mut wanted: Vec<&str> = modules.iter().map(|(_, target)| *target).collect();
    found.sort_unstable();
    wanted.sort_unstable();
    assert_eq!(found, wanted);
}

/// The names of XLabs' processors, and where ComfyUI puts them.
#[test]
fn xlabs_updates_of_flux_find_their_rows() {
    let dir = tempfile::tempdir().unwrap();
    let modules = [
        (
            "double_blocks.0.processor.proj_lora1",
            "double_blocks.0.img_attn.proj.weight",
        ),
        (
            "double_blocks.0.processor.qkv_lora1",
            "double_blocks.0.img_attn.qkv.weight",
        ),
        (
            "double_blocks.0.processor.proj_lora2",
            "double_blocks.0.txt_attn.proj.weight",
        ),
        (
            "double_blocks.0.processor.qkv_lora2",
            "double_blocks.0.txt_attn.qkv.weight",
        ),
        (
            "single_blocks.7.processor.qkv_lora",
            "single_blocks.7.linear1.weight",
        ),
        (
            "single_blocks.7.processor.proj_lora",
            "single_blocks.7.linear2.weight",
        ),
    ];
    let pairs = modules.map(|(m, _)| [format!("{m}.down.weight"), format!("{m}.up.weight")]);
    let tensors = pairs.iter().flat_map(|[down, up]| {
        [
            (down.as_str(), vec![2, 8], 0.0),
            (up.as_str(), vec![8, 2], 0.0),
        ]
    });
    let lora = parse(&write(dir.path(), &tensors.collect::<Vec<_>>())).unwrap();
    assert!(lora.unknown.is_empty(), "{:?}", lora.unknown);
    let found: Vec<_> = lora
        .updates
        .iter()
        .map(|u| (u.target.as_str(), u.rows))
        .collect();
    let first = Some(Rows { part: 0, of: 2 });
    let expected =
        modules.map(|(_, target)| (target, first.filter(|_| target.ends_with("linear1.weight"))));
    assert_eq!(found, expected);
}

/// Wan-Fun's names have an underscore more than kohya's.
#[test]
fn every_base_of_names_is_known() {
    check_targets(&[
        (
            "lora_unet__blocks_3_cross_attn_k",
            "blocks.3.cross_attn.k.weight",
        ),
        ("lora_unet__blocks_3_ffn_0", "blocks.3.ffn.0.weight"),
    ]);
    check_targets(&[
        (
            "diffusion_model.blocks.0.self_attn.q",
            "blocks.0.self_attn.q.weight",
        ),
        ("diffusion_model.head.head", "head.head.weight"),
    ]);
    check_targets(&[
        (
            "lora_transformer_single_transformer_blocks_2_proj_out",
            "single_blocks.2.linear2.weight",
        ),
        (
            "lora_transformer_transformer_blocks_2_ff_net_0_proj",
            "double_blocks.2.img_mlp.0.weight",
        ),
    ]);
    check_targets(&[
        (
            "lycoris_double_blocks_1_txt_mlp_2",
            "double_blocks.1.txt_mlp.2.weight",
        ),
        (
            "double_blocks.1.img_mod.lin",
            "double_blocks.1.img_mod.lin.weight",
        ),
        (
            "transformer.double_blocks.1.img_attn.proj",
            "double_blocks.1.img_attn.proj.weight",
        ),
    ]);
    // Flux.2's.
    check_targets(&[
        (
            "transformer.single_transformer_blocks.2.attn.to_qkv_mlp_proj",
            "single_blocks.2.linear1.weight",
        ),
        (
            "transformer.single_transformer_blocks.2.attn.to_out",
            "single_blocks.2.linear2.weight",
        ),
        (
            "lora_transformer_transformer_blocks_2_ff_context_linear_in",
            "double_blocks.2.txt_mlp.0.weight",
        ),
        (
            "transformer.transformer_blocks.2.ff.linear_out",
            "double_blocks.2.img_mlp.2.weight",
        ),
    ]);
    check_targets(&[
        (
            "transformer.blocks.4.attn1.to_q",
            "blocks.4.self_attn.q.weight",
        ),
        (
            "transformer.blocks.4.attn2.add_k_proj",
            "blocks.4.cross_attn.k_img.weight",
        ),
        (
            "transformer.blocks.4.ffn.net.0.proj",
            "blocks.4.ffn.0.weight",
        ),
    ]);
}

#[test]
fn updates_of_anima_find_their_tensors() {
    check_targets(&[
        (
            "lora_unet_blocks_3_adaln_modulation_cross_attn_1",
            "blocks.3.adaln_modulation_cross_attn.1.weight",
        ),
        (
            "lora_unet_blocks_3_self_attn_output_proj",
            "blocks.3.self_attn.output_proj.weight",
        ),
        ("lora_unet_x_embedder_proj_1", "x_embedder.proj.1.weight"),
        (
            "diffusion_model.blocks.0.mlp.layer1",
            "blocks.0.mlp.layer1.weight",
        ),
        (
            "lora_unet_llm_adapter_blocks_5_cross_attn_o_proj",
            "llm_adapter.blocks.5.cross_attn.o_proj.weight",
        ),
        (
            "lora_te_layers_4_self_attn_q_proj",
            "model.layers.4.self_attn.q_proj.weight",
        ),
        (
            "text_encoders.qwen3_06b.transformer.model.layers.0.mlp.gate_proj",
            "model.layers.0.mlp.gate_proj.weight",
        ),
    ]);
}

#[test]
fn updates_of_krea2_in_names_of_diffusers_find_their_tensors() {
    check_targets(&[
        (
            "transformer.transformer_blocks.7.attn.to_out.0",
            "blocks.7.attn.wo.weight",
        ),
        (
            "diffusion_model.transformer_blocks.7.attn.to_out",
            "blocks.7.attn.wo.weight",
        ),
        (
            "lycoris_transformer_blocks_1_attn_to_gate",
            "blocks.1.attn.gate.weight",
        ),
        (
            "text_fusion.refiner_blocks.1.ff.down",
            "txtfusion.refiner_blocks.1.mlp.down.weight",
        ),
        ("time_mod_proj", "tproj.1.weight"),
        (
            "lora_unet_txtfusion_layerwise_blocks_0_mlp_up",
            "txtfusion.layerwise_blocks.0.mlp.up.weight",
        ),
    ]);
}

#[test]
fn a_control_lora_has_updates_and_whole_tensors() {
    let dir = tempfile::tempdir().unwrap();
    let all = [
        ("input_blocks.0.0.down", vec![2, 4, 3, 3], 0.5),
        ("input_blocks.0.0.up", vec![8, 2, 1, 1], 0.5),
        ("input_blocks.0.0.bias", vec![8], 1.0),
        ("lora_controlnet", vec![1], 1.0),
    ];
    let reader = write(dir.path(), &all);
    assert_eq!(recognize(reader.index()), None);
    let lora = ControlLora::of(reader.index()).unwrap().unwrap();
    let names: Vec<&str> = lora.whole.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["input_blocks.0.0.bias"]);
    let described = lora.described(reader.index());
    let shape = described.shape("input_blocks.0.0.weight");
    assert_eq!(shape, Some(&[8, 4, 3, 3][..]));
    // Without its mark, without half of an update, and with halves that do not multiply.
    let plain = write(dir.path(), &all[..3]);
    assert!(ControlLora::of(plain.index()).unwrap().is_none());
    let half = write(dir.path(), &all[1..]);
    let error = ControlLora::of(half.index()).unwrap_err().to_string();
    assert!(error.contains("lacks its down matrix"), "{error}");
    let mut odd = all.clone();
    odd[1].1 = vec![8, 3, 1, 1];
    let error = ControlLora::of(write(dir.path(), &odd).index()).unwrap_err();
    assert!(error.to_string().contains("do not multiply"), "{error}");
}

#[test]
fn tensors_of_two_files_are_read_as_those_of_one() {
    let dirs = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let a = write(dirs[0].path(), &[("a", vec![2], 1.0), ("b", vec![3], 2.0)]);
    let b = write(dirs[1].path(), &[("b", vec![1], 3.0), ("c", vec![4], 4.0)]);
    let [a, b] = [a, b].map(Arc::new);
    let of_b = vec![b.entry("c").unwrap().clone()];
    let joined = TensorReader::joined([(&a, a.index().entries().to_vec()), (&b, of_b)]);
    assert_eq!(joined.index().files.len(), 2);
    for (name, expected) in [
        ("a", vec![1.0; 2]),
        ("b", vec![2.0; 3]),
        ("c", vec![4.0; 4]),
    ] {
        let entry = joined.entry(name).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        joined.read_f32(entry, &mut values).unwrap();
        assert_eq!(values, expected, "{name}");
    }
}
