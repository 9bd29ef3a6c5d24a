//! Models by name, LoRAs, and pictures repeated from their own metadata, with the built-in model.

use crate::shell::{nino, nino_with};
use nino_engine::Picture;
use nino_engine::media::{Limits, load_picture, read_text, write_picture};
use nino_testing::data_or_skip;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn texts(picture: &str) -> Vec<(String, String)> {
    let keywords = ["nino", "prompt", "workflow", "parameters"];
    let text = read_text(Path::new(picture), &keywords, &Limits::default());
    text.unwrap().found
}

fn path(dir: &Path, name: &str) -> String {
    dir.join(name).to_string_lossy().into_owned()
}

const SMALL: [&str; 7] = ["--size", "64x64", "--steps", "2", "--device", "cpu", "-q"];

fn made(args: &[&str]) {
    let said = nino(&[&["generate"], args].concat());
    assert_eq!(said.code, 0, "{args:?}: {}", said.err);
}

#[test]
fn a_picture_repeats_from_its_own_metadata_and_is_the_same_every_time() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, c, d] = ["a.png", "b.png", "c.png", "d.png"].map(|n| path(dir.path(), n));
    let prompt = "a fox, (red:1.3) — 狐";
    made(
        &[
            &[
                prompt,
                "--negative",
                "snow, \"ice\"",
                "--cfg",
                "2.5",
                "-o",
                &a,
            ],
            &SMALL[..],
        ]
        .concat(),
    );
    let seed = {
        let text = texts(&a);
        let find = |k: &str| text.iter().find(|(key, _)| key == k).unwrap().1.clone();
        let nino: serde_json::Value = serde_json::from_str(&find("nino")).unwrap();
        let graph: serde_json::Value = serde_json::from_str(&find("prompt")).unwrap();
        let page: serde_json::Value = serde_json::from_str(&find("workflow")).unwrap();
        let seed = nino["flags"]["seed"][0].as_str().unwrap().to_owned();
        let sampler = graph
            .as_object()
            .unwrap()
            .values()
            .find(|n| n["class_type"] == "KSampler");
        assert_eq!(sampler.unwrap()["inputs"]["seed"].to_string(), seed);
        let n_links = page["links"].as_array().unwrap().len();
        assert_eq!(
            page["nodes"].as_array().unwrap().len(),
            graph.as_object().unwrap().len()
        );
        assert_eq!(n_links, 9, "{page:#}");
        let parameters = find("parameters");
        for part in [
            prompt,
            "Negative prompt: snow",
            "Steps: 2",
            "Model hash: ",
            "RNG: CPU",
            "Device: ",
            "Version: nino",
        ] {
            assert!(
                parameters.contains(part),
                "{part:?} is missing from {parameters}"
            );
        }
        seed
    };
    made(&["--from-png", &a, "-o", &b, "--device", "cpu", "-q"]);
    assert_eq!(
        std::fs::read(&a).unwrap(),
        std::fs::read(&b).unwrap(),
        "the whole file"
    );
    // With the flags said again, and from the other two kinds of text.
    made(
        &[
            &[
                prompt,
                "--negative",
                "snow, \"ice\"",
                "--cfg",
                "2.5",
                "--seed",
                &seed,
                "-o",
                &c,
            ],
            &SMALL[..],
        ]
        .concat(),
    );
    let picture = load_picture(Path::new(&a), &Limits::default()).unwrap();
    assert_eq!(
        load_picture(Path::new(&c), &Limits::default()).unwrap(),
        picture
    );
    let text = texts(&a);
    for keyword in ["prompt", "parameters"] {
        let only: Vec<(&str, String)> = text
            .iter()
            .filter(|(k, _)| k == keyword)
            .map(|(k, t)| (k.as_str(), t.clone()))
            .collect();
        write_picture(Path::new(&d), &picture, &only).unwrap();
        made(&["--from-png", &d, "-o", &b, "--device", "cpu", "-q"]);
        assert_eq!(
            load_picture(Path::new(&b), &Limits::default()).unwrap(),
            picture,
            "{keyword}"
        );
    }
    made(&[
        "--from-png",
        &a,
        "--seed",
        "5",
        "-o",
        &b,
        "--device",
        "cpu",
        "-q",
    ]);
    assert_ne!(
        load_picture(Path::new(&b), &Limits::default()).unwrap(),
        picture,
        "another seed"
    );
}

/// What a graph in a picture or a file says is made, with flags put in.
#[test]
fn graphs_run_from_pictures_and_files() {
    let dir = tempfile::tempdir().unwrap();
    let [a, b, c, json] = ["a.png", "b.png", "c.png", "g.json"].map(|n| path(dir.path(), n));
    made(&[&["a sun", "--seed", "3", "-o", &a], &SMALL[..]].concat());
    let text = read_text(Path::new(&a), &["prompt"], &Limits::default()).unwrap();
    let graph = &text.found[0].1;
    std::fs::write(&json, graph).unwrap();
    let rest = ["--device", "cpu", "-q"];
    made(&[&["--from", &json, "-o", &b], &rest[..]].concat());
    let picture = |file: &str| load_picture(Path::new(file), &Limits::default()).unwrap();
    assert_eq!(picture(&a), picture(&b));
    // Its own text is the graph that made it.
    made(&[&["--from", &b, "-o", &c], &rest[..]].concat());
    assert_eq!(std::fs::read(&b).unwrap(), std::fs::read(&c).unwrap());
    made(
        &[
            &["a moon", "--from", &json, "--seed", "4", "-o", &b],
            &rest[..],
        ]
        .concat(),
    );
    made(&[&["a moon", "--seed", "4", "-o", &c], &SMALL[..]].concat());
    assert_eq!(picture(&b), picture(&c));
    // Other programs' names, and a new seed.
    let other = [
        "--sampler",
        "DPM++ 2M Karras",
        "--seed",
        "-1",
        "--no-metadata",
    ];
    made(&[&["--from", &json, "-o", &b], &other[..], &rest[..]].concat());
    assert!(
        read_text(Path::new(&b), &["prompt"], &Limits::default())
            .unwrap()
            .found
            .is_empty()
    );
    // Several pictures are numbered.
    let several = [
        "--from", &json, "--count", "2", "-o", &b, "--device", "cpu", "--json",
    ];
    let said = nino(&[&["generate"], &several[..]].concat());
    assert_eq!(said.code, 0, "{}", said.err);
    let report: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    let files = report["files"].as_array().unwrap();
    assert_eq!(files.len(), 2, "{report:#}");
    assert_eq!(picture(files[0].as_str().unwrap()), picture(&a));
    let said = nino(&["generate", "--from", &json, "--hires", "2x"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(
        said.err
            .contains("--hires cannot be combined with a ComfyUI graph"),
        "{}",
        said.err
    );
}

/// ComfyUI's own examples: each runs once its models are here, or names the nodes that nino lacks.
/// The engine's tests run them with small models; here none is to be found.
#[test]
fn comfyuis_examples_name_what_they_miss() {
    let Some(one) = data_or_skip("workflows/lora__lora.api.json") else {
        return;
    };
    let mut seen = 0;
    for entry in std::fs::read_dir(one.parent().unwrap()).unwrap() {
        let file = entry.unwrap().path();
        let said = nino(&["generate", "--from", file.to_str().unwrap()]);
        assert_eq!(said.code, 1, "{}", said.err);
        let is_told = said.err.contains("nodes that are not known here: ")
            || said.err.contains("is called \"");
        assert!(is_told, "{}: {}", file.display(), said.err);
        seen += 1;
    }
    assert_eq!(seen, 16);
}

/// With the built-in model in place of what it names, an example draws a picture.
#[test]
fn an_example_of_comfyuis_runs_with_a_model_that_is_here() {
    let Some(example) =
        data_or_skip("workflows/area_composition__square_area_for_subject.api.json")
    else {
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (small, out) = (path(dir.path(), "small.json"), path(dir.path(), "a.png"));
    let text = std::fs::read_to_string(example).unwrap();
    let mut graph: serde_json::Value = serde_json::from_str(&text).unwrap();
    for node in graph.as_object_mut().unwrap().values_mut() {
        let class = node["class_type"].as_str().unwrap().to_owned();
        let inputs = node["inputs"].as_object_mut().unwrap();
        let values: &[(&str, serde_json::Value)] = match &*class {
            "EmptyLatentImage" => &[("width", 64.into()), ("height", 64.into())],
            "LatentUpscale" => &[("width", 96.into()), ("height", 96.into())],
            "ConditioningSetArea" => {
                &[("width", 64.into()), ("height", 64.into()), ("y", 8.into())]
            }
            "KSampler" => &[("steps", 1.into())],
            "CheckpointLoaderSimple" => &[("ckpt_name", "nino-emoji".into())],
            "VAELoader" => &[("vae_name", "nino-emoji".into())],
            _ => &[],
        };
        for (name, value) in values {
            inputs.insert((*name).to_owned(), value.clone());
        }
    }
    std::fs::write(&small, graph.to_string()).unwrap();
    let said = nino(&[
        "generate", "--from", &small, "-o", &out, "--device", "cpu", "--json",
    ]);
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(!said.json()["files"].as_array().unwrap().is_empty());
}

#[test]
fn graphs_that_lead_nowhere_are_errors() {
    let dir = tempfile::tempdir().unwrap();
    let file = path(dir.path(), "g.json");
    let lora = r#"{"class_type":"LoraLoader","inputs":{"model":["2",0],"clip":["2",1],"lora_name":"x",
        "strength_model":1,"strength_clip":1}}"#;
    let cycle = format!(
        r#"{{"1":{{"class_type":"SaveImage","inputs":{{"images":["3",0],"filename_prefix":"x"}}}},"2":{lora},
        "3":{{"class_type":"VAEDecode","inputs":{{"samples":["4",0],"vae":["2",0]}}}},
        "4":{{"class_type":"KSampler","inputs":{{"model":["2",0]}}}}}}"#
    );
    for (text, part) in [
        (
            r#"{"1":{"class_type":"LoadImage","inputs":{"image":"none.png"}},
                "2":{"class_type":"PreviewImage","inputs":{"images":["1",0]}}}"#,
            "there is no file \"none.png\" here or in ComfyUI's input folder",
        ),
        (
            cycle.as_str(),
            "Dependency cycle detected: 2 (LoraLoader) -> 2 (LoraLoader)",
        ),
        ("{}", "the graph has no output"),
        (r#"{"nodes":[],"links":[]}"#, "the graph has no output"),
        (
            r#"{"1":{"class_type":"HunyuanImageToVideo","inputs":{}}}"#,
            "HunyuanImageToVideo (node 1)",
        ),
    ] {
        std::fs::write(&file, text).unwrap();
        let said = nino(&["generate", "--from", &file]);
        assert_eq!(said.code, 1, "{}", said.err);
        assert!(
            said.err.contains(part),
            "{part:?} is missing from {}",
            said.err
        );
    }
}

#[test]
fn a_picture_without_settings_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let (plain, none, text) = (
        path(dir.path(), "p.png"),
        path(dir.path(), "none.png"),
        path(dir.path(), "t.png"),
    );
    let picture = Picture {
        width: 2,
        height: 2,
        rgb: vec![0; 12],
    };
    write_picture(Path::new(&plain), &picture, &[("Software", "x".to_owned())]).unwrap();
    std::fs::write(&text, "not an image that can carry metadata").unwrap();
    for (file, part) in [
        (&plain, "contains no settings"),
        (&none, "cannot open"),
        (&text, "not an image that can carry metadata"),
    ] {
        let said = nino(&["generate", "--from-png", file]);
        assert_eq!(said.code, 1, "{}", said.err);
        assert!(
            said.err.contains(part) && said.err.contains(file.as_str()),
            "{}",
            said.err
        );
    }
    let said = nino(&["generate"]);
    assert_eq!(said.code, 2, "{}", said.err);
    assert!(said.err.contains("PROMPT"), "{}", said.err);
}

#[test]
fn models_are_found_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("models/checkpoints");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::copy(
        root().join("models/nino-emoji.gguf"),
        folder.join("tiny one.gguf"),
    )
    .unwrap();
    let comfyui = dir.path().to_string_lossy().into_owned();
    let env = [("NINO_COMFYUI", comfyui.as_str()), ("HF_HUB_CACHE", "")];
    let out = path(dir.path(), "x.png");
    let said = nino_with(
        &[
            &["generate", "sun", "--model", "tiny one", "-o", &out],
            &SMALL[..],
        ]
        .concat(),
        &env,
    );
    assert_eq!(said.code, 0, "{}", said.err);
    let said = nino_with(&["inspect", "tiny one.gguf", "--json"], &env);
    assert_eq!(said.code, 0, "{}", said.err);
    let said = nino_with(&["generate", "sun", "--model", "tiny two"], &env);
    assert_eq!(said.code, 1, "{}", said.err);
    for part in [
        "no model is called \"tiny two\"",
        "did you mean tiny one",
        "checkpoints",
    ] {
        assert!(
            said.err.contains(part),
            "{part:?} is missing from {}",
            said.err
        );
    }
    let said = nino_with(
        &["generate", "sun", "--vae", "nothing"],
        &[("HF_HUB_CACHE", "/nowhere")],
    );
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.err.contains("no VAE is called") && said.err.contains("NINO_MODELS"),
        "{}",
        said.err
    );
}

#[test]
fn loras_that_do_not_belong_are_refused_with_the_numbers() {
    let lora = root().join("goldens/lora/kohya.safetensors");
    let lora = lora.to_string_lossy();
    let said = nino(&["generate", "sun", "--lora", &format!("{lora}:0.8")]);
    assert_eq!(said.code, 1, "{}", said.err);
    for part in [
        "kohya.safetensors",
        "does not fit nino-emoji: 17 of 17 updates have no layer there",
    ] {
        assert!(
            said.err.contains(part),
            "{part:?} is missing from {}",
            said.err
        );
    }
    let model = root().join("models/nino-emoji.gguf");
    let said = nino(&["generate", "sun", "--lora", &model.to_string_lossy()]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(said.err.contains("not a LoRA"), "{}", said.err);
    let said = nino(&["generate", "sun", "--lora", ":1"]);
    assert_eq!(said.code, 2, "{}", said.err);
    let said = nino(&[
        "generate",
        "sun",
        "--model",
        &root()
            .join("goldens/models/kl_sd.safetensors")
            .to_string_lossy(),
    ]);
    assert_eq!(said.code, 1, "{}", said.err);
    assert!(
        said.err.contains("no supported diffusion model"),
        "{}",
        said.err
    );
}
