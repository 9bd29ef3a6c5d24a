//! ComfyUI's own example workflows: they run, with small checkpoints, sizes and steps, or say which
//! nodes are missing.

use crate::examples::{EXAMPLES, FLUX, WAN};
use crate::host::{Folders, checkpoint, executor, run, sd1};
use nino_engine::Picture;
use nino_engine::media::write_picture;
use nino_workflow::{Folder, Graph, Limits, PromptError, check, fill_defaults};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn workflow(name: &str) -> Option<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/workflows");
    let path = folder.join(format!("{name}.api.json"));
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        println!("skipped: no {}", path.display());
    }
    text
}

fn model(name: &str) -> PathBuf {
    match name {
        "tiny_sd1" => sd1(),
        "inpaint" => checkpoint("tiny_sd1", "workflow_sd1_inpaint", |list| {
            let first = "input_blocks.0.0.weight 32x";
            list.replace(&format!("{first}4x"), &format!("{first}9x"))
        }),
        name => checkpoint(name, &format!("workflow_{name}"), |list| list),
    }
}

/// A workflow with small pictures and two steps. A LoRA is left out: none is made for these models.
fn small(text: &str) -> Graph {
    let mut json: Value = serde_json::from_str(text).unwrap();
    for node in json.as_object_mut().unwrap().values_mut() {
        let class = node["class_type"].as_str().unwrap().to_owned();
        let inputs = node["inputs"].as_object_mut().unwrap();
        let sizes: &[(&str, u64)] = match &*class {
            "EmptyLatentImage" => &[("width", 64), ("height", 64)],
            "LatentUpscale" => &[("width", 96), ("height", 96)],
            "ConditioningSetArea" => &[("width", 64), ("height", 64), ("y", 8)],
            "ImagePadForOutpaint" => &[("top", 16), ("bottom", 16), ("feathering", 8)],
            "LoraLoader" => {
                inputs.insert("strength_model".to_owned(), json!(0));
                &[("strength_clip", 0)]
            }
            "KSamplerAdvanced" => {
                let second = inputs["start_at_step"] != 0;
                inputs.insert("start_at_step".to_owned(), json!(u8::from(second)));
                let end = if second { 10_000 } else { 1 };
                inputs.insert("end_at_step".to_owned(), json!(end));
                &[("steps", 2)]
            }
            "KSampler" => &[("steps", 2)],
            _ => &[],
        };
        for (name, value) in sizes {
            inputs.insert((*name).to_owned(), json!(value));
        }
    }
    let mut graph = Graph::from_value(json, &Limits::default()).unwrap();
    fill_defaults(&mut graph);
    graph
}

#[test]
fn comfyuis_workflows_run() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("start.png");
    let rgb = (0..64 * 64 * 3).map(|i| (i * 31 % 251) as u8).collect();
    let start = Picture {
        width: 64,
        height: 64,
        rgb,
    };
    write_picture(&picture, &start, &[]).unwrap();
    for (name, models) in EXAMPLES {
        let Some(text) = workflow(name) else { continue };
        let graph = small(&text);
        let mut host = Folders::default();
        let mut models = models.iter();
        for (_, node) in graph.iter() {
            let named = |input: &str| node.value(input).and_then(Value::as_str);
            if let Some(file) = named("ckpt_name") {
                let path = model(models.next().unwrap_or_else(|| panic!("{name}: {file}")));
                host = host.with(Folder::Checkpoints, file, &path);
            }
            if let Some(file) = named("vae_name") {
                host = host.with(Folder::Vae, file, &sd1());
            }
            if let Some(file) = named("lora_name") {
                host = host.with(Folder::Loras, file, &sd1());
            }
            if let Some(file) = named("image") {
                host = host.with(Folder::InputImages, file, &picture);
            }
        }
        run(&mut executor(), &graph, &mut host);
        let outputs = graph.iter().filter(|(_, node)| {
            matches!(node.class.as_deref(), Some("SaveImage" | "PreviewImage"))
        });
        for (id, _) in outputs {
            let made = host.pictures(id);
            assert_eq!(made.len(), 1, "{name}: node {id}");
            let plain = made[0].rgb.iter().all(|v| *v == made[0].rgb[0]);
            assert!(!plain, "{name}: node {id} is of one color");
        }
        println!("{name}: ran");
    }
}

/// Flux's own examples: every node is known, and takes what it is given.
#[test]
fn flux_workflows_are_checked() {
    for (name, _) in FLUX {
        let Some(text) = workflow(name) else { continue };
        let graph = Graph::from_json(&text, &Limits::default()).unwrap();
        let mut host = Folders::default();
        for (_, node) in graph.iter() {
            for (input, folder) in [
                ("ckpt_name", Folder::Checkpoints),
                ("unet_name", Folder::DiffusionModels),
                ("clip_name1", Folder::TextEncoders),
                ("clip_name2", Folder::TextEncoders),
                ("vae_name", Folder::Vae),
            ] {
                if let Some(file) = node.value(input).and_then(Value::as_str) {
                    host = host.with(folder, file, Path::new("m"));
                }
            }
        }
        let checked = check(&graph, &host, &Limits::default());
        assert!(
            checked.is_ok(),
            "{name}: {}",
            checked.map(|_| ()).unwrap_err()
        );
    }
}

/// The same workflow for a clip of nine small frames.
fn small_clip(text: &str) -> Graph {
    let mut json: Value = serde_json::from_str(text).unwrap();
    for node in json.as_object_mut().unwrap().values_mut() {
        let inputs = node["inputs"].as_object_mut().unwrap();
        for (name, value) in [("width", 64), ("height", 48), ("length", 9)] {
            if inputs.get(name).is_some_and(Value::is_number) {
                inputs.insert(name.to_owned(), json!(value));
            }
        }
    }
    small(&json.to_string())
}

#[test]
fn wans_workflows_run() {
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("start.png");
    let rgb = (0..64 * 64 * 3).map(|i| (i * 31 % 251) as u8).collect();
    let start = Picture {
        width: 64,
        height: 64,
        rgb,
    };
    write_picture(&picture, &start, &[]).unwrap();
    let vocabulary = crate::made::goldens().join("../text/small/spiece.model");
    for (name, models) in WAN {
        let Some(text) = workflow(name) else { continue };
        let graph = small_clip(&text);
        let mut host = Folders::default();
        let whole = model("tiny_wan");
        std::fs::copy(&vocabulary, whole.with_file_name("spiece.model")).unwrap();
        let mut models = models.iter();
        for (_, node) in graph.iter() {
            let named = |input: &str| node.value(input).and_then(Value::as_str);
            if let Some(file) = named("unet_name") {
                let path = model(models.next().unwrap_or_else(|| panic!("{name}: {file}")));
                host = host.with(Folder::DiffusionModels, file, &path);
            }
            for (input, place) in [
                ("clip_name", Folder::TextEncoders),
                ("vae_name", Folder::Vae),
            ] {
                if let Some(file) = named(input) {
                    host = host.with(place, file, &whole);
                }
            }
            if let Some(file) = named("image") {
                host = host.with(Folder::InputImages, file, &picture);
            }
        }
        run(&mut executor(), &graph, &mut host);
        let saved = graph.iter().filter(|(_, node)| {
            let class = node.class.as_deref().unwrap_or_default();
            class.starts_with("Save")
        });
        let mut n_clips = 0;
        for (id, _) in saved {
            let frames = host.pictures(id);
            assert_eq!(frames.len(), 9, "{name}: node {id}");
            assert!(frames.iter().all(|f| (f.width, f.height) == (64, 48)));
            assert!(frames[0] != frames[8], "{name}: nothing changes");
            n_clips += 1;
        }
        assert!(n_clips > 0, "{name}");
        println!("{name}: ran");
    }
}

#[test]
fn missing_nodes_are_named_all_at_once() {
    let node = |class: &str| json!({ "class_type": class, "inputs": {} });
    let graph = json!({ "1": node("WanS2V"), "2": node("AnotherOne"), "3": node("SaveImage") });
    let graph = Graph::from_value(graph, &Limits::default()).unwrap();
    let error = check(&graph, &Folders::default(), &Limits::default());
    let error = error.map(|_| ()).unwrap_err();
    let PromptError::MissingNodes(missing) = &error else {
        panic!("{error}")
    };
    let mut found: Vec<&str> = missing.iter().filter_map(|m| m.class.as_deref()).collect();
    found.sort_unstable();
    assert_eq!(found, ["AnotherOne", "WanS2V"]);
    for class in found {
        assert!(error.to_string().contains(class), "{error}");
    }
}

/// A graph from before an input was there runs with the input's default, where a page would fill it
/// in.
#[test]
fn a_servers_check_does_not_fill_in_defaults() {
    let Some(text) = workflow("inpaint__inpaint_example") else {
        return;
    };
    let graph = Graph::from_json(&text, &Limits::default()).unwrap();
    let host = Folders::default()
        .with(
            Folder::Checkpoints,
            "512-inpainting-ema.safetensors",
            Path::new("m"),
        )
        .with(
            Folder::InputImages,
            "yosemite_inpaint_example.png",
            Path::new("i"),
        );
    let error = check(&graph, &host, &Limits::default());
    let error = error.map(|_| ()).unwrap_err().to_string();
    assert!(
        error.contains("node 26 (VAEEncodeForInpaint): Required input is missing: grow_mask_by")
    );
}
