//! The table of nodes is whole.

use super::*;
use crate::{Folder, Host, HostError, InputKind, Output};
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
