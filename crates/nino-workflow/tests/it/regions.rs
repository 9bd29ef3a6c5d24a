//! Areas, masks and parts of the sampling against ComfyUI: `goldens/generate/regions.py`.

use crate::host::{Folders, executor, graph, run, sd1};
use nino_engine::Picture;
use nino_engine::media::write_picture;
use nino_workflow::Folder;
use serde_json::{Value, json};
use std::path::Path;

/// What the conditioning of a case is, from FOX (node 2), LAKE (node 3) and NEGATIVE (node 4); `p`
/// is the positive's node, `n` the negative's.
struct Case {
    key: &'static str,
    nodes: Value,
    cfg: f64,
}

fn case(key: &'static str, nodes: Value) -> Case {
    Case {
        key,
        nodes,
        cfg: 7.0,
    }
}

fn area(of: &str, size: [u32; 4], strength: f64) -> Value {
    let [width, height, x, y] = size;
    json!({ "class_type": "ConditioningSetArea", "inputs": { "conditioning": [of, 0],
        "width": width, "height": height, "x": x, "y": y, "strength": strength } })
}

fn combined(a: &str, b: &str) -> Value {
    json!({ "class_type": "ConditioningCombine",
            "inputs": { "conditioning_1": [a, 0], "conditioning_2": [b, 0] } })
}

fn masked(how: &str) -> Value {
    json!({ "class_type": "ConditioningSetMask", "inputs": { "conditioning": ["2", 0],
        "mask": ["8", 0], "strength": 0.8, "set_cond_area": how } })
}

fn range(of: &str, start: f64, end: f64) -> Value {
    json!({ "class_type": "ConditioningSetTimestepRange",
            "inputs": { "conditioning": [of, 0], "start": start, "end": end } })
}

fn cases() -> Vec<Case> {
    let with_lake = |fox: Value| json!({ "a": fox, "p": combined("a", "3") });
    let mixed = |class: &str, more: Value| {
        let mut inputs = json!({ "conditioning_to": ["2", 0], "conditioning_from": ["3", 0] });
        for (name, value) in more.as_object().unwrap() {
            inputs[name] = value.clone();
        }
        json!({ "p": { "class_type": class, "inputs": inputs } })
    };
    let share = json!({ "class_type": "ConditioningSetAreaPercentage", "inputs": {
        "conditioning": ["2", 0], "width": 0.37, "height": 0.55, "x": 0.21, "y": 0.33,
        "strength": 1.0 } });
    let apart = json!({ "a": area("2", [64, 64, 0, 0], 1.0), "b": area("3", [64, 64, 64, 32], 1.0),
                        "p": combined("a", "b") });
    let parts = json!({ "a": range("2", 0.0, 0.4), "b": range("3", 0.4, 1.0),
                        "p": combined("a", "b") });
    let negative = || json!({ "p": range("2", 0.0, 1.0), "n": area("4", [64, 64, 32, 16], 1.0) });
    vec![
        case(
            "average",
            mixed(
                "ConditioningAverage",
                json!({ "conditioning_to_strength": 0.3 }),
            ),
        ),
        case("concat", mixed("ConditioningConcat", json!({}))),
        case("area", with_lake(area("2", [64, 64, 32, 16], 1.2))),
        case("apart", apart),
        case("beyond", with_lake(area("2", [128, 64, 64, 64], 1.0))),
        case("share", with_lake(share)),
        case("masked", with_lake(masked("default"))),
        case("bounds", with_lake(masked("mask bounds"))),
        case("only", json!({ "p": masked("default") })),
        case("range", parts),
        case("gap", json!({ "p": range("2", 0.3, 1.0) })),
        case("negative", negative()),
        Case {
            cfg: 1.0,
            ..case("negative_at_cfg_1", negative())
        },
    ]
}

fn text(text: &str) -> Value {
    json!({ "class_type": "CLIPTextEncode", "inputs": { "text": text, "clip": ["1", 1] } })
}

fn nodes(case: &Case) -> Value {
    let mut nodes = json!({
        "1": { "class_type": "CheckpointLoaderSimple", "inputs": { "ckpt_name": "m" } },
        "2": text("a red fox in the snow"),
        "3": text("a lake, (blue:1.2) mountains"),
        "4": text("blurry, (low quality:1.4)"),
        "5": { "class_type": "EmptyLatentImage",
               "inputs": { "width": 128, "height": 96, "batch_size": 1 } },
        "6": { "class_type": "KSampler", "inputs": {
            "model": ["1", 0], "positive": ["p", 0], "negative": ["4", 0],
            "latent_image": ["5", 0], "seed": 1_234_567_890_123_u64, "steps": 6, "cfg": case.cfg,
            "sampler_name": "euler", "scheduler": "normal", "denoise": 1.0 } },
        "7": { "class_type": "SaveLatent",
               "inputs": { "samples": ["6", 0], "filename_prefix": "x" } },
        "8": { "class_type": "LoadImageMask", "inputs": { "image": "mask", "channel": "red" } },
    });
    for (id, node) in case.nodes.as_object().unwrap() {
        nodes[id] = node.clone();
        if id == "n" {
            nodes["6"]["inputs"]["negative"] = json!(["n", 0]);
        }
    }
    nodes
}

#[test]
fn regions_are_comfyuis() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/generate");
    let golden = nino_weights::open(root.join("regions.safetensors")).unwrap();
    let tensor = |name: &str| {
        let entry = golden.entry(name).unwrap();
        let mut values = vec![0.0; entry.n_values()];
        golden.read_f32(entry, &mut values).unwrap();
        values
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mask.png");
    let bytes = tensor("mask")
        .iter()
        .map(|v| (v * 255.0).round() as u8)
        .collect::<Vec<_>>();
    let picture = Picture {
        width: 32,
        height: 24,
        rgb: bytes.iter().flat_map(|&v| [v; 3]).collect(),
    };
    write_picture(&file, &picture, &[]).unwrap();
    let mut host = Folders::default()
        .with(Folder::Checkpoints, "m", &sd1())
        .with(Folder::InputImages, "mask", &file);
    let mut executor = executor();
    let mut wrong = Vec::new();
    for case in cases() {
        host.made.clear();
        run(&mut executor, &graph(nodes(&case)), &mut host);
        let (found, expected) = (host.latent("7").planes(), tensor(case.key));
        assert_eq!(found.len(), expected.len(), "{}", case.key);
        let square = |v: f32| f64::from(v) * f64::from(v);
        let error: f64 = found
            .iter()
            .zip(&expected)
            .map(|(f, e)| square(f - e))
            .sum();
        let nmse = error / expected.iter().map(|&e| square(e)).sum::<f64>();
        println!("{}: NMSE {nmse:.1e}", case.key);
        if nmse.is_nan() || nmse > 1e-8 {
            wrong.push(format!("{}: NMSE {nmse:.1e}", case.key));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}
