//! The table of nodes is whole.

use super::*;
use crate::value::Value as Given;
use crate::{Folder, Host, HostError, InputKind, Output};
use nino_engine::{Checkpoint, Latent, LatentSize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;

struct Nothing;

impl Host for Nothing {
    fn find(&self, _: Folder, name: &str) -> Result<PathBuf, HostError> {
        Ok(PathBuf::from(name))
    }

    fn list(&self, _: Folder) -> Option<Vec<String>> {
        Some(vec!["a".to_owned()])
    }

    fn embeddings(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn output(&mut self, _: &Output<'_>) -> Result<Value, HostError> {
        Ok(Value::Null)
    }
}

#[test]
fn classes_are_there_once_with_defaults_in_range() {
    let mut classes = BTreeSet::new();
    for def in all() {
        assert!(classes.insert(def.class), "{} is there twice", def.class);
        let mut names = BTreeSet::new();
        for input in def.inputs {
            assert!(names.insert(input.name), "{}.{}", def.class, input.name);
            match input.kind {
                InputKind::Int {
                    default, min, max, ..
                } => assert!(
                    (min..=max).contains(&default),
                    "{}.{}",
                    def.class,
                    input.name
                ),
                InputKind::Float {
                    default, min, max, ..
                } => assert!(
                    (min..=max).contains(&default),
                    "{}.{}",
                    def.class,
                    input.name
                ),
                InputKind::Combo(options) => assert!(!options().is_empty()),
                _ => {}
            }
        }
    }
    assert!(classes.len() > 70, "{} classes", classes.len());
}

#[test]
fn object_info_is_as_clients_read_it() {
    let info = find("KSampler").unwrap().object_info(&Nothing);
    let required = &info["input"]["required"];
    assert_eq!(required["model"][0], "MODEL");
    assert_eq!(required["seed"][1]["max"], u64::MAX);
    assert_eq!(required["sampler_name"][0][0], "euler");
    assert_eq!(info["input_order"]["required"][0], "model");
    assert_eq!(info["output"][0], "LATENT");
    assert_eq!(info["output_node"], false);
    assert!(
        !info.to_string().contains("nino_rng"),
        "what ComfyUI does not know is not told"
    );
    let info = find("CheckpointLoaderSimple")
        .unwrap()
        .object_info(&Nothing);
    assert_eq!(info["input"]["required"]["ckpt_name"][0][0], "a");
    assert_eq!(info["output_name"][2], "VAE");
}

/// Inputs that take fewer choices than ComfyUI's, because the others mean models or encodings that
/// are not known here.
const FEWER: [&str; 3] = ["type", "sampling", "device"];

/// Inputs and outputs have ComfyUI's names, order, types, defaults and limits.
#[test]
fn nodes_are_comfyuis() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../goldens/nodes/comfyui.json"
    );
    let golden: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let mut wrong = Vec::new();
    let mut compared = 0;
    for def in all() {
        // ComfyUI-GGUF's nodes, and those of pages, are not among the core's.
        let Some(theirs) = golden.get(def.class) else {
            continue;
        };
        compared += 1;
        let ours = def.object_info(&Nothing);
        let class = def.class;
        if ours["output"] != theirs["output"] {
            wrong.push(format!(
                "{class}: output {} for {}",
                ours["output"], theirs["output"]
            ));
        }
        for key in [
            "output_name",
            "category",
            "deprecated",
            "experimental",
            "output_node",
        ] {
            let (found, wanted) = (&ours[key], &theirs[key]);
            let same = found == wanted || wanted.is_null() && *found == false;
            if !same {
                wrong.push(format!("{class}: {key} {found} for {wanted}"));
            }
        }
        for need in ["required", "optional"] {
            let theirs = theirs[need].as_array().unwrap();
            let names: Vec<&Value> = theirs.iter().map(|input| &input[0]).collect();
            let order = &ours["input_order"][need];
            if serde_json::json!(names) != *order {
                wrong.push(format!("{class}: {need} {order} for {names:?}"));
                continue;
            }
            for input in theirs {
                let name = input[0].as_str().unwrap();
                differences(
                    &format!("{class}.{name}"),
                    &ours["input"][need][name],
                    input,
                    &mut wrong,
                );
            }
        }
    }
    assert!(compared > 60, "{compared}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is different of one input.
fn differences(place: &str, ours: &Value, theirs: &Value, wrong: &mut Vec<String>) {
    let is_fewer = FEWER
        .iter()
        .any(|name| place.ends_with(&format!(".{name}")));
    let (kind, wanted) = (&ours[0], &theirs[1]);
    match (kind.as_array(), wanted.as_array()) {
        (Some(ours), Some(theirs)) if is_fewer => {
            let unknown = ours.iter().filter(|option| !theirs.contains(option));
            wrong.extend(unknown.map(|option| format!("{place}: {option} is not ComfyUI's")));
        }
        // Lists of files have what lies in a folder.
        (Some(ours), Some(_)) if *ours == ["a"] || place.ends_with("_name") => {}
        _ if kind != wanted => wrong.push(format!("{place}: {kind} for {wanted}")),
        _ => {}
    }
    for key in ["default", "min", "max", "round", "control_after_generate"] {
        let number = |value: &Value| value.as_f64().map(f64::to_bits);
        let (found, wanted) = (&ours[1][key], &theirs[2][key]);
        // A default that ComfyUI leaves to its page is not held against ours.
        let is_left = key == "default" && wanted.is_null();
        // Only seeds change by themselves here; a number of its own is changed by its user.
        let is_left = is_left || key == "control_after_generate" && wanted == "fixed";
        let same = found == wanted || number(found).is_some() && number(found) == number(wanted);
        if !(same || is_left) && kind.is_string() {
            wrong.push(format!("{place}: {key} {found} for {wanted}"));
        }
    }
}

/// An empty latent of a size in pixels is of that size for models of every scale, and keeps its own
/// where a node made it for a model.
#[test]
fn empty_latents_have_the_models_scale() {
    let size = |height, width| LatentSize {
        frames: 1,
        height,
        width,
    };
    for (name, channels, height, width) in [("sdxl", 4, 18, 9), ("flux2-klein-4b", 128, 9, 4)] {
        let model = Checkpoint::spec(name).unwrap().diffusion;
        let empty = Latent::empty(2, 4, size(18, 9));
        let Given::Latent(counted) = Given::empty_latent(empty.clone()) else {
            panic!("no latent");
        };
        let fitted = sampler::fitted(&model, &counted);
        assert_eq!(
            (fitted.batch, fitted.channels, fitted.height, fitted.width),
            (2, channels, height, width)
        );
        let Given::Latent(own) = Given::latent(empty) else {
            panic!("no latent");
        };
        let fitted = sampler::fitted(&model, &own);
        assert_eq!((fitted.channels, fitted.height), (channels, 18));
    }
}
