//! Workflows of the page against the graphs that the page sends.

use super::{is_page, read, read_either};
use crate::{Graph, GraphError, Limits};
use serde_json::{Value, json};

fn graph(page: &Value) -> Graph {
    read(page, &Limits::default()).unwrap().graph
}

#[test]
fn widgets_get_the_names_of_inputs_and_links_win() {
    let page = json!({
        "nodes": [
            { "id": 1, "type": "CheckpointLoaderSimple", "widgets_values": ["m.safetensors"],
              "properties": { "models": [
                  { "name": "m.safetensors", "url": "https://example.com/m.safetensors" }] } },
            { "id": 3, "type": "KSampler", "title": "Refine",
              "inputs": [{ "name": "model", "link": 7 }, { "name": "cfg", "link": 8 }],
              "widgets_values": [42, "randomize", 20, 7.5, "euler", "karras", 1] },
            { "id": 4, "type": "SomeLoader", "widgets_values": ["x.gguf", 3] },
            { "id": 5, "type": "Note", "widgets_values": ["hello"] },
            { "id": 6, "type": "VAEDecode", "mode": 4 },
        ],
        "links": [[7, 1, 0, 3, 0, "MODEL"], { "id": 8, "origin_id": 4, "origin_slot": 1 }],
    });
    assert!(is_page(&page));
    let page = read(&page, &Limits::default()).unwrap();
    assert_eq!(page.graph.len(), 3);
    let sampler = page.graph.get("3").unwrap();
    assert_eq!(sampler.value("seed"), Some(&json!(42)));
    assert_eq!(sampler.value("steps"), Some(&json!(20)));
    assert_eq!(sampler.value("scheduler"), Some(&json!("karras")));
    assert_eq!(sampler.link("model").unwrap().node, "1");
    assert_eq!(sampler.link("cfg").unwrap().slot, 1);
    let other = page.graph.get("4").unwrap();
    assert_eq!(other.value("widget 0"), Some(&json!("x.gguf")));
    assert!(page.addresses["m.safetensors"].ends_with("m.safetensors"));
}

/// Older pages wrote a boolean behind a seed.
#[test]
fn what_follows_a_seed_is_no_value_of_a_node() {
    for after in [json!("fixed"), json!(true)] {
        let page = json!({ "links": [], "nodes": [{ "id": 3, "type": "KSampler",
            "widgets_values": [42, after, 20, 7.5, "euler", "karras", 1] }] });
        let graph = graph(&page);
        let sampler = graph.get("3").unwrap();
        assert_eq!(sampler.value("steps"), Some(&json!(20)));
        assert_eq!(sampler.value("denoise"), Some(&json!(1)));
    }
}

#[test]
fn what_is_on_the_page_only_is_resolved() {
    let page = json!({
        "nodes": [
            { "id": 1, "type": "CheckpointLoaderSimple", "widgets_values": ["m"] },
            { "id": 2, "type": "Reroute", "inputs": [{ "type": "*", "link": 10 }] },
            { "id": 3, "type": "LoraLoader", "mode": 4, "inputs": [
                { "name": "model", "type": "MODEL", "link": 11 },
                { "name": "clip", "type": "CLIP", "link": 12 }] },
            { "id": 4, "type": "PrimitiveNode", "widgets_values": ["a fox", "fixed"] },
            { "id": 5, "type": "CLIPTextEncode", "widgets_values": ["old"], "inputs": [
                { "name": "clip", "type": "CLIP", "link": 13 },
                { "name": "text", "type": "STRING", "link": 14 }] },
            { "id": 6, "type": "VAEDecode", "mode": 2 },
            { "id": 7, "type": "SaveImage", "widgets_values": ["x"], "inputs": [
                { "name": "images", "type": "IMAGE", "link": 15 }] },
        ],
        "links": [
            [10, 1, 0, 2, 0, "MODEL"], [11, 2, 0, 3, 0, "MODEL"], [12, 1, 1, 3, 1, "CLIP"],
            [13, 3, 1, 5, 0, "CLIP"], [14, 4, 0, 5, 1, "STRING"], [15, 6, 0, 7, 0, "IMAGE"],
        ],
    });
    let graph = graph(&page);
    let ids: Vec<&str> = graph.iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["1", "5", "7"]);
    let text = graph.get("5").unwrap();
    // Through the LoRA that is left out; the first node's own output.
    let clip = text.link("clip").unwrap();
    assert_eq!((&*clip.node, clip.slot), ("1", 1));
    assert_eq!(text.value("text"), Some(&json!("a fox")));
    // The picture of a muted node is not there.
    assert_eq!(graph.get("7").unwrap().link("images"), None);
}

#[test]
fn subgraphs_are_read_into_the_graph() {
    let subgraph = json!({ "id": "abc",
        "nodes": [
            { "id": 8, "type": "CLIPTextEncode", "widgets_values": ["inside"], "inputs": [
                { "name": "clip", "type": "CLIP", "link": 1 },
                { "name": "text", "type": "STRING", "link": 2 }] },
            { "id": 9, "type": "VAELoader", "widgets_values": ["v.pt"] }],
        "links": [
            { "id": 1, "origin_id": -10, "origin_slot": 0, "target_id": 8, "target_slot": 0 },
            { "id": 2, "origin_id": -10, "origin_slot": 1, "target_id": 8, "target_slot": 1 },
            { "id": 3, "origin_id": 8, "origin_slot": 0, "target_id": -20, "target_slot": 1 }] });
    let mut page = json!({
        "nodes": [
            { "id": 1, "type": "CLIPLoader", "widgets_values": ["c", "flux"] },
            { "id": 2, "type": "abc", "inputs": [
                { "name": "clip", "type": "CLIP", "link": 5 }, { "name": "text", "link": null }] },
            { "id": 3, "type": "abc", "mode": 2 },
            { "id": 4, "type": "ConditioningZeroOut", "inputs": [
                { "name": "conditioning", "type": "CONDITIONING", "link": 6 }] },
        ],
        "links": [[5, 1, 0, 2, 0, "CLIP"], [6, 2, 1, 4, 0, "CONDITIONING"]],
        "definitions": { "subgraphs": [subgraph] },
    });
    let found = graph(&page);
    let ids: Vec<&str> = found.iter().map(|(id, _)| id).collect();
    assert_eq!(ids, ["1", "4", "2:8", "2:9"]);
    let inside = found.get("2:8").unwrap();
    assert_eq!(inside.link("clip").unwrap().node, "1");
    // Nothing is linked outside, so that the widget's own value counts.
    assert_eq!(inside.value("text"), Some(&json!("inside")));
    let zero = found.get("4").unwrap();
    assert_eq!(zero.link("conditioning").unwrap().node, "2:8");
    let loader = found.get("2:9").unwrap();
    assert_eq!(loader.value("vae_name"), Some(&json!("v.pt")));

    let few = Limits {
        nodes: 5,
        ..Limits::default()
    };
    assert!(matches!(read(&page, &few), Err(GraphError::Nodes { .. })));
    // One that is in itself.
    page["definitions"]["subgraphs"][0]["nodes"][1]["type"] = json!("abc");
    let endless = read(&page, &Limits::default());
    assert!(
        matches!(endless, Err(GraphError::Depth { .. })),
        "{endless:?}"
    );
}

#[test]
fn a_circle_of_bends_leads_to_nothing() {
    let page = json!({
        "nodes": [
            { "id": 1, "type": "Reroute", "inputs": [{ "type": "*", "link": 2 }] },
            { "id": 2, "type": "Reroute", "inputs": [{ "type": "*", "link": 1 }] },
            { "id": 3, "type": "SaveImage", "inputs": [{ "name": "images", "link": 1 }] },
        ],
        "links": [[1, 1, 0, 2, 0, "*"], [2, 2, 0, 1, 0, "*"]],
    });
    assert_eq!(graph(&page).get("3").unwrap().link("images"), None);
}

#[test]
fn either_format_is_read() {
    let limits = Limits::default();
    let api = r#"{"1": {"class_type": "VAELoader", "inputs": {"vae_name": "v"}}}"#;
    let page =
        r#"{"nodes": [{"id": 1, "type": "VAELoader", "widgets_values": ["v"]}], "links": []}"#;
    let [api, page] = [api, page].map(|text| read_either(text, &limits).unwrap());
    assert_eq!(api, page);
}

#[test]
fn values_below_a_choice_follow_it() {
    let page = json!({
        "nodes": [
            { "id": 1, "type": "ResizeImageMaskNode",
              "widgets_values": ["scale dimensions", 640, 360, "center", "nearest-exact"] },
            { "id": 2, "type": "ResizeImageMaskNode",
              "widgets_values": ["scale total pixels", 1.5, "lanczos"] },
            { "id": 3, "type": "SaveImageAdvanced",
              "widgets_values": ["fox", "png", "8-bit", "sRGB"] },
            { "id": 4, "type": "CustomCombo",
              "widgets_values": ["9:16", 1, "16:9", "9:16", ""] },
        ],
        "links": [],
    });
    let graph = graph(&page);
    let value = |id: &str, name: &str| graph.get(id).unwrap().value(name).cloned();
    assert_eq!(value("1", "resize_type.width"), Some(json!(640)));
    assert_eq!(value("1", "resize_type.height"), Some(json!(360)));
    assert_eq!(value("1", "resize_type.crop"), Some(json!("center")));
    assert_eq!(value("1", "scale_method"), Some(json!("nearest-exact")));
    assert_eq!(value("2", "resize_type.megapixels"), Some(json!(1.5)));
    assert_eq!(value("2", "scale_method"), Some(json!("lanczos")));
    assert_eq!(value("2", "resize_type.width"), None);
    assert_eq!(value("3", "format.input_color_space"), Some(json!("sRGB")));
    assert_eq!(value("4", "choice"), Some(json!("9:16")));
    assert_eq!(value("4", "index"), Some(json!(1)));
}

/// The node of a subgraph has fewer inputs than the subgraph, and values of its own.
#[test]
fn inputs_of_subgraphs_go_by_their_names() {
    let subgraph = json!({ "id": "abc",
        "inputs": [
            { "name": "text", "type": "STRING" }, { "name": "clip", "type": "CLIP" },
            { "name": "vae_name", "type": "COMBO" }],
        "nodes": [
            { "id": 8, "type": "CLIPTextEncode", "widgets_values": ["inside"], "inputs": [
                { "name": "clip", "type": "CLIP", "link": 1 },
                { "name": "text", "type": "STRING", "link": 2 }] },
            { "id": 9, "type": "VAELoader", "widgets_values": ["v.pt"], "inputs": [
                { "name": "vae_name", "type": "COMBO", "link": 3 }] }],
        "links": [
            { "id": 1, "origin_id": -10, "origin_slot": 1, "target_id": 8, "target_slot": 0 },
            { "id": 2, "origin_id": -10, "origin_slot": 0, "target_id": 8, "target_slot": 1 },
            { "id": 3, "origin_id": -10, "origin_slot": 2, "target_id": 9, "target_slot": 0 }] });
    let mut page = json!({
        "nodes": [
            { "id": 1, "type": "CLIPLoader", "widgets_values": ["c", "flux"] },
            { "id": 2, "type": "abc", "widgets_values": ["outside", null],
              "inputs": [{ "name": "clip", "type": "CLIP", "link": 5 }] },
        ],
        "links": [[5, 1, 0, 2, 0, "CLIP"]],
        "definitions": { "subgraphs": [subgraph] },
    });
    let found = graph(&page);
    let inside = found.get("2:8").unwrap();
    assert_eq!(inside.link("clip").unwrap().node, "1");
    assert_eq!(inside.value("text"), Some(&json!("outside")));
    assert_eq!(
        found.get("2:9").unwrap().value("vae_name"),
        Some(&json!("v.pt"))
    );
    // Values of widgets that are shown, not of inputs.
    page["nodes"][1]["properties"] = json!({ "proxyWidgets": [["8", "text"], ["9", "vae_name"]] });
    let inside = graph(&page);
    let inside = inside.get("2:8").unwrap();
    assert_eq!(inside.value("text"), Some(&json!("inside")));
}
