//! Tests of detection, over full tensor lists.

use crate::golden::root;
use crate::lists::{self, index};
use nino_models::detect::{Confidence, Detected, Kind, Part, Prediction, detect};
use nino_weights::Index;

#[track_caller]
fn only(index: &Index) -> Detected {
    let mut report = detect(index).unwrap();
    assert!(
        report.rest.is_empty(),
        "{:?}",
        &report.rest[..report.rest.len().min(5)]
    );
    assert_eq!(
        report.parts.len(),
        1,
        "{:?}",
        report.parts.iter().map(|p| p.kind).collect::<Vec<_>>()
    );
    report.parts.remove(0)
}

#[track_caller]
fn check_fits(found: &Detected, context: &str) {
    let few = |v: &Vec<String>| v.iter().take(4).cloned().collect::<Vec<_>>();
    assert_ne!(
        found.confidence,
        Confidence::Closest,
        "{context}: {}: {} missing {:?} unknown {:?} misshaped {:?}",
        found.kind.label(),
        found.reason,
        few(&found.difference.missing),
        few(&found.difference.unknown),
        found.difference.misshaped.first(),
    );
}

#[test]
fn hugging_face_files_are_told_apart() {
    for (model, kind) in [
        ("sd1", Kind::Sd1),
        ("sd2", Kind::Sd2),
        ("sdxl", Kind::Sdxl),
        ("sdxl_refiner", Kind::SdxlRefiner),
        ("bk_sdm_base", Kind::BkSdmBase),
        ("bk_sdm_small", Kind::BkSdmSmall),
        ("bk_sdm_tiny", Kind::BkSdmTiny),
        ("flux_dev", Kind::FluxDev),
        ("flux_schnell", Kind::FluxSchnell),
        ("z_image", Kind::ZImageTurbo),
        ("qwen_image", Kind::QwenImage),
        ("qwen3_4b", Kind::Qwen3Medium),
        ("chroma", Kind::Chroma),
        ("wan21_t2v_1b", Kind::Wan21T2v1B),
        ("wan21_i2v_14b", Kind::Wan21I2v14B),
        ("wan22_i2v_14b", Kind::Wan22I2v14BHigh),
        ("wan22_5b", Kind::Wan22Ti2v5B),
        ("sd_vae", Kind::SdVae),
        ("flux_vae", Kind::FluxVae),
        ("wan21_vae", Kind::Wan21Vae),
        ("wan22_vae", Kind::Wan22Vae),
        ("taesd", Kind::TaeSd1),
        ("taef1", Kind::TaeFlux),
        ("clip_l", Kind::ClipL),
        ("clip_h23", Kind::ClipHPenultimate),
        ("clip_g", Kind::ClipG),
        ("t5_xxl", Kind::T5Xxl),
        ("umt5_xxl", Kind::Umt5Xxl),
        ("wav2vec2_large", Kind::Wav2Vec2Large),
        ("wav2vec2_base", Kind::Wav2Vec2Base),
    ] {
        let found = only(&index("model.safetensors", &lists::golden(model)));
        check_fits(&found, model);
        assert_eq!(found.kind, kind, "{model}");
    }
}

/// llama.cpp's names, and those of a model with a vision tower.
#[test]
fn language_models_are_known_by_other_names() {
    let ours = lists::kind(Kind::Qwen3Medium, "");
    let renamed = |rules: &[(&str, &str)]| -> lists::List {
        let name = |name: &str| {
            let all = rules.iter();
            all.fold(name.to_owned(), |name, (from, to)| name.replace(from, to))
        };
        ours.iter().map(|(n, s)| (name(n), s.clone())).collect()
    };
    let llama_cpp = renamed(&[
        ("model.layers.", "blk."),
        ("model.embed_tokens", "token_embd"),
        ("model.norm", "output_norm"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.o_proj", "attn_output"),
        ("input_layernorm", "attn_norm"),
        ("post_attention_layernorm", "ffn_norm"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
    ]);
    let seeing = renamed(&[("model.", "model.language_model.")]);
    for list in [llama_cpp, seeing] {
        let found = only(&index("file.gguf", &list));
        check_fits(&found, &list[0].0);
        assert_eq!(found.kind, Kind::Qwen3Medium);
    }
}

#[test]
fn original_names_are_told_apart_under_any_prefix() {
    let prefixes = ["", "model.diffusion_model.", "anything."];
    let listed = Kind::ALL.iter().filter(|k| !k.tensors().is_empty());
    for (&kind, prefix) in listed.zip(prefixes.into_iter().cycle()) {
        let found = only(&index("file.gguf", &lists::kind(kind, prefix)));
        check_fits(&found, kind.label());
        assert_eq!(found.prefix, prefix);
        if found.confidence == Confidence::Certain {
            assert_eq!(found.kind, kind);
        } else {
            let twin = found.kind == kind || found.reason.contains(kind.label());
            assert!(twin, "{}: {}", kind.label(), found.reason);
        }
    }
}

#[test]
fn a_checkpoint_shows_all_its_parts() {
    let mut tensors = lists::kind(Kind::Sdxl, "model.diffusion_model.");
    tensors.extend(lists::kind(Kind::SdxlVae, "first_stage_model."));
    tensors.extend(lists::kind(
        Kind::ClipL,
        "conditioner.embedders.0.transformer.",
    ));
    tensors.extend(open_clip(32, 1280, "conditioner.embedders.1.model."));
    tensors.push(("alphas_cumprod".to_owned(), vec![1000]));
    let report = detect(&index("sdxl.safetensors", &tensors)).unwrap();
    let kinds: Vec<Kind> = report.parts.iter().map(|p| p.kind).collect();
    assert_eq!(kinds, [Kind::Sdxl, Kind::SdxlVae, Kind::ClipL, Kind::ClipG]);
    report.parts.iter().for_each(|p| check_fits(p, "sdxl"));
    assert_eq!(report.main().unwrap().prediction, Some(Prediction::Eps));
    assert_eq!(
        report.part(Part::Vae).unwrap().difference.halves,
        ["encoder", "decoder"]
    );
    assert!(report.rest.is_empty(), "{:?}", report.rest);
}

/// A text encoder in the names of open_clip.
pub(crate) fn open_clip(layers: usize, d: usize, prefix: &str) -> Vec<(String, Vec<usize>)> {
    let mut tensors = vec![
        ("token_embedding.weight".to_owned(), vec![49408, d]),
        ("positional_embedding".to_owned(), vec![77, d]),
        ("text_projection".to_owned(), vec![d, d]),
        ("logit_scale".to_owned(), vec![]),
    ];
    let mut layer = |name: String, shape: Vec<usize>| {
        tensors.push((format!("{name}.bias"), shape[..1].to_vec()));
        tensors.push((format!("{name}.weight"), shape));
    };
    layer("ln_final".into(), vec![d]);
    for i in 0..layers {
        let block = format!("transformer.resblocks.{i}");
        layer(format!("{block}.ln_1"), vec![d]);
        layer(format!("{block}.ln_2"), vec![d]);
        layer(format!("{block}.attn.out_proj"), vec![d, d]);
        layer(format!("{block}.mlp.c_fc"), vec![4 * d, d]);
        layer(format!("{block}.mlp.c_proj"), vec![d, 4 * d]);
    }
    for i in 0..layers {
        let block = format!("transformer.resblocks.{i}.attn");
        tensors.push((format!("{block}.in_proj_weight"), vec![3 * d, d]));
        tensors.push((format!("{block}.in_proj_bias"), vec![3 * d]));
    }
    tensors
        .into_iter()
        .map(|(n, s)| (format!("{prefix}{n}"), s))
        .collect()
}

#[test]
fn open_clip_h_fits() {
    let found = only(&index(
        "sd2.ckpt",
        &open_clip(24, 1024, "cond_stage_model.model."),
    ));
    check_fits(&found, "open_clip");
    assert_eq!(
        (found.kind, found.confidence),
        (Kind::ClipH, Confidence::Certain)
    );
}

#[test]
fn twins_are_told_by_the_file_name() {
    let wan = lists::kind(Kind::Wan21T2v14B, "");
    for (file, kind, confidence) in [
        (
            "wan2.2_t2v_high_noise_14B.safetensors",
            Kind::Wan22T2v14BHigh,
            Confidence::Likely,
        ),
        (
            "Wan2.2-T2V-A14B-LowNoise-Q4_K_M.gguf",
            Kind::Wan22T2v14BLow,
            Confidence::Likely,
        ),
        (
            "wan2.1_t2v_14B_fp16.safetensors",
            Kind::Wan21T2v14B,
            Confidence::Likely,
        ),
        (
            "diffusion_pytorch_model.safetensors",
            Kind::Wan21T2v14B,
            Confidence::Guess,
        ),
    ] {
        let found = only(&index(file, &wan));
        assert_eq!((found.kind, found.confidence), (kind, confidence), "{file}");
    }
    let sd2 = lists::kind(Kind::Sd2, "");
    for (file, prediction) in [
        ("v2-1_768-ema-pruned.safetensors", Prediction::V),
        ("v2-1_512-ema-pruned.safetensors", Prediction::Eps),
        ("sd_turbo.safetensors", Prediction::Eps),
        ("mymodel.safetensors", Prediction::EpsOrV),
    ] {
        assert_eq!(
            only(&index(file, &sd2)).prediction,
            Some(prediction),
            "{file}"
        );
    }
}

#[test]
fn what_differs_is_listed_all_at_once() {
    let mut tensors = lists::kind(Kind::Sd1, "model.diffusion_model.");
    tensors.retain(|(n, _)| !n.ends_with("middle_block.1.norm.bias") && !n.ends_with("out.2.bias"));
    tensors.push(("model.diffusion_model.extra.weight".to_owned(), vec![1]));
    let conv = tensors
        .iter_mut()
        .find(|(n, _)| n.ends_with("time_embed.0.weight"))
        .unwrap();
    conv.1 = vec![1280, 321];
    let found = only(&index("x", &tensors));
    assert_eq!(
        (found.kind, found.confidence),
        (Kind::Sd1, Confidence::Closest)
    );
    let found = found.difference;
    assert_eq!(found.missing, ["middle_block.1.norm.bias", "out.2.bias"]);
    assert_eq!(found.unknown, ["extra.weight"]);
    assert_eq!(found.misshaped.len(), 1);
    assert_eq!(found.misshaped[0].expected, [1280, 320]);
}

#[test]
fn half_an_autoencoder_is_a_whole_answer() {
    let tensors: Vec<_> = lists::kind(Kind::FluxVae, "")
        .into_iter()
        .filter(|(n, _)| n.starts_with("decoder."))
        .collect();
    let found = only(&index("ae.safetensors", &tensors));
    check_fits(&found, "decoder alone");
    assert_eq!(
        (found.kind, found.difference.halves.as_slice()),
        (Kind::FluxVae, &["decoder"][..])
    );
}

#[test]
fn real_tiny_autoencoders_are_recognized() {
    for (file, kind, half) in [
        ("taesd_encoder", Kind::TaeSd1, "encoder"),
        ("taesd_decoder", Kind::TaeSd1, "decoder"),
        ("taef1_encoder", Kind::TaeFlux, "encoder"),
        ("taef1_decoder", Kind::TaeFlux, "decoder"),
    ] {
        let path = format!("taesd/{file}.safetensors");
        let Some(path) = nino_testing::data_or_skip(&path) else {
            continue;
        };
        let reader = nino_weights::open(path).unwrap();
        let found = only(reader.index());
        check_fits(&found, file);
        assert_eq!(
            (found.kind, found.difference.halves.as_slice()),
            (kind, &[half][..]),
            "{file}"
        );
        assert_eq!(found.confidence, Confidence::Likely, "{file}");
    }
}

#[test]
fn the_model_in_the_box_is_recognized() {
    let reader = nino_weights::open(root().join("models/nino-emoji.gguf")).unwrap();
    let report = detect(reader.index()).unwrap();
    let kinds: Vec<Kind> = report.parts.iter().map(|d| d.kind).collect();
    assert_eq!(kinds, [Kind::NinoEmoji, Kind::TaeSd1, Kind::NinoEmojiText]);
    for part in &report.parts {
        check_fits(part, "models/nino-emoji.gguf");
    }
    assert_eq!(report.parts[0].prediction, Some(Prediction::Flow));
}

#[test]
fn both_layouts_of_the_flux2_vae_fit() {
    let ours = lists::kind(Kind::Flux2Vae, "");
    assert!(
        ours.iter()
            .any(|(n, _)| n == "decoder.post_quant_conv.weight")
    );
    let at_top_level = |(name, shape): &(String, Vec<usize>)| {
        let name = match name.split_once('.') {
            Some((_, rest)) if rest.contains("quant_conv") => rest.to_owned(),
            _ => name.clone(),
        };
        (name, shape.clone())
    };
    let others: lists::List = ours.iter().map(at_top_level).collect();
    for list in [ours, others] {
        let found = only(&index("ae.safetensors", &list));
        check_fits(&found, "Flux.2");
        assert_eq!(
            (found.kind, found.confidence),
            (Kind::Flux2Vae, Confidence::Certain)
        );
    }
}

#[test]
fn gguf_files_are_named_after_the_diffusion_model() {
    for (kind, name) in [
        (Kind::Sd2, "sd1"),
        (Kind::SdxlInpaint, "sdxl"),
        (Kind::FluxFill, "flux"),
        (Kind::Wan22Ti2v5B, "wan"),
        (Kind::T5Base, "t5encoder"),
        (Kind::SdVae, "unknown"),
    ] {
        let report = detect(&index("x", &lists::kind(kind, ""))).unwrap();
        assert_eq!(report.gguf_architecture(), name, "{kind:?}");
    }
}
