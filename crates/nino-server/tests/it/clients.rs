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
    assert!(frames.iter().all(|frame| frame[..4] == [0, 0, 0, 1]));
    assert_eq!(server.get(&format!("/history/{id}")).status, 200);
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
    assert!(texts.iter().any(|text| text["type"] == "progress"));
    assert_eq!(server.send("/interrupt", "text/plain", b"").status, 200);
}

/// RunPod's worker looks whether the server answers, uploads, runs, and reads the pictures.
#[test]
fn runpod() {
    let server = start();
    assert_eq!(server.get("/").status, 200);
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
    assert!(entry[&id]["outputs"]["9"]["images"].is_array());
}

/// SillyTavern and others have no socket: they ask for the history until it is there.
#[test]
fn sillytavern() {
    let server = start();
    let id = server
        .post("/prompt", &json!({ "prompt": graph(9, 1) }))
        .json();
    let id = id["prompt_id"].as_str().unwrap();
    let entry: Value = server.wait(id);
    assert_eq!(entry["status"]["completed"], true);
}
