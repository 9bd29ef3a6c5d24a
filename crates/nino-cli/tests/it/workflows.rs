//! Workflows as ComfyUI's page saves them, run like the graphs that the page would send.

use crate::shell::{Folder, nino};
use serde_json::{Value, json};

/// Text to image with the built-in model: what the page sends.
fn sent() -> Value {
    json!({
        "3": { "class_type": "KSampler", "inputs": { "model": ["4", 0], "positive": ["6", 0],
            "negative": ["7", 0], "latent_image": ["5", 0], "seed": 7, "steps": 1, "cfg": 2.5,
            "sampler_name": "euler", "scheduler": "simple", "denoise": 1.0 } },
        "4": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": "nino-emoji" } },
        "5": { "class_type": "EmptyLatentImage",
            "inputs": { "width": 64, "height": 64, "batch_size": 1 } },
        "6": { "class_type": "CLIPTextEncode", "inputs": { "clip": ["4", 1], "text": "a fox" } },
        "7": { "class_type": "CLIPTextEncode", "inputs": { "clip": ["4", 1], "text": "" } },
        "8": { "class_type": "VAEDecode", "inputs": { "samples": ["3", 0], "vae": ["4", 2] } },
        "9": { "class_type": "SaveImage",
            "inputs": { "images": ["8", 0], "filename_prefix": "x" } },
    })
}

/// The same as the page saves it, with what exists on the page only: a bend, a value on its own,
/// a note, and a node that is left out of the way.
fn saved() -> Value {
    let input =
        |name: &str, kind: &str, link: u64| json!({ "name": name, "type": kind, "link": link });
    json!({
        "nodes": [
            { "id": 3, "type": "KSampler",
              "widgets_values": [7, "randomize", 1, 2.5, "euler", "simple", 1.0],
              "inputs": [input("model", "MODEL", 1), input("positive", "CONDITIONING", 2),
                         input("negative", "CONDITIONING", 3), input("latent_image", "LATENT", 4)] },
            { "id": 4, "type": "CheckpointLoaderSimple", "widgets_values": ["nino-emoji"] },
            { "id": 5, "type": "EmptyLatentImage", "widgets_values": [64, 64, 1] },
            { "id": 6, "type": "CLIPTextEncode", "widgets_values": ["something old"],
              "inputs": [input("clip", "CLIP", 5), input("text", "STRING", 11)] },
            { "id": 7, "type": "CLIPTextEncode", "widgets_values": [""],
              "inputs": [input("clip", "CLIP", 6)] },
            { "id": 8, "type": "VAEDecode",
              "inputs": [input("samples", "LATENT", 7), input("vae", "VAE", 8)] },
            { "id": 9, "type": "SaveImage", "widgets_values": ["x"],
              "inputs": [input("images", "IMAGE", 9)] },
            { "id": 10, "type": "Reroute", "inputs": [{ "type": "*", "link": 10 }] },
            { "id": 11, "type": "LoraLoader", "mode": 4, "widgets_values": ["none", 1, 1],
              "inputs": [input("model", "MODEL", 12), input("clip", "CLIP", 13)] },
            { "id": 12, "type": "PrimitiveNode", "widgets_values": ["a fox"] },
            { "id": 13, "type": "Note", "widgets_values": ["words"] },
        ],
        "links": [
            [1, 10, 0, 3, 0, "MODEL"], [2, 6, 0, 3, 1, "CONDITIONING"],
            [3, 7, 0, 3, 2, "CONDITIONING"], [4, 5, 0, 3, 3, "LATENT"],
            [5, 11, 1, 6, 0, "CLIP"], [6, 11, 1, 7, 0, "CLIP"], [7, 3, 0, 8, 0, "LATENT"],
            [8, 4, 2, 8, 1, "VAE"], [9, 8, 0, 9, 0, "IMAGE"], [10, 11, 0, 10, 0, "MODEL"],
            [11, 12, 0, 6, 1, "STRING"], [12, 4, 0, 11, 0, "MODEL"], [13, 4, 1, 11, 1, "CLIP"],
        ],
    })
}

#[test]
fn a_workflow_of_the_page_makes_the_picture_of_its_graph() {
    let dir = Folder::new();
    let pictures = [("api", sent()), ("page", saved())].map(|(name, graph)| {
        let file = dir.at(&format!("{name}.json"));
        std::fs::write(&file, graph.to_string()).unwrap();
        let out = dir.at(&format!("{name}.png"));
        let said = nino(&["generate", "--from", &file, "-o", &out, "--device", "cpu"]);
        assert_eq!(said.code, 0, "{name}: {}", said.err);
        std::fs::read(out).unwrap()
    });
    assert!(pictures[0] == pictures[1], "the pictures differ");
}

/// What nino lacks is named by its class and its place, as for graphs of the API.
#[test]
fn a_page_with_a_node_that_is_not_known_names_it() {
    let dir = Folder::new();
    let (file, out) = (dir.at("page.json"), dir.at("a.png"));
    let mut page = saved();
    page["nodes"][5]["type"] = json!("FancyDecoder");
    std::fs::write(&file, page.to_string()).unwrap();
    let said = nino(&["generate", "--from", &file, "-o", &out, "--device", "cpu"]);
    assert_eq!(said.code, 1);
    let named = "FancyDecoder (node 8; VAEDecode";
    assert!(said.err.contains(named), "{}", said.err);
}
