//! LoRAs of the command line and of prompts, with one that fits the built-in model.

use crate::shell::{Folder, nino_with};
use nino_engine::DType;
use nino_engine::media::{Limits, load_picture};
use nino_weights::safetensors::{NewTensor, Writer};
use std::collections::BTreeMap;
use std::path::Path;

/// A layer of the built-in model's text encoder.
pub(crate) const EMOJI: &str = "lora_te_text_model_encoder_layers_0_self_attn_v_proj";

/// Writes a LoRA of rank 1 for a layer of so many inputs and outputs.
pub(crate) fn write_lora(path: &Path, layer: &str, inputs: usize, outputs: usize) {
    let tensor = |name: &str, shape: [usize; 2]| NewTensor {
        name: format!("{layer}.{name}.weight"),
        dtype: DType::F32,
        shape: shape.to_vec(),
    };
    let tensors = [
        tensor("lora_down", [1, inputs]),
        tensor("lora_up", [outputs, 1]),
    ];
    let mut writer = Writer::create(path, &tensors, &BTreeMap::new()).unwrap();
    for i in 0..(inputs + outputs) as u16 {
        let value = (f32::from(i) * 0.37).sin();
        writer.write(&value.to_le_bytes()).unwrap();
    }
    writer.finish().unwrap();
}

/// Draws a fox with these words, and gives its pixels.
fn drawn(folder: &Folder, name: &str, words: &[&str]) -> Vec<u8> {
    let (out, models) = (folder.at(name), folder.at("models"));
    let small = [
        "--size", "64x64", "--steps", "2", "--seed", "7", "--device", "cpu",
    ];
    let args = [&["generate"], words, &small[..], &["-o", &out]].concat();
    let said = nino_with(&args, &[("NINO_MODELS", &models)]);
    assert_eq!(said.code, 0, "{words:?}: {}", said.err);
    load_picture(Path::new(&out), &Limits::default())
        .unwrap()
        .rgb
}

#[test]
fn a_lora_in_the_prompt_is_applied() {
    let folder = Folder::new();
    let loras = folder.path().join("models/loras");
    std::fs::create_dir_all(&loras).unwrap();
    write_lora(&loras.join("ink.safetensors"), EMOJI, 256, 256);
    let plain = drawn(&folder, "plain.png", &["a fox"]);
    let by_prompt = drawn(&folder, "prompt.png", &["a fox <lora:ink:0.9>"]);
    let by_flag = drawn(&folder, "flag.png", &["a fox", "--lora", "ink:0.9"]);
    assert!(by_prompt != plain, "the LoRA changes nothing");
    assert!(by_prompt == by_flag, "the prompt and the flag differ");
    // The picture says it, so that it is made again.
    let again = folder.at("again.png");
    let (from, models) = (folder.at("prompt.png"), folder.at("models"));
    let said = nino_with(
        &["generate", "--from", &from, "-o", &again],
        &[("NINO_MODELS", &models)],
    );
    assert_eq!(said.code, 0, "{}", said.err);
    let again = load_picture(Path::new(&again), &Limits::default()).unwrap();
    assert!(again.rgb == by_prompt, "it is not repeated");
}

#[test]
fn a_list_tells_the_models_that_a_lora_is_for() {
    let folder = Folder::new();
    let loras = folder.path().join("models/loras");
    std::fs::create_dir_all(&loras).unwrap();
    let layer = "lora_unet_down_blocks_0_attentions_0_transformer_blocks_0_attn2_to_k";
    write_lora(&loras.join("one.safetensors"), layer, 768, 320);
    write_lora(&loras.join("xl.safetensors"), layer, 2048, 320);
    let models = folder.at("models");
    let said = nino_with(
        &["list", "loras", "--json", "--device", "cpu"],
        &[("NINO_MODELS", &models)],
    );
    assert_eq!(said.code, 0, "{}", said.err);
    let json = said.json();
    let rows = json["files"].as_array().unwrap().iter();
    let rows: Vec<(&str, &str)> = rows
        .map(|row| {
            (
                row["name"].as_str().unwrap(),
                row["model"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        rows,
        [("one.safetensors", "SD 1.x"), ("xl.safetensors", "SDXL")]
    );
}
