//! Targets that are texts: graphs of ComfyUI, what A1111 writes, lists of folders, settings,
//! prompts and vocabularies. Their seeds are here, too, because they are as short as the targets.

use crate::seeds::{Seed, files};
use nino_engine::{Library, LibraryPaths, ModelKind, SettingsKeys, read_settings};
use nino_text::{Bpe, Layout, tokenize};
use nino_workflow::{
    Folder, Graph, Host, HostError, Limits, Output, check, fill_defaults, metadata,
};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

fn of(extension: &str, texts: &[&str]) -> Vec<Seed> {
    let seed = |text: &&str| Seed {
        extension: extension.to_owned(),
        bytes: text.as_bytes().to_vec(),
    };
    texts.iter().map(seed).collect()
}

/// The file's text; what is not UTF-8 is what readers of bytes refuse, and does not come here.
fn text(path: &Path) -> String {
    String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned()
}

/// Text to image, with a LoRA and a second pass: links of every kind, numbers, texts.
const GRAPH: &str = r#"{
"3": {"class_type": "KSampler", "inputs": {"seed": 7, "steps": 20, "cfg": 8.0, "sampler_name":
  "euler", "scheduler": "normal", "denoise": 1.0, "model": ["10", 0], "positive": ["6", 0],
  "negative": ["7", 0], "latent_image": ["5", 0]}},
"4": {"class_type": "CheckpointLoaderSimple", "inputs": {"ckpt_name": "a.safetensors"}},
"5": {"class_type": "EmptyLatentImage", "inputs": {"width": 512, "height": 512, "batch_size": 1}},
"6": {"class_type": "CLIPTextEncode", "inputs": {"text": "a fox", "clip": ["10", 1]}},
"7": {"class_type": "CLIPTextEncode", "inputs": {"text": "", "clip": ["10", 1]}},
"8": {"class_type": "VAEDecode", "inputs": {"samples": ["11", 0], "vae": ["4", 2]}},
"9": {"class_type": "SaveImage", "inputs": {"filename_prefix": "x", "images": ["8", 0]}},
"10": {"class_type": "LoraLoader", "inputs": {"lora_name": "l", "strength_model": 1.0,
  "strength_clip": 1.0, "model": ["4", 0], "clip": ["4", 1]}},
"11": {"class_type": "LatentUpscale", "inputs": {"upscale_method": "nearest-exact", "width": 1024,
  "height": 1024, "crop": "disabled", "samples": ["3", 0]}}
}"#;

const PARAMETERS: &str = "a (fox:1.2), <lora:x:0.8> [red|blue]\nNegative prompt: a cat\nSteps: 20, \
    Sampler: DPM++ 2M, Schedule type: Karras, CFG scale: 7, Seed: 1, Size: 512x512, Model hash: \
    0123456789, Model: m, Denoising strength: 0.5, Clip skip: 2, Hires upscale: 2, Hires steps: \
    10, Lora hashes: \"x: 0123\", Version: v1.10";

pub(crate) fn graph_seeds(_: &Path) -> Vec<Seed> {
    of("json", &[GRAPH, r#"{"prompt": {}}"#])
}

pub(crate) fn a1111_seeds(_: &Path) -> Vec<Seed> {
    of("txt", &[PARAMETERS, "a fox\nSteps: 4, Seed: 7"])
}

pub(crate) fn graph(path: &Path) {
    let limits = Limits::default();
    if let Ok(mut graph) = Graph::from_json(&text(path), &limits) {
        fill_defaults(&mut graph);
        let _ = check(&graph, &NoFiles, &limits);
    }
}

pub(crate) fn a1111(path: &Path) {
    let limits = Limits::default();
    let texts = [("parameters".to_owned(), text(path))];
    if let Ok(Some(found)) = metadata::find(&texts, &limits) {
        let _ = check(&found.graph, &NoFiles, &limits);
    }
}

/// A workflow as ComfyUI's page saves it: a bend, a value on its own, a node out of the way, and a
/// subgraph.
const PAGE: &str = r#"{"nodes": [
{"id": 4, "type": "CheckpointLoaderSimple", "widgets_values": ["a.safetensors"]},
{"id": 5, "type": "Reroute", "inputs": [{"type": "*", "link": 1}]},
{"id": 6, "type": "LoraLoader", "mode": 4, "inputs": [{"name": "model", "type": "MODEL", "link": 2}]},
{"id": 7, "type": "PrimitiveNode", "widgets_values": ["a fox"]},
{"id": 8, "type": "abc", "inputs": [{"name": "model", "type": "MODEL", "link": 3},
  {"name": "text", "type": "STRING", "link": 4}]},
{"id": 9, "type": "SaveImage", "widgets_values": ["x"],
  "inputs": [{"name": "images", "type": "IMAGE", "link": 5}]}],
"links": [[1, 4, 0, 5, 0, "*"], [2, 5, 0, 6, 0, "MODEL"], [3, 6, 0, 8, 0, "MODEL"],
  [4, 7, 0, 8, 1, "STRING"], [5, 8, 0, 9, 0, "IMAGE"]],
"definitions": {"subgraphs": [{"id": "abc", "nodes": [
  {"id": 1, "type": "KSampler", "widgets_values": [7, "fixed", 20, 8.0, "euler", "normal", 1.0],
    "inputs": [{"name": "model", "type": "MODEL", "link": 1}]},
  {"id": 2, "type": "VAEDecode", "inputs": [{"name": "samples", "type": "LATENT", "link": 2}]}],
"links": [{"id": 1, "origin_id": -10, "origin_slot": 0, "target_id": 1, "target_slot": 0},
  {"id": 2, "origin_id": 1, "origin_slot": 0, "target_id": 2, "target_slot": 0},
  {"id": 3, "origin_id": 2, "origin_slot": 0, "target_id": -20, "target_slot": 0}]}]}}"#;

pub(crate) fn page_seeds(_: &Path) -> Vec<Seed> {
    of("json", &[PAGE])
}

pub(crate) fn page(path: &Path) {
    let limits = Limits::default();
    if let Ok(graph) = nino_workflow::page::read_either(&text(path), &limits) {
        let _ = check(&graph, &NoFiles, &limits);
    }
}

/// A program in which every name is that of a file.
struct NoFiles;

impl Host for NoFiles {
    fn find(&self, _: Folder, name: &str) -> Result<PathBuf, HostError> {
        Ok(name.into())
    }

    fn list(&self, _: Folder) -> Option<Vec<String>> {
        None
    }

    fn embeddings(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    fn output(&mut self, _: &Output<'_>) -> Result<serde_json::Value, HostError> {
        Err(HostError::new("nothing runs here"))
    }
}

const YAML: &str = "# where models are\ncomfyui:\n    base_path: /models/\n    is_default: true\n    \
    checkpoints: models/checkpoints/\n    loras: |\n        loras\n        more/loras\n\na111:\n    \
    base_path: \"~/sd\"\n    vae: 'models/VAE' # here\n";

pub(crate) fn yaml_seeds(_: &Path) -> Vec<Seed> {
    of("yaml", &[YAML])
}

/// Reads the list as ComfyUI's own, from its folder.
pub(crate) fn yaml(path: &Path) {
    let comfyui = path.with_file_name("comfyui");
    let list = comfyui.join("extra_model_paths.yaml");
    if std::fs::create_dir_all(&comfyui).is_err() || std::fs::copy(path, list).is_err() {
        return;
    }
    let library = Library::new(LibraryPaths {
        comfyui: Some(comfyui),
        home: Some("home".into()),
        ..LibraryPaths::default()
    });
    for &kind in ModelKind::ALL {
        let _ = library.folders(kind);
    }
}

const TOML: &str = "# settings\nmodel = \"sd15\"\nsteps = 20\nbudget = \"6GiB\"\nthreads = 8\n\
    models = [\"/data/models\", '/data/more']\noutput_name = \"\"\"{prompt}-{seed}\"\"\"\n";

pub(crate) fn toml_seeds(_: &Path) -> Vec<Seed> {
    of(
        "toml",
        &[
            TOML,
            "[a.b]\nc = { d = [[1, 2], [3.5e3]] }\ne = 1979-05-27T07:32:00Z",
        ],
    )
}

pub(crate) fn toml(path: &Path) {
    let keys = SettingsKeys {
        all: &[
            "model",
            "steps",
            "budget",
            "threads",
            "models",
            "output_name",
        ],
        folders: &["models"],
    };
    let _ = read_settings(path, keys, false);
}

pub(crate) fn prompt_seeds(_: &Path) -> Vec<Seed> {
    let prompts = [
        "a (red:1.3) fox, ((in [the] snow)) \\(not this\\), embedding:name-1 BREAK 狐狸 🦊 \u{301}e",
        "(((a)))",
        "embedding:a embedding:b,(embedding:c:0.5)",
    ];
    of("txt", &prompts)
}

pub(crate) fn prompt(path: &Path) {
    static CLIP: LazyLock<Bpe> = LazyLock::new(Bpe::clip);
    let text = text(path);
    for layout in [Layout::clip_l(), Layout::clip_g()] {
        let _ = tokenize(&*CLIP, &layout, &text, &|name| {
            (!name.is_empty()).then_some(3)
        });
    }
}

/// Vocabularies have their merges behind a line of their own.
const BEHIND: &str = "\n----\n";

pub(crate) fn tokenizer_seeds(_: &Path) -> Vec<Seed> {
    let part = |extension: &str| {
        let mut found = files("goldens/text/small", &[extension]);
        found.retain(|s| extension != "json" || s.bytes.starts_with(b"{"));
        found.into_iter().next().map(|s| s.bytes)
    };
    let (Some(vocab), Some(merges)) = (part("json"), part("txt")) else {
        return Vec::new();
    };
    vec![Seed {
        extension: "bpe".to_owned(),
        bytes: [&vocab[..], BEHIND.as_bytes(), &merges].concat(),
    }]
}

pub(crate) fn tokenizer(path: &Path) {
    let bytes = std::fs::read(path).unwrap_or_default();
    let mut places = bytes.windows(BEHIND.len());
    let at = places.position(|w| w == BEHIND.as_bytes());
    let (vocab, merges) = bytes.split_at(at.unwrap_or(bytes.len() / 2));
    if let Ok(bpe) = Bpe::from_files(vocab, merges) {
        let _ = bpe.encode("a fox in the snow, 狐狸");
    }
}
