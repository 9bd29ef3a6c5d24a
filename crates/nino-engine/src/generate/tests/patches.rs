//! Models and text encoders that nodes have changed, against ComfyUI: see
//! `goldens/generate/patches.py`.

use super::comfy::{Case, NEGATIVE, PROMPT, control, planes};
use crate::generate::GenerateRequest;
use crate::tests::made;
use crate::{
    Conditioning, DiffusionModel, EngineError, Family, Image, ImageEncoder, ImageStates, Latent,
    LatentSize, Noise, Precision, SampleRequest, Square, StyleTokens, T5Padding, TextEncoders,
    Unclip, UsoModel, encode_for_clip, encode_text, sample,
};
use nino_sample::{Blend, Correction, Options, Prediction, Sampler, Scheduler, Seed};
use std::sync::Arc;

fn case(name: &'static str, family: Family) -> Case {
    Case::new(name, family).judged_by("patches")
}

/// The path of a changed model.
fn sampled(case: &Case, model: DiffusionModel, scheduler: &str, cfg: f32) -> Vec<f32> {
    let (prompts, _) = case.text(&case.request(PROMPT));
    let mut changed = case.model.clone();
    changed.diffusion = model;
    let request = GenerateRequest {
        sampler: Sampler::find("euler").unwrap(),
        scheduler: Scheduler::find(scheduler).unwrap(),
        cfg,
        ..case.request(PROMPT)
    };
    case.sampled(&changed, &request, &prompts)
}

/// The negative prompt as changed encoders have it.
fn check_context(case: &Case, key: &str, text: &TextEncoders) {
    let (found, _) = control(|c| encode_text(&case.store, text, NEGATIVE, &[], c));
    let shape: Vec<f32> = vec![found.tokens() as f32, found.width as f32];
    assert_eq!(shape, case.golden(&format!("{key}/shape")), "{key}");
    case.close(&format!("{key}/context"), &case.thin(&found.context));
    if !found.pooled.is_empty() {
        case.close(&format!("{key}/pooled"), &found.pooled);
    }
}

#[test]
fn guidance_keeps_lengths_as_in_comfyui() {
    let case = case("tiny_qwen_image", Family::QwenImage);
    let model = &case.model.diffusion;
    let norm = |strength| Correction::Norm(strength);
    let before = |strength| {
        let mut model = model.clone();
        model.blend = Blend::Normed(strength);
        model
    };
    let star = || Correction::ZeroStar;
    for (name, model, cfg) in [
        ("after", model.with_correction(norm(1.0)), 4.0),
        ("strong", model.with_correction(norm(1.05)), 4.0),
        ("alone", model.with_correction(norm(0.9)), 1.0),
        ("before", before(1.0), 4.0),
        ("partly", before(0.6), 4.0),
        (
            "then_star",
            model.with_correction(norm(1.0)).with_correction(star()),
            4.0,
        ),
        (
            "star_then",
            model.with_correction(star()).with_correction(norm(1.0)),
            4.0,
        ),
    ] {
        let found = sampled(&case, model, "simple", cfg);
        case.close(&format!("norm/{name}"), &found);
    }
}

#[test]
fn t5_is_padded_as_in_comfyui() {
    for (name, family) in [("tiny_chroma", Family::Chroma), ("tiny_flux", Family::Flux)] {
        let case = case(name, family);
        for (padding, min_padding, min_length) in [("none", 0, 0), ("some", 9, 0), ("long", 3, 300)]
        {
            let mut text = case.model.text.clone();
            text.t5_padding = Some(T5Padding {
                min_padding,
                min_length,
            });
            check_context(&case, &format!("padding/{name}/{padding}"), &text);
        }
    }
}

#[test]
fn attention_is_multiplied_as_in_comfyui() {
    for (name, family) in [("tiny_sd1", Family::Sd1), ("tiny_sdxl", Family::Sdxl)] {
        let case = case(name, family);
        let factors = |layers: &'static [(&str, f32)]| {
            move |name: &str| {
                let (layer, kind) = name.rsplit_once('.')?;
                assert!(["weight", "bias"].contains(&kind) || !layer.contains("attn"));
                let found = layers.iter().find(|(end, _)| layer.ends_with(end));
                found.map(|(_, factor)| *factor)
            }
        };
        let text = case.model.text.with_factors(factors(&[
            ("self_attn.q_proj", 0.9),
            ("self_attn.k_proj", 1.2),
            ("self_attn.v_proj", 0.8),
            ("self_attn.out_proj", 1.1),
        ]));
        check_context(&case, &format!("attention/{name}/clip"), &text);
        let of: [(&str, &'static [(&str, f32)]); 3] = [
            (
                "self",
                &[
                    ("attn1.to_q", 0.9),
                    ("attn1.to_k", 1.2),
                    ("attn1.to_v", 0.8),
                    ("attn1.to_out.0", 1.1),
                ],
            ),
            ("cross", &[("attn2.to_q", 1.5), ("attn2.to_v", 0.7)]),
            (
                "temporal",
                &[("attn1.to_out.0", 0.5), ("attn2.to_out.0", 1.3)],
            ),
        ];
        for (kind, layers) in of {
            let model = case.model.diffusion.with_factors(factors(layers));
            let found = sampled(&case, model, "normal", 7.0);
            case.close(&format!("attention/{name}/{kind}"), &found);
        }
    }
}

/// Pictures in the place of the pooled prompt, as an image encoder sees them.
#[test]
fn pictures_stand_for_prompts_as_in_comfyui() {
    let case = case("tiny_sdxl", Family::Sdxl);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("view.safetensors");
    made::write_list(&made::list("clip_view"), &path);
    let encoder = ImageEncoder::open(&path).unwrap();
    let pictures: Vec<Unclip> = [(40, 56, 0.75, 0.0), (32, 32, 1.2, 0.3)]
        .into_iter()
        .enumerate()
        .map(|(i, (height, width, strength, noise))| {
            let image = Image {
                width,
                height,
                values: case.golden(&format!("unclip/image/{i}")),
            };
            let seen = encode(&case, &encoder, &image);
            case.close(&format!("unclip/whole/{i}"), &seen.whole[0]);
            Unclip {
                image: Arc::new(seen),
                strength,
                noise,
            }
        })
        .collect();
    for (name, told) in [("one", &pictures[1..]), ("two", &pictures)] {
        let request = GenerateRequest {
            sampler: Sampler::find("euler").unwrap(),
            scheduler: Scheduler::find("normal").unwrap(),
            ..case.request(PROMPT)
        };
        let (mut prompts, _) = case.text(&request);
        for picture in told {
            prompts.positive = prompts.positive.with_unclip(picture.clone());
        }
        let found = case.sampled(&case.model, &request, &prompts);
        case.close(&format!("unclip/{name}"), &found);
    }
}

fn encode(case: &Case, encoder: &ImageEncoder, image: &Image) -> ImageStates {
    control(|c| encode_for_clip(&case.store, encoder, image, Square::Cut, c)).0
}

#[test]
fn a_style_by_uso_is_comfyuis() {
    let case = case("tiny_flux", Family::Flux);
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str, list: &str| {
        let path = folder.path().join(format!("{name}.safetensors"));
        made::write_list(list, &path);
        path
    };
    let deep = made::list("siglip").replace("layers.{0-1}.", "layers.{0-20}.");
    let encoder = ImageEncoder::open(&at("siglip", &deep)).unwrap();
    let uso = at("uso", &made::list("uso"));
    let uso = UsoModel::open(&uso).unwrap().unwrap();
    let mut model = case.model.diffusion.clone();
    for (i, (name, [height, width])) in [("once", [40, 56]), ("twice", [32, 32])]
        .into_iter()
        .enumerate()
    {
        let image = Image {
            width,
            height,
            values: case.golden(&format!("unclip/image/{i}")),
        };
        let seen = encode(&case, &encoder, &image);
        let (tokens, _) = control(|c| uso.tokens(&case.store, &seen, c));
        if i == 0 {
            case.close("uso/tokens", &tokens.values);
        }
        model = model.with_style(Arc::new(tokens)).unwrap();
        let found = sampled(&case, model.clone(), "simple", 1.0);
        case.close(&format!("uso/{name}"), &found);
    }
    let narrow = StyleTokens {
        values: vec![0.0; 64],
        width: 64,
    };
    let wrong = model.with_style(Arc::new(narrow));
    assert!(matches!(
        wrong,
        Err(EngineError::StyleStates {
            expected: 256,
            found: 64
        })
    ));
}

/// A picture of depths in one step, without noise.
#[test]
fn lotus_makes_what_comfyui_makes() {
    let label = "model.diffusion_model.label_emb.0";
    let list = made::list("tiny_sd2")
        + &format!("{label}.0.weight 256x4\n{label}.0.bias 256\n")
        + &format!("{label}.2.weight 256x256\n{label}.2.bias 256\n");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lotus.safetensors");
    made::write_list(&list, &path);
    let model = DiffusionModel::open(&path).unwrap();
    assert_eq!(model.sampling.prediction, Prediction::Translated);
    let case = case("tiny_sd2", Family::Sd2);
    let seen = case.golden("lotus/seen");
    let (height, width, channels) = (6, 8, 4);
    let at = |i: usize| seen[i % channels * height * width + i / channels];
    let latent = Latent {
        values: (0..seen.len()).map(at).collect(),
        ..Latent::empty(1, channels, LatentSize::picture(height, width))
    };
    let prompt = [Conditioning::lotus()];
    let request = SampleRequest {
        positive: &prompt,
        negative: &[],
        third: None,
        latent: &latent,
        noise: Noise::None,
        mask: None,
        frame_mask: &[],
        sigmas: &[999.0, 0.0],
        sampler: Sampler::find("euler").unwrap(),
        options: &Options::default(),
        seed: Seed::new(0),
        cfg: 1.0,
        precision: Precision::F32,
        preview: None,
        beside: 0,
        memory: None,
    };
    let (made, _) = control(|c| Ok(sample(&case.store, &model, &request, c)?));
    case.close("lotus", &planes(&made.latent));
}

/// A model whose weights are multiplied is another one, and one that is multiplied by 1 is not.
#[test]
fn factors_are_part_of_what_a_model_is() {
    let case = case("tiny_sd1", Family::Sd1);
    let model = &case.model.diffusion;
    let all = |factor: f32| model.with_factors(move |n| n.contains("attn1").then_some(factor));
    assert!(model.id() == all(1.0).id());
    assert!(model.id() != all(2.0).id());
    assert!(all(3.0).id() != all(2.0).id());
}
