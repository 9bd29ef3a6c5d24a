//! The calls of programs that people use with ComfyUI, in their order.

use crate::client::{Heard, graph, start};
use serde_json::{Value, json};

/// Open WebUI waits for `executing` without a node, then reads the history and the pictures of
/// nodes whose class saves or shows them.
#[test]
fn open_webui() {
    let server = start();
    let mut socket = server.socket("webui");
    let body = json!({ "prompt": graph(1, 1), "client_id": "webui" });
    let id = server.post("/prompt", &body).json()["prompt_id"]
        .as_str()
        .unwrap()
        .to_owned();
    loop {
        let Heard::Text(text) = socket.hear() else {
            continue;
        };
        let data = &text["data"];
        if text["type"] == "executing" && data["node"].is_null() && data["prompt_id"] == *id {
            break;
        }
    }
    let history = server.json(&format!("/history/{id}"));
    let entry = &history[&id];
    let mut pictures = 0;
    for (node, output) in entry["outputs"].as_object().unwrap() {
        let class = &entry["prompt"][2][node]["class_type"];
        if class == "SaveImage" || class == "PreviewImage" {
            for image in output["images"].as_array().unwrap() {
                let query = format!(
                    "/view?filename={}&subfolder={}&type={}",
                    image["filename"].as_str().unwrap(),
                    image["subfolder"].as_str().unwrap(),
                    image["type"].as_str().unwrap()
                );
                assert_eq!(server.get(&query).status, 200);
                pictures += 1;
            }
        }
    }
    assert_eq!(pictures, 1);
}

/// SwarmUI reads lists out of `/object_info` and asks for features, then runs, reads and forgets.
#[test]
fn swarmui() {
    let server = start();
    let info = server.json("/object_info");
    let lists = [
        ("CheckpointLoaderSimple", "ckpt_name"),
        ("UNETLoader", "unet_name"),
        ("UnetLoaderGGUF", "unet_name"),
        ("LoraLoader", "lora_name"),
        ("VAELoader", "vae_name"),
        ("ControlNetLoader", "control_net_name"),
        ("CLIPVisionLoader", "clip_name"),
    ];
    for (class, input) in lists {
        assert!(
            info[class]["input"]["required"][input][0].is_array(),
            "{class}"
        );
    }
    assert_eq!(server.get("/features").status, 200);
    let mut socket = server.socket("swarm");
    let id = server.prompt(&graph(3, 1), "swarm");
    let (_, frames) = socket.until_done(&id);
    // Event 1 and a format, then the picture.
    assert!(!frames.is_empty());
    assert!(frames.iter().all(|frame| frame[..4] == [0, 0, 0, 1]));
    let history = server.json(&format!("/history/{id}"));
    let image = &history[&id]["outputs"]["9"]["images"][0];
    let (name, kind) = (
        image["filename"].as_str().unwrap(),
        image["type"].as_str().unwrap(),
    );
    let seen = server.get(&format!("/view?filename={name}&type={kind}&subfolder="));
    assert_eq!((seen.status, &*seen.kind), (200, "image/png"));
    let up = server.upload(
        "/upload/image",
        "swarm.png",
        &seen.bytes,
        &[("overwrite", "true")],
    );
    assert_eq!(up.json()["name"], "swarm.png");
    server.post("/history", &json!({ "delete": [id] }));
    assert_eq!(server.json(&format!("/history/{id}")), json!({}));
    assert_eq!(
        server
            .post("/interrupt", &json!({ "prompt_id": id }))
            .status,
        200
    );
    assert_eq!(
        server.post("/queue", &json!({ "delete": [id] })).status,
        200
    );
    let free = json!({ "unload_models": true, "free_memory": true });
    assert_eq!(server.post("/free", &free).status, 200);
}

/// StabilityMatrix never says what it understands, and takes eight bytes off every frame.
#[test]
fn stability_matrix() {
    let server = start();
    let mut socket = server.socket("sm");
    let names = server.json("/object_info/CheckpointLoaderSimple");
    let name = &names["CheckpointLoaderSimple"]["input"]["required"]["ckpt_name"][0][0];
    let mut graph = graph(4, 2);
    graph["4"]["inputs"]["ckpt_name"] = name.clone();
    let id = server.prompt(&graph, "sm");
    let (texts, frames) = socket.until_done(&id);
    assert!(frames.iter().all(|frame| frame[8..10] == [0xff, 0xd8]));
    let kinds: Vec<&str> = texts
        .iter()
        .filter_map(|text| text["type"].as_str())
        .collect();
    for kind in ["status", "executing", "progress"] {
        assert!(kinds.contains(&kind), "{kind}");
    }
    let history = server.json(&format!("/history/{id}"));
    let name = history[&id]["outputs"]["9"]["images"][0]["filename"]
        .as_str()
        .unwrap();
    assert_eq!(
        server
            .get(&format!("/view?filename={name}&type=output"))
            .status,
        200
    );
    assert_eq!(
        server.upload("/upload/image", "sm.png", b"x", &[]).status,
        200
    );
    assert_eq!(server.send("/interrupt", "text/plain", b"").status, 200);
}

/// RunPod's worker looks whether the server answers, uploads, runs, and reads the pictures.
#[test]
fn runpod() {
    let server = start();
    assert_eq!(server.get("/").status, 200);
    let known = server.json("/object_info");
    assert!(known["CheckpointLoaderSimple"]["input"]["required"]["ckpt_name"][0].is_array());
    let up = server.upload("/upload/image", "in.png", b"png", &[("overwrite", "true")]);
    assert_eq!(up.status, 200);
    let mut absent = graph(1, 1);
    absent["4"]["inputs"]["ckpt_name"] = json!("flux1-dev-fp8.safetensors");
    let refused = server.post("/prompt", &json!({ "prompt": absent, "client_id": "rp" }));
    assert_eq!(refused.status, 400);
    let refused = refused.json();
    assert_eq!(refused["error"]["type"], "prompt_outputs_failed_validation");
    assert!(refused["node_errors"]["4"]["errors"][0]["details"].is_string());
    let mut socket = server.socket("rp");
    let id = server.prompt(&graph(1, 1), "rp");
    socket.until_done(&id);
    let entry = server.json(&format!("/history/{id}"));
    let image = &entry[&id]["outputs"]["9"]["images"][0];
    let name = image["filename"].as_str().unwrap();
    let seen = server.get(&format!("/view?filename={name}&subfolder=&type=output"));
    assert_eq!(seen.bytes[1..4], *b"PNG");
}

/// SillyTavern and others have no socket: they ask for the history until it is there.
#[test]
fn sillytavern() {
    let server = start();
    let id = server
        .post("/prompt", &json!({ "prompt": graph(9, 1) }))
        .json();
    let id = id["prompt_id"].as_str().unwrap();
    // It looks for samplers and models first.
    let info = server.json("/object_info");
    assert!(info["KSampler"]["input"]["required"]["sampler_name"][0].is_array());
    assert!(info["KSampler"]["input"]["required"]["scheduler"][0].is_array());
    let entry: Value = server.wait(id);
    assert_eq!(entry["status"]["completed"], true);
    let image = &entry["outputs"]["9"]["images"][0];
    let name = image["filename"].as_str().unwrap();
    assert_eq!(
        server
            .get(&format!("/view?filename={name}&subfolder=&type=output"))
            .kind,
        "image/png"
    );
}
