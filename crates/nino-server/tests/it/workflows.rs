//! ComfyUI's own example workflows, sent as its page sends them: they are taken with small
//! checkpoints, or the server names the one thing that is missing.

use crate::client::start_with;
use crate::examples::EXAMPLES;
use crate::models;
use nino_engine::Picture;
use nino_engine::media::write_picture;
use serde_json::{Value, json};
use std::path::Path;

/// Those that are run to their end. The others are checked, planned and taken, and then cancelled:
/// that they run is tested where nodes are.
const RUN: [&str; 3] = [
    "img2img__img2img_workflow",
    "lora__lora",
    "inpaint__yosemite_outpaint_example",
];

/// Small pictures, two steps, no LoRA, and the inputs that a page fills in.
fn small(prompt: &mut Value) {
    for node in prompt.as_object_mut().unwrap().values_mut() {
        let class = node["class_type"].as_str().unwrap().to_owned();
        let inputs = &mut node["inputs"];
        let changes = match &*class {
            "EmptyLatentImage" => json!({ "width": 64, "height": 64 }),
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
            "KSampler" => json!({ "steps": 2 }),
            _ => json!({}),
        };
        for (name, value) in changes.as_object().unwrap() {
            inputs[name] = value.clone();
        }
    }
}

#[test]
fn comfyuis_workflows_are_taken_or_say_what_is_missing() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/workflows");
    let Ok(entries) = std::fs::read_dir(&folder) else {
        println!("skipped: no {}", folder.display());
        return;
    };
    let data = tempfile::tempdir().unwrap();
    let picture = Picture {
        width: 64,
        height: 64,
        rgb: (0..64 * 64 * 3).map(|i| (i * 31 % 251) as u8).collect(),
    };
    // Everything that workflows load is there before the server starts.
    let mut prompts = Vec::new();
    for entry in entries.flatten() {
        let file = entry.file_name().into_string().unwrap();
        let Some(name) = file.strip_suffix(".api.json") else {
            continue;
        };
        let text = std::fs::read_to_string(entry.path()).unwrap();
        let mut prompt: Value = serde_json::from_str(&text).unwrap();
        small(&mut prompt);
        let known = EXAMPLES.iter().find(|(known, _)| *known == name);
        prepare(
            data.path(),
            &prompt,
            known.map_or(&[][..], |(_, models)| models),
            &picture,
        );
        prompts.push((name.to_owned(), prompt, known.is_some()));
    }
    let server = start_with(data, |_| {});
    for (name, prompt, runs) in prompts {
        let answer = server.post("/prompt", &json!({ "prompt": prompt }));
        let body = answer.json();
        if !runs {
            let kind = body["error"]["type"].as_str().unwrap();
            let told = ["missing_node_type", "prompt_outputs_failed_validation"];
            assert!(told.contains(&kind), "{name}: {body}");
            println!("{name}: {}", body["error"]["message"]);
            continue;
        }
        assert_eq!(answer.status, 200, "{name}: {body}");
        let id = body["prompt_id"].as_str().unwrap();
        if !RUN.contains(&&*name) {
            server.post(&format!("/api/jobs/{id}/cancel"), &json!({}));
            println!("{name}: taken");
            continue;
        }
        let entry = server.wait(id);
        assert_eq!(entry["status"]["status_str"], "success", "{name}: {entry}");
        println!("{name}: ran");
    }
}

/// Puts the pictures of a graph and these models into a server's folder.
fn prepare(data: &Path, prompt: &Value, models: &[&str], picture: &Picture) {
    let mut ids: Vec<&String> = prompt.as_object().unwrap().keys().collect();
    ids.sort_by_key(|id| id.parse::<u64>().unwrap_or(u64::MAX));
    let mut next = models.iter();
    for id in ids {
        let inputs = &prompt[id]["inputs"];
        if let Some(wanted) = inputs["image"].as_str() {
            std::fs::create_dir_all(data.join("input")).unwrap();
            write_picture(&data.join("input").join(wanted), picture, &[]).unwrap();
        }
        if let Some(wanted) = inputs["ckpt_name"].as_str()
            && let Some(model) = next.next()
        {
            models::put(data, wanted, model);
        }
        for (input, folder) in [("vae_name", "vae"), ("lora_name", "loras")] {
            if let Some(wanted) = inputs[input].as_str().filter(|_| !models.is_empty()) {
                models::put(data, &format!("../{folder}/{wanted}"), "tiny_sd1");
            }
        }
    }
}
