//! OpenAI's and A1111's image calls with diffusion models that are files of their own.

use crate::client::{Running, start_with};
use crate::models::put_in;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use nino_weights::Metadata;
use nino_weights::gguf::Writer;
use nino_weights::safetensors::NewTensor;
use serde_json::{Value, json};
use std::path::Path;

const NET: &str = "model.diffusion_model.";

/// A server that has Flux.1 as GGUF and Flux.2 klein, each with the files that belong to it, and
/// encoders of other models whose names come first.
fn in_parts() -> Running {
    let data = tempfile::tempdir().unwrap();
    let here = data.path();
    for (folder, name, model) in [
        (
            "diffusion_models",
            "klein.safetensors",
            format!("tiny_klein#{NET}"),
        ),
        (
            "text_encoders",
            "qwen_2.5_vl_7b.safetensors",
            encoder("tiny_qwen_image"),
        ),
        (
            "text_encoders",
            "qwen_3_4b.safetensors",
            encoder("tiny_klein"),
        ),
        (
            "text_encoders",
            "t5xxl_fp16.safetensors",
            "tiny_flux#text_encoders.t5xxl.transformer.".into(),
        ),
        (
            "text_encoders",
            "clip_l.safetensors",
            "tiny_flux#text_encoders.clip_l.transformer.".into(),
        ),
        ("vae", "ae.safetensors", "tiny_flux#vae.".into()),
        ("vae", "flux2-vae.safetensors", "tiny_klein#vae.".into()),
        ("elsewhere", "flux.safetensors", format!("tiny_flux#{NET}")),
        (
            "diffusion_models",
            "lonely.safetensors",
            format!("tiny_krea2#{NET}"),
        ),
    ] {
        put_in(here, folder, name, &model);
    }
    let models = here.join("models");
    let gguf = models.join("diffusion_models/flux1-dev-Q8_0.gguf");
    to_gguf(&models.join("elsewhere/flux.safetensors"), &gguf);
    std::fs::remove_dir_all(models.join("elsewhere")).unwrap();
    start_with(data, |_| {})
}

/// What a list names its language model.
fn encoder(model: &str) -> String {
    let list = crate::made::list(model);
    let mut lines = list
        .lines()
        .filter(|line| line.starts_with("text_encoders."));
    let (prefix, _) = lines.next().unwrap().split_once(".transformer.").unwrap();
    format!("{model}#{prefix}.transformer.")
}

fn to_gguf(from: &Path, to: &Path) {
    let reader = nino_weights::open(from).unwrap();
    let entries = reader.index().entries();
    let tensors = entries.iter().map(|entry| NewTensor {
        name: entry.name.clone(),
        dtype: entry.dtype,
        shape: entry.shape.clone(),
    });
    let tensors: Vec<NewTensor> = tensors.collect();
    let mut writer = Writer::create(to, &tensors, &Metadata::default()).unwrap();
    for entry in entries {
        let mut bytes = vec![0; entry.dtype.bytes_for(entry.n_values()).unwrap()];
        reader.read(entry, &mut bytes).unwrap();
        writer.write(&bytes).unwrap();
    }
    writer.finish().unwrap();
}

/// The size of a picture, and the graph that it was made with.
fn made_with(base64: &Value) -> ((u32, u32), Value) {
    let bytes = BASE64.decode(base64.as_str().unwrap_or_default()).unwrap();
    let reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info();
    let reader = reader.unwrap();
    let info = reader.info();
    let texts = &info.uncompressed_latin1_text;
    let graph = texts.iter().find(|text| text.keyword == "prompt").unwrap();
    (
        (info.width, info.height),
        serde_json::from_str(&graph.text).unwrap(),
    )
}

#[test]
fn diffusion_models_are_used_with_the_files_that_fit_them() {
    let server = in_parts();
    let listed = server.json("/v1/models");
    let listed: Vec<&str> = listed["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|model| model["id"].as_str())
        .collect();
    assert_eq!(
        listed,
        [
            "nino-emoji",
            "flux1-dev-Q8_0.gguf",
            "klein.safetensors",
            "lonely.safetensors"
        ]
    );
    let body = json!({ "model": "flux1-dev-Q8_0.gguf", "prompt": "a boat", "size": "64x48", "seed": 3, "steps": 1, "guidance": 2.5 });
    let answer = server.post("/v1/images/generations", &body).json();
    let (size, graph) = made_with(&answer["data"][0]["b64_json"]);
    assert_eq!(size, (64, 48), "{answer}");
    assert_eq!(graph["4"]["class_type"], "UnetLoaderGGUF");
    let clip = json!({ "clip_name1": "clip_l.safetensors", "clip_name2": "t5xxl_fp16.safetensors", "type": "flux" });
    assert_eq!(
        graph["50"],
        json!({ "class_type": "DualCLIPLoader", "inputs": clip })
    );
    assert_eq!(graph["51"]["inputs"]["vae_name"], "ae.safetensors");
    assert_eq!(graph["52"]["inputs"]["guidance"], 2.5);

    // A latent of Flux.2 has sixteen pixels along a side, also in a second pass.
    let body = json!({
        "prompt": "a boat", "width": 70, "height": 64, "steps": 1, "seed": 3,
        "override_settings": { "sd_model_checkpoint": "klein" },
    });
    let answer = server.post("/sdapi/v1/txt2img", &body).json();
    let (size, graph) = made_with(&answer["images"][0]);
    assert_eq!(size, (64, 64), "{answer}");
    assert_eq!(graph["50"]["inputs"]["clip_name"], "qwen_3_4b.safetensors");
    let mut body = body;
    body["init_images"] = json!([answer["images"][0]]);
    let answer = server.post("/sdapi/v1/img2img", &body).json();
    assert_eq!(made_with(&answer["images"][0]).0, (64, 64), "{answer}");

    let body = json!({ "model": "lonely", "prompt": "a boat" });
    let refused = server.post("/v1/images/generations", &body);
    assert_eq!(refused.status, 400);
    let text = refused.json()["error"]["message"].to_string();
    assert!(text.contains("without text encoders and VAE"), "{text}");
}

#[test]
fn the_built_in_model_is_the_default_where_there_is_no_other() {
    let server = in_parts();
    let default = |server: &Running| server.json("/nino/model")["name"].clone();
    assert_eq!(default(&server), "flux1-dev-Q8_0.gguf");
    assert_eq!(
        server.json("/sdapi/v1/options")["sd_model_checkpoint"],
        "flux1-dev-Q8_0.gguf"
    );
    assert_eq!(
        default(&start_with(tempfile::tempdir().unwrap(), |_| {})),
        "nino-emoji"
    );
}

/// A model of clips makes a picture as a clip of one frame.
#[test]
fn pictures_of_models_for_clips() {
    let data = tempfile::tempdir().unwrap();
    let net = |name: &str| format!("{name}#{NET}");
    for (folder, name, model) in [
        ("diffusion_models", "wan.safetensors", net("tiny_wan")),
        ("text_encoders", "umt5_xxl.safetensors", "tiny_wan".into()),
        ("vae", "wan_2.1_vae.safetensors", "tiny_wan#vae.".into()),
    ] {
        put_in(data.path(), folder, name, &model);
    }
    let vocabulary = crate::made::goldens().join("../text/small/spiece.model");
    let place = data.path().join("models/text_encoders/spiece.model");
    std::fs::copy(vocabulary, place).unwrap();
    let server = start_with(data, |_| {});
    let body = json!({ "model": "wan", "prompt": "a boat", "size": "64x64", "steps": 1 });
    let answer = server.post("/v1/images/generations", &body).json();
    assert!(answer["data"].is_array(), "{answer}");
    assert_eq!(made_with(&answer["data"][0]["b64_json"]).0, (64, 64));
}
