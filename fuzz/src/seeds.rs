//! Small valid files that mutations begin from: made by this program's own writers, taken from the
//! goldens, or from `corpus/` where no code makes them. A file that cannot be made is left out.

use nino_files::Stop;
use nino_media::{ClipFormat, Picture, create_video, write_picture};
use nino_weights::safetensors::{NewTensor, Writer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) struct Seed {
    pub(crate) extension: String,
    pub(crate) bytes: Vec<u8>,
}

fn seed(path: &Path) -> Option<Seed> {
    Some(Seed {
        extension: path
            .extension()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned(),
        bytes: std::fs::read(path).ok()?,
    })
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Files of a folder of the project with one of the extensions, in the order of their names.
pub(crate) fn files(folder: &str, extensions: &[&str]) -> Vec<Seed> {
    let entries = std::fs::read_dir(root().join(folder));
    let mut paths: Vec<PathBuf> = entries
        .into_iter()
        .flatten()
        .flatten()
        .map(|e| e.path())
        .collect();
    paths.sort();
    let mut seeds: Vec<Seed> = paths.iter().filter_map(|p| seed(p)).collect();
    seeds.retain(|s| extensions.is_empty() || extensions.contains(&s.extension.as_str()));
    seeds.retain(|s| s.bytes.len() < 1 << 20);
    seeds
}

fn gradient(width: usize, height: usize, shift: usize) -> Picture {
    let pixel = |i: usize| {
        [
            (i % width * 5) as u8,
            (i / width * 7) as u8,
            (shift * 40) as u8,
        ]
    };
    Picture {
        width,
        height,
        rgb: (0..width * height).flat_map(pixel).collect(),
    }
}

pub(crate) fn pictures(folder: &Path) -> Vec<Seed> {
    let mut seeds = texts(folder);
    seeds.extend(clips(folder));
    seeds.retain(|s| s.extension != "y4m");
    seeds
}

pub(crate) fn texts(folder: &Path) -> Vec<Seed> {
    let text = [
        ("parameters", "a fox — 狐\nSteps: 4, Seed: 7".to_owned()),
        (
            "prompt",
            r#"{"1": {"class_type": "KSampler", "inputs": {"seed": 7}}}"#.to_owned(),
        ),
    ];
    let written = ["a.png", "a.jpg", "a.webp"].map(|name| {
        let path = folder.join(name);
        write_picture(&path, &gradient(40, 24, 3), &text).ok()?;
        seed(&path)
    });
    written.into_iter().flatten().collect()
}

pub(crate) fn clips(folder: &Path) -> Vec<Seed> {
    let mut seeds = y4m(folder);
    seeds.extend(
        ["b.gif", "b.apng", "b.webp"]
            .iter()
            .filter_map(|name| clip(folder, name)),
    );
    seeds
}

pub(crate) fn y4m(folder: &Path) -> Vec<Seed> {
    clip(folder, "b.y4m").into_iter().collect()
}

fn clip(folder: &Path, name: &str) -> Option<Seed> {
    let path = folder.join(name);
    let format = ClipFormat {
        width: 24,
        height: 16,
        n_frames: 3,
        fps: 8.0,
        crf: None,
        text: vec![("nino".to_owned(), "{\"flags\": {}}".to_owned())],
        has_opacity: false,
        audio: None,
        stop: Stop::never(),
    };
    let mut sink = create_video(&path, &format).ok()?;
    (0..3)
        .try_for_each(|i| sink.frame(&gradient(24, 16, i)))
        .ok()?;
    sink.finish().ok()?;
    seed(&path)
}

pub(crate) fn wav(_folder: &Path) -> Vec<Seed> {
    files("goldens/audio", &["wav"])
}

pub(crate) fn ppm(_folder: &Path) -> Vec<Seed> {
    let mut bytes = Vec::new();
    for i in 0..3 {
        bytes.extend(b"P6\n24 16\n255\n");
        bytes.extend(gradient(24, 16, i).rgb);
    }
    vec![Seed {
        extension: "ppm".to_owned(),
        bytes,
    }]
}

pub(crate) fn latents(folder: &Path) -> Vec<Seed> {
    let made = [
        ("latent_tensor", &[1, 4, 8, 8][..]),
        ("samples", &[1, 16, 2, 4, 4]),
        ("latents", &[2, 4, 6, 5]),
    ];
    let made = made.iter().filter_map(|(name, shape)| {
        let path = folder.join(format!("{name}.latent"));
        tensors(&path, &[(name, shape)])?;
        seed(&path)
    });
    made.collect()
}

pub(crate) fn embeddings(folder: &Path) -> Vec<Seed> {
    let made = [
        &[("emb_params", &[3, 8][..])][..],
        &[("clip_l", &[3, 8][..]), ("clip_g", &[3, 16])],
        &[("string_to_param.*", &[2, 8][..])],
    ];
    let made = made.iter().enumerate().filter_map(|(i, list)| {
        let path = folder.join(format!("embedding{i}.safetensors"));
        tensors(&path, list)?;
        seed(&path)
    });
    let mut seeds: Vec<Seed> = made.collect();
    seeds.extend(torch(folder));
    seeds
}

/// A safetensors file of numbers that count up.
fn tensors(path: &Path, list: &[(&str, &[usize])]) -> Option<()> {
    let new = |(name, shape): &(&str, &[usize])| NewTensor {
        name: (*name).to_owned(),
        dtype: nino_dtype::DType::F32,
        shape: shape.to_vec(),
    };
    let new: Vec<NewTensor> = list.iter().map(new).collect();
    let mut writer = Writer::create(path, &new, &BTreeMap::new()).ok()?;
    for (_, shape) in list {
        let n: usize = shape.iter().product();
        let bytes: Vec<u8> = (0..n).flat_map(|i| (i as f32).to_le_bytes()).collect();
        writer.write(&bytes).ok()?;
    }
    writer.finish().ok()
}

pub(crate) fn safetensors(_folder: &Path) -> Vec<Seed> {
    named(
        "safetensors",
        files("goldens/weights", &["safetensors"]),
        "fuzz/corpus/safetensors",
    )
}

pub(crate) fn gguf(_folder: &Path) -> Vec<Seed> {
    named(
        "gguf",
        files("goldens/weights", &["gguf"]),
        "fuzz/corpus/gguf",
    )
}

pub(crate) fn torch(_folder: &Path) -> Vec<Seed> {
    named(
        "pt",
        files("goldens/weights", &["pt", "ckpt"]),
        "fuzz/corpus/torch",
    )
}

/// Seeds and those of the corpus, whose names say nothing, all with one extension.
fn named(extension: &str, mut seeds: Vec<Seed>, corpus: &str) -> Vec<Seed> {
    seeds.extend(files(corpus, &[]));
    for seed in &mut seeds {
        extension.clone_into(&mut seed.extension);
    }
    seeds
}

pub(crate) fn loras(_folder: &Path) -> Vec<Seed> {
    files("goldens/lora", &["safetensors"])
}

/// Whole files of the formats that say how long they are, all of which can be read.
pub(crate) fn to_cut(folder: &Path) -> Vec<Seed> {
    let mut seeds = texts(folder);
    seeds.extend(latents(folder));
    seeds.extend(files("goldens/weights", &["safetensors", "gguf", "pt"]));
    seeds
}

/// The list is changed, and has its shards beside it.
pub(crate) fn shards(folder: &Path) -> Vec<Seed> {
    let from = root().join("goldens/weights/sharded");
    let entries = std::fs::read_dir(from).into_iter().flatten().flatten();
    for path in entries.map(|e| e.path()) {
        if let Some(name) = path.file_name() {
            // A shard that is missing is one more thing that can be wrong.
            let _ = std::fs::copy(&path, folder.join(name));
        }
    }
    files("goldens/weights/sharded", &["json"])
}
