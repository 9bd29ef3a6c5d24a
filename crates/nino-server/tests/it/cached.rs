//! Results that are known from the job before, and what has to be made again.

use crate::client::{graph, start};
use serde_json::{Value, json};

/// What is sent and kept nowhere is sent every time.
#[test]
fn pictures_for_the_socket_are_sent_again() {
    let server = start();
    let mut socket = server.socket("s");
    let mut prompt = graph(1, 1);
    prompt["9"] = json!({ "class_type": "SaveImageWebsocket", "inputs": { "images": ["8", 0] } });
    for _ in 0..2 {
        let id = server.prompt(&prompt, "s");
        let (texts, frames) = socket.until_done(&id);
        let pictures = frames.iter().filter(|f| f[..8] == [0, 0, 0, 1, 0, 0, 0, 2]);
        assert_eq!(pictures.count(), 1);
        // It has nothing that a page shows, as ComfyUI has it.
        assert!(texts.iter().all(|text| text["type"] != "executed"));
        assert_eq!(server.wait(&id)["outputs"], json!({}));
    }
}

/// A picture that its user removed is made again, and nothing else is.
#[test]
fn a_removed_picture_is_made_again() {
    let server = start();
    let mut socket = server.socket("r");
    let mut made = |kept: bool| -> Value {
        let id = server.prompt(&graph(5, 2), "r");
        let (texts, _) = socket.until_done(&id);
        let cached = texts.iter().find(|t| t["type"] == "execution_cached");
        let cached = cached.unwrap()["data"]["nodes"].as_array().unwrap();
        assert_eq!(cached.contains(&json!("9")), kept, "{cached:?}");
        server.wait(&id)["outputs"]["9"]["images"][0].take()
    };
    let first = made(false);
    assert_eq!(made(true), first);
    assert_eq!(server.post("/nino/delete", &first).status, 200);
    let again = made(false);
    let name = again["filename"].as_str().unwrap();
    let shown = server.get(&format!("/view?filename={name}&type=output"));
    assert_eq!(shown.status, 200);
    // The same for who is sent the picture itself.
    let body = json!({ "prompt": "x", "steps": 1, "width": 64, "height": 64, "seed": 5 });
    let draw = || server.post("/sdapi/v1/txt2img", &body);
    let picture = draw().json()["images"][0].take();
    let name = "nino_00001_.png";
    let gone = json!({ "filename": name, "subfolder": "api" });
    assert_eq!(server.post("/nino/delete", &gone).status, 200);
    assert_eq!(draw().json()["images"][0], picture);
}
