//! Flux.1 from one file and from the files people have it in.
#![allow(clippy::unwrap_used)] // clippy knows test functions, not their helpers

use crate::made;
use crate::shell::nino;
use nino_engine::media::{Limits, load_picture};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Writes the tensors of a safetensors file whose names begin with `prefix`, without it.
fn split(whole: &Path, prefix: &str, to: &Path) {
    let bytes = std::fs::read(whole).unwrap();
    let (length, rest) = bytes.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
    let header: Map<String, Value> = serde_json::from_slice(header).unwrap();
    let (mut kept, mut values) = (Map::new(), Vec::new());
    for (name, entry) in &header {
        let Some(name) = name.strip_prefix(prefix) else {
            continue;
        };
        let at = |i: usize| entry["data_offsets"][i].as_u64().unwrap() as usize;
        let start = values.len();
        values.extend_from_slice(&data[at(0)..at(1)]);
        let mut entry = entry.clone();
        entry["data_offsets"] = json!([start, values.len()]);
        kept.insert(name.to_owned(), entry);
    }
    assert!(!kept.is_empty(), "{prefix}");
    let mut header = Value::Object(kept).to_string();
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let length = (header.len() as u64).to_le_bytes();
    std::fs::write(to, [&length, header.as_bytes(), &values].concat()).unwrap();
}

#[test]
fn split_files_make_the_picture_of_the_whole_one() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let whole = at("whole.safetensors");
    made::write_list(&made::list("tiny_flux"), Path::new(&whole));
    let parts = [
        ("model.diffusion_model.", at("flux1.safetensors")),
        (
            "text_encoders.clip_l.transformer.",
            at("clip_l.safetensors"),
        ),
        ("text_encoders.t5xxl.transformer.", at("t5xxl.safetensors")),
        ("vae.", at("ae.safetensors")),
    ];
    for (prefix, path) in &parts {
        split(Path::new(&whole), prefix, Path::new(path));
    }
    let [model, clip, t5, vae] = parts.map(|(_, path)| path);
    let generate = |files: &[&str], out: &str| {
        let rest = "--size 64x64 --steps 1 --seed 7 --device cpu -o";
        let rest: Vec<&str> = rest.split(' ').collect();
        let args = [&["generate", "a red fox"], files, &rest[..], &[out]].concat();
        nino(&args)
    };
    let [one, two] = ["one.png", "two.png"].map(at);
    let said = generate(&["--model", &whole], &one);
    assert_eq!(said.code, 0, "{}", said.err);
    let files = [
        "--model", &model, "--clip", &clip, "--t5", &t5, "--vae", &vae,
    ];
    let said = generate(&files, &two);
    assert_eq!(said.code, 0, "{}", said.err);
    let picture = |path: &str| load_picture(Path::new(path), &Limits::default()).unwrap();
    assert!(picture(&one) == picture(&two), "the pictures differ");
    // What is missing is named, not guessed.
    let said = generate(&["--model", &model, "--clip", &clip, "--vae", &vae], &one);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("T5"), "{}", said.err);
}

/// A union ControlNet sees the picture encoded by the model's own VAE.
#[test]
fn a_controlnet_steers_by_the_edges_of_a_picture() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let [model, net] = ["model.safetensors", "union.safetensors"].map(at);
    made::write_list(&made::list("tiny_flux"), Path::new(&model));
    made::write_list(&made::list("control_union"), Path::new(&net));
    let generate = |more: &[&str], out: &str| {
        let line = "--size 64x64 --steps 1 --seed 7 --device cpu";
        let line: Vec<&str> = line.split(' ').collect();
        let args = ["generate", "a red fox", "--model", &model, "-o", out];
        nino(&[&args[..], &line, more].concat())
    };
    let picture = |path: &str| load_picture(Path::new(path), &Limits::default()).unwrap();
    let [plain, steered, none] = ["plain.png", "steered.png", "none.png"].map(at);
    let said = generate(&[], &plain);
    assert_eq!(said.code, 0, "{}", said.err);
    let seen = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sun.png");
    let control = format!("{net}:{seen}:0.8");
    let more = [
        "--control",
        &control,
        "--preprocess",
        "canny",
        "--control-mode",
        "canny",
    ];
    let said = generate(&more, &steered);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(picture(&steered) != picture(&plain), "it was not steered");
    let control = format!("{net}:{seen}:0");
    let said = generate(&["--control", &control], &none);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(picture(&none) == picture(&plain), "strength 0 steers");
    // What made the picture says how to make it again.
    let again = at("again.png");
    let said = nino(&[
        "generate", "--from", &steered, "-o", &again, "--device", "cpu",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(
        picture(&again) == picture(&steered),
        "--from makes another picture"
    );
    let said = generate(&["--control", &format!("{model}:{seen}")], &none);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("no supported ControlNet"), "{}", said.err);
}

/// Flux Redux: a picture's style, multiplied or heeded, and made again from the picture.
#[test]
fn a_style_stands_behind_the_prompt() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name).to_string_lossy().into_owned();
    let names = ["tiny_flux", "redux", "siglip"];
    let [model, redux, siglip] = names.map(|name| {
        let path = at(&format!("{name}.safetensors"));
        made::write_list(&made::list(name), Path::new(&path));
        path
    });
    let generate = |more: &[&str], out: &str| {
        let line = "--size 64x64 --steps 1 --seed 7 --device cpu";
        let line: Vec<&str> = line.split(' ').collect();
        let args = ["generate", "a red fox", "--model", &model, "-o", out];
        let said = nino(&[&args[..], &line, more].concat());
        assert_eq!(said.code, 0, "{}", said.err);
        load_picture(Path::new(out), &Limits::default()).unwrap()
    };
    let seen = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/sun.png");
    let style = format!("{redux}:{seen}:0.5");
    let flags = ["--style", &style, "--clip-vision", &siglip];
    let plain = generate(&[], &at("plain.png"));
    let styled = generate(&flags, &at("styled.png"));
    assert!(styled != plain, "there is no style");
    let heeded = [&flags[..], &["--style-type", "attn-bias"]].concat();
    let heeded = generate(&heeded, &at("heeded.png"));
    assert!(
        heeded != plain && heeded != styled,
        "attention is as it was"
    );
    let [from, again] = ["styled.png", "again.png"].map(at);
    let said = nino(&["generate", "--from", &from, "-o", &again, "--device", "cpu"]);
    assert_eq!(said.code, 0, "{}", said.err);
    let again = load_picture(Path::new(&again), &Limits::default()).unwrap();
    assert!(again == styled, "it is not the same picture");
}
