//! `nino inspect` on what users have: pictures, latents, workflows, LoRAs, textual inversions, and
//! files that are none of these.

use crate::shell::{Folder, nino, nino_with};
use nino_engine::Picture;
use nino_engine::media::write_picture;
use nino_testing::data_or_skip;
use serde_json::json;
use std::path::{Path, PathBuf};

fn golden(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens");
    root.join(name).to_string_lossy().into_owned()
}

/// Inspects a file as text and as JSON, and looks for parts of the text.
#[track_caller]
fn inspected(file: &str, parts: &[&str]) -> serde_json::Value {
    let said = nino(&["inspect", file]);
    assert_eq!(said.code, 0, "{}", said.err);
    for part in parts {
        let text = &said.out;
        assert!(text.contains(part), "{part:?} is missing from:\n{text}");
    }
    nino(&["inspect", file, "--json"]).json()
}

fn picture(file: &str, text: &[(&str, String)]) {
    let rgb = vec![90; 24 * 16 * 3];
    let picture = Picture {
        width: 24,
        height: 16,
        rgb,
    };
    write_picture(Path::new(file), &picture, text).unwrap();
}

const PARAMETERS: &str = "a fox, snow <lora:ink:0.8>\nNegative prompt: blurry\nSteps: 25, Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 7, Seed: 1234, Size: 512x768, Model: v1-5-pruned, Hires upscale: 2, Version: v1.10.1";

#[test]
fn a_picture_of_ours_tells_its_settings() {
    let dir = Folder::new();
    let file = dir.at("sun.png");
    let args = [
        "generate", "a sun", "--seed", "3", "--size", "64x64", "--steps", "1", "--device", "cpu",
        "-q", "-o", &file,
    ];
    let said = nino(&args);
    assert_eq!(said.code, 0, "{}", said.err);
    let parts = [
        "PNG of 64x64 pixels",
        "made by     nino ",
        "prompt      a sun",
        "seed        3",
        "steps       1",
        "nino-emoji",
        "nino generate --from",
    ];
    let json = inspected(&file, &parts);
    assert_eq!(json["kind"], "picture");
    assert_eq!(json["settings"]["seed"], json!(["3"]));
    assert_eq!(json["flags"]["seed"], json!(["3"]));
    assert_eq!(json["runs_here"], true, "{json:#}");
}

#[test]
fn a1111s_text_is_read_out_of_every_format() {
    let dir = Folder::new();
    for name in ["a.png", "a.jpg", "a.webp"] {
        let file = dir.at(name);
        picture(&file, &[("parameters", PARAMETERS.to_owned())]);
        let parts = [
            "24x16",
            "A1111 v1.10.1",
            "a fox, snow",
            "negative    blurry",
            "seed        1234",
            "sampler     dpmpp_2m",
            "scheduler   karras",
            "size        512x768",
            "checkpoints/v1-5-pruned: not found",
            "loras/ink (0.8): not found",
            "\"Hires upscale: 2\"",
        ];
        let json = inspected(&file, &parts);
        assert_eq!(json["made_by"], "A1111 v1.10.1", "{name}");
        assert_eq!(json["files"][0]["folder"], "checkpoints");
        assert_eq!(json["runs_here"], false);
    }
}

#[test]
fn a_picture_without_settings_and_one_with_broken_ones() {
    let dir = Folder::new();
    let plain = dir.at("plain.png");
    picture(&plain, &[("Software", "GIMP".to_owned())]);
    let json = inspected(&plain, &["it contains no settings", "metadata    Software"]);
    assert_eq!(json["made_by"], serde_json::Value::Null);
    // What a stranger wrote into a picture is shown, and does nothing to the terminal.
    let odd = dir.at("odd.png");
    let text = PARAMETERS.replace("snow", "snow \u{1b}[31m");
    picture(&odd, &[("parameters", text)]);
    let said = nino(&["inspect", &odd]);
    assert!(
        !said.out.contains('\u{1b}') && said.out.contains("snow"),
        "{}",
        said.out
    );
    let broken = dir.at("broken.png");
    picture(&broken, &[("prompt", "[1]".to_owned())]);
    inspected(
        &broken,
        &["its settings cannot be read: the graph is a list"],
    );
}

#[test]
fn workflows_tell_what_they_want_and_what_nino_lacks() {
    let dir = Folder::new();
    let models = dir.path().join("models/checkpoints");
    std::fs::create_dir_all(&models).unwrap();
    std::fs::write(models.join("here.safetensors"), "").unwrap();
    let api = dir.at("api.json");
    let graph = json!({
        "1": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": "here.safetensors" } },
        "2": { "class_type": "CLIPTextEncode", "inputs": { "text": "a fox", "clip": ["1", 1] } },
        "3": { "class_type": "FancyUpscaler",
               "inputs": { "conditioning": ["2", 0], "model_name": "up.pth" } },
        "4": { "class_type": "SaveImage", "inputs": { "images": ["3", 0] } },
    });
    std::fs::write(&api, graph.to_string()).unwrap();
    let env = [("NINO_MODELS", dir.at("models"))];
    let env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (*k, v.as_str())).collect();
    let said = nino_with(&["inspect", &api], &env);
    assert_eq!(said.code, 0, "{}", said.err);
    for part in [
        "ComfyUI's, 4 nodes, API format",
        "checkpoints/here.safetensors: found at ",
        "up.pth (for FancyUpscaler): not found",
        "FancyUpscaler (node 3): not supported",
        "runs here   no: 1 unsupported node type, 1 file not found",
    ] {
        assert!(
            said.out.contains(part),
            "{part:?} is missing from:\n{}",
            said.out
        );
    }
    let page = dir.at("page.json");
    let workflow = json!({
        "nodes": [
            { "id": 1, "type": "CheckpointLoaderSimple", "widgets_values": ["x.safetensors"],
              "properties": { "models": [
                  { "name": "x.safetensors", "url": "https://example.com/x.safetensors" }] } },
            { "id": 2, "type": "KSampler", "widgets_values": [5, "fixed", 20, 8, "euler", "normal", 1],
              "inputs": [{ "name": "model", "link": 1 }] },
            { "id": 3, "type": "SaveImage", "inputs": [{ "name": "images", "link": 2 }] },
        ],
        "links": [[1, 1, 0, 2, 0, "MODEL"], [2, 2, 0, 3, 0, "IMAGE"]],
    });
    std::fs::write(&page, workflow.to_string()).unwrap();
    let json = inspected(
        &page,
        &[
            "saved by the front end",
            "seed        5",
            "https://example.com",
        ],
    );
    assert_eq!(json["format"], "page");
    assert_eq!(json["settings"]["steps"], json!(["20"]));
    let broken = dir.at("broken.json");
    std::fs::write(&broken, "{\"a\": 1}").unwrap();
    let said = nino(&["inspect", &broken]);
    assert_eq!(said.code, 1);
    assert!(
        said.err.contains("broken.json: node a of the graph"),
        "{}",
        said.err
    );
}

/// ComfyUI's own examples: the files that each wants are named, and the nodes that nino lacks.
#[test]
fn comfyuis_examples_are_summed_up() {
    let name = "workflows/sdxl__sdxl_refiner_prompt_example.api.json";
    let Some(path) = data_or_skip(name) else {
        return;
    };
    let folder = path.parent().unwrap();
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file: PathBuf = entry.unwrap().path();
        let json = inspected(
            file.to_str().unwrap(),
            &["workflow", "prompt", "needs", "runs here"],
        );
        assert_eq!(json["kind"], "workflow");
        assert!(!json["files"].as_array().unwrap().is_empty(), "{json:#}");
        seen += 1;
    }
    assert_eq!(seen, 16);
    let wan = folder.join("wan22__image_to_video_wan22_14B.api.json");
    let json = inspected(wan.to_str().unwrap(), &["runs here"]);
    let prompts = json["settings"]["prompt"].as_array().unwrap();
    assert_eq!(prompts.len(), 1, "both sides go through one node");
    let json = inspected(path.to_str().unwrap(), &["sd_xl_refiner_1.0.safetensors"]);
    assert_eq!(json["unknown_nodes"], json!({}));
}

#[test]
fn latents_tell_their_shape_and_space() {
    let dir = Folder::new();
    for name in ["single.pt", "single_legacy.pt"] {
        let json = inspected(
            &golden(&format!("weights/{name}")),
            &["latent [1, 4, 4, 6] of one of sd15, sdxl", "48x32"],
        );
        assert_eq!(json["kind"], "latent");
        assert_eq!(json["latent"]["width"], 48);
        assert_eq!(json["unknown"], json!([]));
    }
    let (picture, latent) = (dir.at("a.png"), dir.at("a.latent"));
    let args = [
        "generate",
        "a sun",
        "--size",
        "64x32",
        "--steps",
        "1",
        "--device",
        "cpu",
        "-q",
        "-o",
        &picture,
        "--save-latent",
        &latent,
    ];
    assert_eq!(nino(&args).code, 0);
    let json = inspected(
        &latent,
        &["latent [1, 4, 4, 8] of nino, for an image of 64x32"],
    );
    assert_eq!(json["latent"]["format"], "nino");
    if let Some(wan) = data_or_skip("latents/wan21_16x40x64.safetensors") {
        let json = inspected(
            wan.to_str().unwrap(),
            &["latent [1, 16, 16, 40, 64] of wan21, by its channels, for 61 frames of 512x320"],
        );
        assert_eq!(json["kind"], "latent");
    }
}

/// `torch.save(latent, path)` writes no dictionary, and decode takes it as it is.
#[test]
fn a_single_tensor_is_decoded() {
    let dir = Folder::new();
    let (vae, input) = (
        golden("models/taesd.safetensors"),
        golden("weights/single.pt"),
    );
    let output = dir.at("a.png");
    let args = [
        "decode", &input, "--vae", &vae, "-o", &output, "--device", "cpu", "--json",
    ];
    let said = nino(&args);
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.json()["width"], 48);
}

#[test]
fn a_lora_tells_its_family_and_an_embedding_its_encoder() {
    let dir = Folder::new();
    if let Some(lora) = data_or_skip("lora/sd15_rank4.safetensors") {
        let json = inspected(
            lora.to_str().unwrap(),
            &["for SD 1.x, 128 updates of rank 4"],
        );
        assert_eq!(json["kind"], "lora");
        assert_eq!(json["lora"]["family"], "SD 1.x");
    }
    let file = dir.at("ink.safetensors");
    let header = r#"{"emb_params":{"dtype":"F32","shape":[1,768],"data_offsets":[0,3072]}}"#;
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend([0; 3072]);
    std::fs::write(&file, bytes).unwrap();
    let json = inspected(
        &file,
        &["textual inversion of 1 vector, for SD 1.x", "1 tensor\n"],
    );
    assert_eq!(json["kind"], "embedding");
}

#[test]
fn the_built_in_model_has_a_name() {
    let json = inspected("nino-emoji", &["nino-emoji"]);
    assert_eq!(json["kind"], "model");
}

#[test]
fn other_files_are_told_in_words() {
    let dir = Folder::new();
    for (name, bytes, wanted) in [
        ("notes", &b"a shopping list\n"[..], "it is a text"),
        (
            "page.safetensors",
            b"<!DOCTYPE html><html><head>",
            "it is a web page",
        ),
        (
            "lfs.ckpt",
            b"version https://git-lfs.github.com/spec/v1\n",
            "Git LFS",
        ),
        (
            "clip.mp4",
            b"\0\0\0\x18ftypmp42\0\0\0\0",
            "it is an MP4 video",
        ),
        ("doc.pdf", b"%PDF-1.7 ...........", "it is a PDF document"),
        ("nothing", b"", "it is empty"),
    ] {
        let file = dir.at(name);
        std::fs::write(&file, bytes).unwrap();
        let said = nino(&["inspect", &file, "--json"]);
        assert_eq!(said.code, 1, "{name}: {}", said.out);
        let error = said.json()["error"].as_str().unwrap().to_owned();
        assert!(error.contains(wanted), "{name}: {error}");
    }
    // Where a model is wanted, a picture is told to be one.
    let file = dir.at("fox.png");
    picture(&file, &[]);
    let said = nino(&["generate", "a fox", "--model", &file]);
    assert_eq!(said.code, 1);
    assert!(said.err.contains("it is a PNG picture"), "{}", said.err);
}
