//! Every kind of error, with ComfyUI's names and words.

use super::*;
use crate::{HostError, Output};
use serde_json::{Value as Json, json};
use std::path::PathBuf;
use std::time::Instant;

/// Lists one checkpoint, and finds every other file that does not begin with `no`.
struct Files;

impl Host for Files {
    fn find(&self, _: Folder, name: &str) -> Result<PathBuf, HostError> {
        match name.strip_prefix("no") {
            Some(_) => Err(HostError::new(format!("there is no {name}"))),
            None => Ok(PathBuf::from(name)),
        }
    }

    fn list(&self, folder: Folder) -> Option<Vec<String>> {
        (folder == Folder::Checkpoints).then(|| vec!["m.safetensors".to_owned()])
    }

    fn embeddings(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn output(&mut self, _: &Output<'_>) -> Result<Json, HostError> {
        Ok(Json::Null)
    }
}

fn nodes() -> Json {
    json!({
        "1": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": "m.safetensors" } },
        "2": { "class_type": "CLIPTextEncode", "inputs": { "text": "a fox", "clip": ["1", 1] } },
        "4": { "class_type": "EmptyLatentImage",
               "inputs": { "width": 64, "height": 64, "batch_size": 1 } },
        "5": { "class_type": "KSampler", "inputs": {
            "model": ["1", 0], "positive": ["2", 0], "negative": ["2", 0],
            "latent_image": ["4", 0], "seed": 1, "steps": 2, "cfg": 5.0,
            "sampler_name": "euler", "scheduler": "normal", "denoise": 1.0 } },
        "6": { "class_type": "VAEDecode", "inputs": { "samples": ["5", 0], "vae": ["1", 2] } },
        "7": { "class_type": "SaveImage",
               "inputs": { "images": ["6", 0], "filename_prefix": "x" } },
    })
}

fn checked(nodes: Json) -> Result<Checked, PromptError> {
    let limits = Limits::default();
    let graph = Graph::from_value(nodes, &limits).unwrap();
    check(&graph, &Files, &limits)
}

fn error(nodes: Json) -> PromptError {
    checked(nodes).map(|_| ()).unwrap_err()
}

/// The only problem of a graph in which one input is something else.
fn problem(node: &str, input: &str, value: Json) -> (String, Problem) {
    let mut nodes = nodes();
    nodes[node]["inputs"][input] = value;
    let error = error(nodes);
    let PromptError::Outputs { problems, .. } = error else {
        panic!("{error}")
    };
    assert_eq!(problems.len(), 1, "{problems:?}");
    let (id, found) = problems.into_iter().next().unwrap();
    assert_eq!(found.problems.len(), 1, "{found:?}");
    assert_eq!(found.dependent_outputs, ["7"]);
    (id, found.problems[0].clone())
}

#[test]
fn inputs_are_checked_as_comfyui_checks_them() {
    let options = "(list of length 45)";
    let cases = [
        (
            "5",
            "steps",
            json!(0),
            "value_smaller_than_min",
            "Value 0 smaller than min of 1",
            "steps",
        ),
        (
            "5",
            "steps",
            json!("20000"),
            "value_bigger_than_max",
            "Value 20000 bigger than max of 10000",
            "steps",
        ),
        (
            "5",
            "cfg",
            json!(-1),
            "value_smaller_than_min",
            "Value -1.0 smaller than min of 0.0",
            "cfg",
        ),
        (
            "5",
            "steps",
            json!("many"),
            "invalid_input_type",
            "Failed to convert an input value to a INT value",
            "steps, many, invalid literal for int() with base 10: 'many'",
        ),
        (
            "5",
            "cfg",
            json!(null),
            "invalid_input_type",
            "Failed to convert an input value to a FLOAT value",
            "cfg, None, float() argument must be a string or a real number, not 'NoneType'",
        ),
        (
            "5",
            "sampler_name",
            json!("eule"),
            "value_not_in_list",
            "Value not in list",
            &format!("sampler_name: 'eule' not in {options}"),
        ),
        (
            "1",
            "ckpt_name",
            json!("x"),
            "value_not_in_list",
            "Value not in list",
            "ckpt_name: 'x' not in ['m.safetensors']",
        ),
        (
            "5",
            "model",
            json!(["1", 1]),
            "return_type_mismatch",
            "Return type mismatch between linked nodes",
            "model, received_type(CLIP) mismatch input_type(MODEL)",
        ),
        (
            "5",
            "model",
            json!(["1"]),
            "bad_linked_input",
            "Bad linked input, must be a length-2 list of [node_id, slot_index]",
            "model",
        ),
        (
            "5",
            "model",
            json!(["99", 0]),
            "exception_during_inner_validation",
            "Exception when validating inner node",
            "model: there is no node '99'",
        ),
        (
            "5",
            "model",
            json!(["1", 7]),
            "exception_during_inner_validation",
            "Exception when validating inner node",
            "model: node '1' has 3 outputs, none of them is number 7",
        ),
        (
            "5",
            "model",
            json!("m"),
            "invalid_input_type",
            "Failed to convert an input value to a MODEL value",
            "model, m, it has to be linked to a node",
        ),
    ];
    for (node, input, value, kind, message, details) in cases {
        let (id, found) = problem(node, input, value.clone());
        assert_eq!(id, node, "{input} {value}");
        assert_eq!(
            (found.kind(), &*found.message(), &*found.details()),
            (kind, message, details)
        );
        let json = found.to_json();
        assert_eq!(json["type"], kind);
        assert_eq!(json["extra_info"]["input_name"], input);
    }
    let mut nodes = nodes();
    nodes["5"]["inputs"].as_object_mut().unwrap().remove("seed");
    let body = error(nodes).to_json();
    assert_eq!(body["error"]["type"], "prompt_outputs_failed_validation");
    assert_eq!(body["node_errors"]["5"]["class_type"], "KSampler");
    let told = &body["node_errors"]["5"]["errors"][0];
    assert_eq!(
        (&told["type"], &told["details"]),
        (&json!("required_input_missing"), &json!("seed"))
    );
}

#[test]
fn values_are_converted_as_python_converts_them() {
    let mut nodes = nodes();
    let inputs = nodes["5"]["inputs"].as_object_mut().unwrap();
    for (name, value) in [
        ("seed", json!(u64::MAX)),
        ("steps", json!(" 2_0 ")),
        ("cfg", json!("7.5")),
        ("denoise", json!(true)),
    ] {
        inputs.insert(name.to_owned(), value);
    }
    nodes["4"]["inputs"]["width"] = json!(64.9);
    nodes["7"]["inputs"]["filename_prefix"] = json!(3);
    let checked = checked(nodes).unwrap();
    let value = |node: &str, input: &str| {
        let inputs = &checked.nodes[node].inputs;
        match &inputs.iter().find(|(name, _)| *name == input).unwrap().1 {
            Bound::Value(Value::Int(n)) => n.to_string(),
            Bound::Value(Value::Float(n)) => n.to_string(),
            Bound::Value(Value::Text(text)) => text.to_string(),
            _ => panic!("{input}"),
        }
    };
    assert_eq!(value("5", "seed"), u64::MAX.to_string());
    assert_eq!(value("5", "steps"), "20");
    assert_eq!(value("5", "cfg"), "7.5");
    assert_eq!(value("5", "denoise"), "1");
    assert_eq!(value("4", "width"), "64");
    assert_eq!(value("7", "filename_prefix"), "3");
}

#[test]
fn nodes_that_no_output_needs_are_not_checked() {
    let mut all = nodes();
    all["9"] = json!({ "class_type": "KSampler", "inputs": {} });
    all["10"] = json!({ "class_type": "LoraLoader", "inputs": { "model": ["10", 0] } });
    assert_eq!(checked(all).unwrap().outputs, ["7"]);
    let mut none = nodes();
    none.as_object_mut().unwrap().remove("7");
    let error = error(none);
    assert_eq!(error.to_json()["error"]["type"], "prompt_no_outputs");
    assert_eq!(error.to_json()["error"]["message"], "Prompt has no outputs");
}

#[test]
fn outputs_that_are_right_run_beside_wrong_ones() {
    let mut all = nodes();
    all["8"] = json!({ "class_type": "PreviewImage", "inputs": {} });
    let checked = checked(all).unwrap();
    assert_eq!(checked.outputs, ["7"]);
    assert_eq!(checked.problems["8"].dependent_outputs, ["8"]);
}

#[test]
fn missing_nodes_and_classes_are_told() {
    let mut all = nodes();
    all["8"] = json!({ "class_type": "NobodysNode", "inputs": {}, "_meta": { "title": "Guide" } });
    all["9"] = json!({ "class_type": "NobodysNode", "inputs": {} });
    all["11"] = json!({ "inputs": {} });
    let found = error(all);
    assert_eq!(
        found.to_string(),
        "the graph has nodes that are not known here: NobodysNode (nodes 8, 9), without a class (node 11)"
    );
    let told = &found.to_json()["error"];
    assert_eq!(told["type"], "missing_node_type");
    assert_eq!(
        told["message"],
        "Node 'Guide' not found. The custom node may not be installed."
    );
    assert_eq!(told["details"], "Node ID '#8'");
    assert_eq!(
        told["extra_info"]["missing_nodes"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

#[test]
fn cycles_end_and_are_told() {
    // The shapes of the hostile files: a LoRA's model and clip, RescaleCFG, CLIPSetLastLayer.
    let lora = |model: Json, clip: Json| {
        json!({ "class_type": "LoraLoader", "inputs": { "model": model, "clip": clip,
            "lora_name": "l", "strength_model": 1, "strength_clip": 1 } })
    };
    let mut cases = Vec::new();
    let mut with = |id: &str, node: Json, inputs: &[(&str, &str, Json)]| {
        let mut nodes = nodes();
        nodes[id] = node;
        for (node, input, link) in inputs {
            nodes[*node]["inputs"][*input] = link.clone();
        }
        cases.push(nodes);
    };
    with(
        "8",
        lora(json!(["8", 0]), json!(["1", 1])),
        &[("5", "model", json!(["8", 0]))],
    );
    with(
        "8",
        lora(json!(["1", 0]), json!(["8", 1])),
        &[("2", "clip", json!(["8", 1]))],
    );
    let rescale =
        json!({ "class_type": "RescaleCFG", "inputs": { "model": ["8", 0], "multiplier": 0.7 } });
    with("8", rescale, &[("5", "model", json!(["8", 0]))]);
    let skip = json!({ "class_type": "CLIPSetLastLayer", "inputs": { "clip": ["8", 0], "stop_at_clip_layer": -2 } });
    with("8", skip, &[("2", "clip", json!(["8", 0]))]);
    // Over several nodes.
    with(
        "8",
        lora(json!(["1", 0]), json!(["1", 1])),
        &[("5", "latent_image", json!(["5", 0]))],
    );
    for nodes in cases {
        let found = error(nodes);
        let PromptError::Outputs { problems, .. } = &found else {
            panic!("{found}")
        };
        let cycle = problems
            .values()
            .flat_map(|p| &p.problems)
            .find(|p| p.kind() == "dependency_cycle");
        let cycle = cycle.unwrap_or_else(|| panic!("{found}"));
        assert_eq!(cycle.message(), "Dependency cycle detected");
        assert!(cycle.details().contains(" -> "), "{}", cycle.details());
    }
}

#[test]
fn long_chains_and_many_cycles_end_soon() {
    let n = 4_990;
    let mut chain = nodes();
    for i in 0..n {
        let from = if i == 0 {
            json!(["1", 0])
        } else {
            json!([format!("r{}", i - 1), 0])
        };
        chain[format!("r{i}")] =
            json!({ "class_type": "RescaleCFG", "inputs": { "model": from, "multiplier": 0.7 } });
    }
    chain["5"]["inputs"]["model"] = json!([format!("r{}", n - 1), 0]);
    let started = Instant::now();
    assert_eq!(checked(chain.clone()).unwrap().outputs, ["7"]);
    // All of it one cycle.
    chain["r0"]["inputs"]["model"] = json!([format!("r{}", n - 1), 0]);
    let found = error(chain);
    assert!(found.to_string().len() < 10_000);
    // Every node leads back to every one before it.
    let mut tangle = nodes();
    for i in 0..2_000 {
        tangle[format!("c{i}")] = json!({ "class_type": "ConditioningCombine", "inputs": {
            "conditioning_1": [format!("c{}", (i + 1) % 2_000), 0],
            "conditioning_2": [format!("c{}", i / 2), 0] } });
    }
    tangle["5"]["inputs"]["positive"] = json!(["c0", 0]);
    assert!(error(tangle).to_json().to_string().len() < 10_000_000);
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
}

#[test]
fn texts_and_files_have_limits() {
    let long = "x".repeat(Limits::default().text + 1);
    let (_, found) = problem("2", "text", json!(long));
    assert_eq!(found.kind(), "custom_validation_failed");
    assert_eq!(
        found.details(),
        "text - the text has 102401 bytes, 102400 are the most"
    );
    let mut nodes = nodes();
    nodes["8"] = json!({ "class_type": "VAELoader", "inputs": { "vae_name": "none" } });
    nodes["6"]["inputs"]["vae"] = json!(["8", 0]);
    let told = error(nodes).to_string();
    assert!(told.contains("node 8 (VAELoader): vae_name: there is no none"));
}
