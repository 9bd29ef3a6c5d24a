//! ComfyUI's own example workflows, sent as its page sends them: all of them run with small
//! checkpoints.

use crate::client::start_with;
use crate::examples::{EXAMPLES, FLUX, WAN};
use crate::made;
use crate::models::{put, put_in};
use nino_engine::Picture;
use nino_engine::media::write_picture;
use serde_json::{Value, json};
use std::path::Path;

/// Small pictures and clips, two steps, no LoRA, and the inputs that a page fills in.
fn small(prompt: &mut Value) {
    for node in prompt.as_object_mut().unwrap().values_mut() {
        let class = node["class_type"].as_str().unwrap().to_owned();
        let inputs = &mut node["inputs"];
        let changes = match &*class {
            "EmptyLatentImage" | "EmptySD3LatentImage" => json!({ "width": 64, "height": 64 }),
            "EmptyHunyuanLatentVideo" | "WanImageToVideo" => {
                json!({ "width": 64, "height": 48, "length": 9 })
            }
            "LatentUpscale" => json!({ "width": 96, "height": 96 }),
            "ConditioningSetArea" => json!({ "width": 64, "height": 64, "y": 8 }),
            "ImagePadForOutpaint" => json!({ "top": 16, "bottom": 16, "feathering": 8 }),
            "LoraLoader" => json!({ "strength_model": 0, "strength_clip": 0 }),
            "VAEEncodeForInpaint" => json!({ "grow_mask_by": 6 }),
            "KSamplerAdvanced" => {
                let second = inputs["start_at_step"] != 0;
                let end = if second { 10_000 } else { 1 };
                json!({ "steps": 2, "start_at_step": u8::from(second), "end_at_step": end })
            }
            "SDTurboScheduler" => json!({ "steps": 2, "denoise": 1.0 }),
            "KSampler" | "BasicScheduler" => json!({ "steps": 2 }),
            _ => json!({}),
        };
        for (name, value) in changes.as_object().unwrap() {
            inputs[name] = value.clone();
        }
    }
}

/// Runs workflows on a server that has all that they load.
fn all_run(examples: &[(&str, &[&str])]) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/workflows");
    if !folder.is_dir() {
        println!("skipped: no {}", folder.display());
        return;
    }
    let data = tempfile::tempdir().unwrap();
    let mut prompts = Vec::new();
    for (name, models) in examples {
        let text = std::fs::read_to_string(folder.join(format!("{name}.api.json"))).unwrap();
        let mut prompt: Value = serde_json::from_str(&text).unwrap();
        small(&mut prompt);
        prepare(data.path(), &prompt, models);
        prompts.push((name, prompt));
    }
    let server = start_with(data, |_| {});
    let send = |(name, prompt)| {
        let answer = server.post("/prompt", &json!({ "prompt": prompt }));
        let body = answer.json();
        assert_eq!(answer.status, 200, "{name}: {body}");
        (name, body["prompt_id"].as_str().unwrap().to_owned())
    };
    let ids: Vec<_> = prompts.into_iter().map(send).collect();
    for (name, id) in ids {
        let entry = server.wait(&id);
        assert_eq!(entry["status"]["status_str"], "success", "{name}: {entry}");
        let outputs = entry["outputs"].as_object().unwrap();
        let made = outputs
            .values()
            .filter_map(|output| output["images"].as_array());
        assert!(made.flatten().count() > 0, "{name}: {entry}");
        println!("{name}: ran");
    }
}

/// Puts the pictures of a graph and its models into a server's folder. Loaders of diffusion models
/// take them in the order of their nodes.
fn prepare(data: &Path, prompt: &Value, models: &[&str]) {
    let mut ids: Vec<&String> = prompt.as_object().unwrap().keys().collect();
    ids.sort_by_key(|id| id.parse::<u64>().unwrap_or(u64::MAX));
    let mut next = models.iter();
    let flux = models.first() == Some(&"tiny_flux");
    let wan = models.first().is_some_and(|model| model.contains("wan"));
    let (clip, vae) = match (flux, wan) {
        (true, _) => ("", "tiny_flux#vae."),
        (_, true) => ("tiny_wan", "tiny_wan"),
        _ => ("", "tiny_sd1"),
    };
    for id in ids {
        let inputs = &prompt[id]["inputs"];
        let named = |input: &str| inputs[input].as_str();
        if let Some(file) = named("image") {
            let picture = Picture {
                width: 64,
                height: 64,
                rgb: (0..64 * 64 * 3).map(|i| (i * 31 % 251) as u8).collect(),
            };
            std::fs::create_dir_all(data.join("input")).unwrap();
            write_picture(&data.join("input").join(file), &picture, &[]).unwrap();
        }
        if let Some(file) = named("ckpt_name") {
            put(data, file, next.next().unwrap());
        }
        if let Some(file) = named("unet_name") {
            put_in(data, "diffusion_models", file, next.next().unwrap());
        }
        for (input, folder, model) in [
            ("vae_name", "vae", vae),
            ("lora_name", "loras", "tiny_sd1"),
            ("clip_name", "text_encoders", clip),
            (
                "clip_name1",
                "text_encoders",
                "tiny_flux#text_encoders.t5xxl.transformer.",
            ),
            (
                "clip_name2",
                "text_encoders",
                "tiny_flux#text_encoders.clip_l.transformer.",
            ),
        ] {
            if let Some(file) = named(input) {
                put_in(data, folder, file, model);
            }
        }
    }
    if wan {
        let vocabulary = made::goldens().join("../text/small/spiece.model");
        std::fs::copy(vocabulary, data.join("models/text_encoders/spiece.model")).unwrap();
    }
}

#[test]
fn stable_diffusions_workflows_run() {
    all_run(&EXAMPLES);
}

#[test]
fn fluxs_workflows_run() {
    all_run(&FLUX);
}

#[test]
fn wans_workflows_run() {
    all_run(&WAN);
}
