//! The sets of files in a repository that each make up a model.

use crate::answer::RemoteFile;
use std::collections::BTreeMap;

/// Folders and words in names of what `nino` never reads.
const NEVER: [&str; 8] = [
    "safety_checker",
    "feature_extractor",
    "image_encoder",
    "onnx",
    "openvino",
    "flax",
    "coreml",
    "tf_model",
];
const SAFE: [&str; 3] = [".safetensors", ".sft", ".gguf"];
const PICKLED: [&str; 4] = [".ckpt", ".pth", ".pt", ".bin"];
/// What belongs to a diffusers folder besides weights.
const BESIDE: [&str; 3] = [".json", ".txt", ".model"];
/// Words for weights of half the size.
const HALF: [&str; 2] = ["fp16", "bf16"];

/// A file, and its name below the folder that is looked at.
pub(super) struct Named<'a> {
    name: &'a str,
    file: &'a RemoteFile,
}

/// Files that make up a model.
#[derive(Clone)]
pub(super) struct Set<'a> {
    pub(super) files: Vec<&'a RemoteFile>,
    /// The name without its ending, for a checkpoint in one file.
    pub(super) stem: String,
    /// Bytes of the weights; `None` where the server does not say.
    pub(super) bytes: Option<u64>,
    pub(super) variant: Option<String>,
    pub(super) is_gguf: bool,
}

impl<'a> Named<'a> {
    /// Files below `prefix` that `nino` could read.
    pub(super) fn of(files: &'a [RemoteFile], prefix: &str) -> Vec<Named<'a>> {
        let below = files.iter().filter_map(|file| {
            let name = file.name.as_str().strip_prefix(prefix)?;
            let never = NEVER.iter().any(|word| name.to_lowercase().contains(word));
            (!never).then_some(Named { name, file })
        });
        below.collect()
    }

    fn folder(&self) -> &'a str {
        self.name.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    fn ends(&self, endings: &[&str]) -> bool {
        endings.iter().any(|end| self.name.ends_with(end))
    }

    fn is_weights(&self) -> bool {
        self.ends(&SAFE) || self.ends(&PICKLED)
    }
}

impl Set<'_> {
    pub(super) fn is_half(&self) -> bool {
        let has = |word: &str| self.variant.as_deref() == Some(word) || self.stem.contains(word);
        HALF.iter().any(|word| has(word))
    }
}

/// The diffusers folder: the pipeline of `model_index.json`, or the one network of `config.json`.
/// Each of its folders gives one variant of its weights.
pub(super) fn folder<'a>(named: &[Named<'a>], variant: Option<&str>) -> Option<Set<'a>> {
    let has = |name: &str| named.iter().any(|n| n.name == name);
    let is_pipeline = has("model_index.json");
    if !is_pipeline && !has("config.json") {
        return None;
    }
    let mut folders: BTreeMap<&str, Vec<&Named<'a>>> = BTreeMap::new();
    // Weights beside `model_index.json` are checkpoints of their own; those beside `config.json`
    // have the names that diffusers and transformers give them.
    let own = named.iter().filter(|n| match (is_pipeline, n.folder()) {
        (true, "") => !n.is_weights(),
        (true, _) => true,
        (false, "") => !n.is_weights() || n.name.contains("model.") || n.name.contains("model-0"),
        (false, _) => false,
    });
    for file in own {
        folders.entry(file.folder()).or_default().push(file);
    }
    let mut files = Vec::new();
    let mut bytes = Some(0_u64);
    let mut variants = Vec::new();
    for all in folders.values() {
        let taken = variant_of_folder(all, variant);
        let weights = taken.iter().filter(|n| n.is_weights());
        for file in weights {
            bytes = bytes.zip(file.file.size).map(|(sum, size)| sum + size);
            variants.extend(diffusers_variant(file.name));
        }
        files.extend(taken.iter().map(|n| n.file));
    }
    let asked = variants.iter().find(|v| Some(**v) == variant);
    let found = asked.or(variants.first());
    let has_weights = folders.values().flatten().any(|n| n.is_weights());
    has_weights.then(|| Set {
        files,
        stem: String::new(),
        bytes,
        variant: found.map(|v| (*v).to_owned()),
        is_gguf: false,
    })
}

/// One folder's files: weights of the variant, else of f16, else those without a variant; and what
/// is beside them.
fn variant_of_folder<'n, 'a>(all: &[&'n Named<'a>], variant: Option<&str>) -> Vec<&'n Named<'a>> {
    let weights: Vec<_> = all.iter().filter(|n| n.is_weights()).collect();
    let safe = weights.iter().any(|n| n.ends(&SAFE));
    let usable = |n: &Named| n.is_weights() && (n.ends(&SAFE) || !safe);
    let has = |wanted: Option<&str>| {
        let mut usable = weights.iter().filter(|n| usable(n));
        usable.any(|n| diffusers_variant(n.name) == wanted)
    };
    let wanted = variant.into_iter().chain(HALF).find(|v| has(Some(v)));
    let keep = |n: &&&Named| {
        let same = diffusers_variant(n.name) == wanted;
        if n.name.contains(".index.") {
            return same && n.name.contains(".safetensors.") == safe;
        }
        (usable(n) && same) || (n.ends(&BESIDE) && !n.is_weights())
    };
    all.iter().filter(keep).copied().collect()
}

/// The variant in diffusers' names: `model.fp16.safetensors`, `model.fp16-00001-of-00002.bin`,
/// `model.safetensors.index.fp16.json`.
fn diffusers_variant(name: &str) -> Option<&str> {
    let file = name.rsplit('/').next().unwrap_or(name);
    let (stem, _) = file.rsplit_once('.')?;
    let stem = without_shard(stem);
    let (_, variant) = stem.rsplit_once('.')?;
    let is_word = variant.starts_with(|c: char| c.is_ascii_alphabetic());
    (is_word && variant != "index").then_some(variant)
}

/// Checkpoints in one file, or in shards of one name; safetensors and GGUF where there are any.
pub(super) fn singles<'a>(named: &[Named<'a>], beside_folder: bool) -> Vec<Set<'a>> {
    let weights = |endings: &'static [&'static str]| {
        let all = named.iter().filter(move |n| n.ends(endings));
        all.filter(move |n| n.folder().is_empty() || !beside_folder)
    };
    let mut sets: BTreeMap<String, Set<'a>> = BTreeMap::new();
    let endings: &'static [&'static str] = if weights(&SAFE).next().is_some() {
        &SAFE
    } else {
        &PICKLED
    };
    for file in weights(endings) {
        let (stem, ending) = file.name.rsplit_once('.').unwrap_or((file.name, ""));
        let stem = without_shard(stem).to_owned();
        let words = stem.to_lowercase();
        let set = sets.entry(format!("{stem}.{ending}")).or_insert(Set {
            files: Vec::new(),
            variant: HALF
                .iter()
                .find(|w| words.contains(**w))
                .map(|w| (*w).to_owned()),
            stem,
            bytes: Some(0),
            is_gguf: ending == "gguf",
        });
        set.bytes = set.bytes.zip(file.file.size).map(|(sum, size)| sum + size);
        set.files.push(file.file);
    }
    let mut sets: Vec<Set<'a>> = sets.into_values().collect();
    let is_lora = |set: &Set| set.stem.to_lowercase().contains("lora");
    if !sets.iter().all(is_lora) {
        sets.retain(|set| !is_lora(set));
    }
    // Shards are found by their list.
    for set in sets.iter_mut().filter(|set| set.files.len() > 1) {
        let list = format!("{}.safetensors.index.json", set.stem);
        set.files
            .extend(named.iter().filter(|n| n.name == list).map(|n| n.file));
    }
    sets
}

/// Without `-00001-of-00002`.
fn without_shard(stem: &str) -> &str {
    let parts = stem.rsplit_once("-of-");
    let parts = parts.and_then(|(head, total)| Some((head.rsplit_once('-')?, total)));
    match parts {
        Some(((head, number), total)) if is_number(number) && is_number(total) => head,
        _ => stem,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}
