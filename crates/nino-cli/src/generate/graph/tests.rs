//! Flags beside a graph.

use super::change;
use crate::generate::from::Flags;
use nino_workflow::{Graph, Limits};
use serde_json::{Value, json};
use std::ffi::OsString;

fn graph() -> Value {
    json!({
        "1": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": "m" } },
        "2": { "class_type": "CLIPTextEncode", "inputs": { "text": "a fox", "clip": ["1", 1] } },
        "3": { "class_type": "CLIPTextEncode", "inputs": { "text": "bad", "clip": ["1", 1] } },
        "4": { "class_type": "EmptyLatentImage",
               "inputs": { "width": 64, "height": 64, "batch_size": 1 } },
        "5": { "class_type": "KSampler", "inputs": {
            "model": ["1", 0], "positive": ["2", 0], "negative": ["3", 0],
            "latent_image": ["4", 0], "seed": 1, "steps": 2, "cfg": 5.0,
            "sampler_name": "euler", "scheduler": "normal", "denoise": 1.0 } },
        "6": { "class_type": "VAEDecode", "inputs": { "samples": ["5", 0], "vae": ["1", 2] } },
        "7": { "class_type": "SaveImage",
               "inputs": { "images": ["6", 0], "filename_prefix": "x" } },
    })
}

/// The same with a second pass.
fn hires(seed: u64) -> Value {
    let mut graph = graph();
    graph["8"] = json!({ "class_type": "LatentUpscale", "inputs": { "samples": ["5", 0],
        "upscale_method": "bilinear", "width": 128, "height": 128, "crop": "disabled" } });
    graph["9"] = graph["5"].clone();
    graph["9"]["inputs"]["seed"] = json!(seed);
    graph["9"]["inputs"]["denoise"] = json!(0.5);
    graph["9"]["inputs"]["latent_image"] = json!(["8", 0]);
    graph["6"]["inputs"]["samples"] = json!(["9", 0]);
    graph
}

fn changed(graph: Value, args: &[&str]) -> Result<Value, String> {
    let line = ["nino", "generate", "--from", "x.json"].iter().chain(args);
    let line: Vec<OsString> = line.map(OsString::from).collect();
    let flags = Flags::given(&line).unwrap();
    let mut graph = Graph::from_value(graph, &Limits::default()).unwrap();
    change::apply(&mut graph, &flags).map_err(|e| e.to_string())?;
    Ok(graph.to_json())
}

#[test]
fn flags_with_one_meaning_are_put_in() {
    let args = [
        "a cat",
        "--negative",
        "worse",
        "--seed",
        "18446744073709551615",
        "--steps",
        "9",
        "--cfg",
        "2.5",
        "--sampler",
        "lcm",
        "--scheduler",
        "karras",
        "--size",
        "128x96",
        "--batch",
        "3",
        "--model",
        "n",
        "--denoise",
        "0.5",
        "--precision",
        "fp32",
        "--rng",
        "philox",
    ];
    let made = changed(graph(), &args).unwrap();
    let input = |node: &str, input: &str| made[node]["inputs"][input].clone();
    assert_eq!(input("2", "text"), "a cat");
    assert_eq!(input("3", "text"), "worse");
    assert_eq!(input("5", "seed"), u64::MAX);
    assert_eq!(input("5", "steps"), 9);
    assert_eq!(input("5", "cfg"), 2.5);
    assert_eq!(input("5", "sampler_name"), "lcm");
    assert_eq!(input("5", "scheduler"), "karras");
    assert_eq!(input("5", "denoise"), 0.5);
    assert_eq!(input("5", "nino_rng"), "philox");
    assert_eq!(
        [input("4", "width"), input("4", "height")],
        [json!(128), json!(96)]
    );
    assert_eq!(input("4", "batch_size"), 3);
    assert_eq!(input("1", "ckpt_name"), "n");
    // Nodes that no output needs are not meant.
    let mut more = graph();
    more["50"] = more["5"].clone();
    more["50"]["inputs"]["seed"] = json!(99);
    let made = changed(more, &["--seed", "2"]).unwrap();
    assert_eq!(
        (&made["5"]["inputs"]["seed"], &made["50"]["inputs"]["seed"]),
        (&json!(2), &json!(99))
    );
}

#[test]
fn nodes_are_put_in_for_vaes_loras_and_layers() {
    let args = [
        "--vae",
        "v",
        "--lora",
        "a:0.8",
        "--lora",
        "b:0.5:0.25",
        "--clip-skip",
        "2",
    ];
    let made = changed(graph(), &args).unwrap();
    let text = made.to_string();
    for part in [
        "\"vae_name\":\"v\"",
        "\"strength_model\":0.8",
        "\"strength_clip\":0.25",
        "\"stop_at_clip_layer\":-2",
    ] {
        assert!(text.contains(part), "{part} is missing from {made:#}");
    }
    // From the sampler back over the second LoRA and the first to the loader.
    let mut node = made["5"]["inputs"]["model"][0].as_str().unwrap().to_owned();
    let mut names = Vec::new();
    while let Some(name) = made[&node]["inputs"]["lora_name"].as_str() {
        names.push(name.to_owned());
        node = made[&node]["inputs"]["model"][0]
            .as_str()
            .unwrap()
            .to_owned();
    }
    assert_eq!(
        (names, node.as_str()),
        (vec!["b".to_owned(), "a".to_owned()], "1")
    );
    assert_ne!(made["6"]["inputs"]["vae"], json!(["1", 2]));
}

#[test]
fn flags_with_several_meanings_are_errors_that_say_why() {
    // One value in common is one meaning.
    let made = changed(hires(1), &["--seed", "5"]).unwrap();
    assert_eq!(
        (&made["5"]["inputs"]["seed"], &made["9"]["inputs"]["seed"]),
        (&json!(5), &json!(5))
    );
    let mut both = graph();
    both["5"]["inputs"]["negative"] = json!(["2", 0]);
    let mut with_lora = graph();
    with_lora["10"] = json!({ "class_type": "LoraLoader", "inputs": { "model": ["1", 0],
        "clip": ["1", 1], "lora_name": "l", "strength_model": 1, "strength_clip": 1 } });
    with_lora["5"]["inputs"]["model"] = json!(["10", 0]);
    let cases: [(Value, &[&str], &str); 7] = [
        (
            hires(2),
            &["--seed", "5"],
            "--seed is ambiguous, it could mean node 5 (KSampler, 1) or node 9 (KSampler, 2)",
        ),
        (
            hires(1),
            &["--denoise", "0.3"],
            "--denoise is ambiguous, it could mean node 5",
        ),
        (
            hires(1),
            &["--size", "64x64"],
            "that of node 8, which scales",
        ),
        (
            graph(),
            &["--hires", "2x"],
            "--hires cannot be combined with a ComfyUI graph",
        ),
        (graph(), &["--image", "i.png"], "--image cannot be applied"),
        (
            both,
            &["a cat"],
            "node 2 is both the prompt and the negative prompt",
        ),
        (
            with_lora,
            &["--lora", "x"],
            "the graph's own LoRA (node 10)",
        ),
    ];
    for (graph, args, part) in cases {
        let error = changed(graph, args).unwrap_err();
        assert!(error.contains(part), "{args:?}: {error}");
    }
}
