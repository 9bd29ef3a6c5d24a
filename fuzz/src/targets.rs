//! The readers that are fuzzed. Each takes the path of a file; an error of its own is a good
//! answer.

use crate::answers;
use crate::seeds::{self, Seed};
use crate::texts;
use nino_engine::Latent;
use nino_media::{Limits, ReadOptions};
use nino_weights::TensorReader;
use std::path::Path;

const MIB: usize = 1 << 20;

pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) seeds: fn(&Path) -> Vec<Seed>,
    pub(crate) run: fn(&Path),
    /// Seeds are cut short instead of being mutated.
    pub(crate) cut: bool,
    /// Bytes a case may allocate at once, and for every byte of its file so many more.
    pub(crate) memory: usize,
    pub(crate) for_each_byte: usize,
}

const fn target(
    name: &'static str,
    seeds: fn(&Path) -> Vec<Seed>,
    run: fn(&Path),
    memory: usize,
) -> Target {
    Target {
        name,
        seeds,
        run,
        cut: false,
        memory,
        for_each_byte: 100,
    }
}

pub(crate) const TARGETS: [Target; 22] = [
    target("pictures", seeds::pictures, picture, 960 * MIB),
    target("clips", seeds::clips, clip, 960 * MIB),
    target("text", seeds::texts, text, 64 * MIB),
    target("y4m", seeds::y4m, clip, 960 * MIB),
    target("ppm", seeds::ppm, ppm, 960 * MIB),
    target("wav", seeds::wav, wav, 960 * MIB),
    target("latents", seeds::latents, latent, 64 * MIB),
    target("safetensors", seeds::safetensors, weights, 64 * MIB),
    target("gguf", seeds::gguf, weights, 64 * MIB),
    target("torch", seeds::torch, weights, 64 * MIB),
    target("lora", seeds::loras, lora, 64 * MIB),
    target("embeddings", seeds::embeddings, embedding, 64 * MIB),
    target("shards", seeds::shards, weights, 64 * MIB),
    target("answers", answers::seeds, answers::run, 64 * MIB),
    target("graphs", texts::graph_seeds, texts::graph, 64 * MIB),
    target("a1111", texts::a1111_seeds, texts::a1111, 64 * MIB),
    target("pages", texts::page_seeds, texts::page, 64 * MIB),
    target("yaml", texts::yaml_seeds, texts::yaml, 64 * MIB),
    target("toml", texts::toml_seeds, texts::toml, 64 * MIB),
    target("prompts", texts::prompt_seeds, texts::prompt, 64 * MIB),
    target(
        "tokenizers",
        texts::tokenizer_seeds,
        texts::tokenizer,
        64 * MIB,
    ),
    Target {
        cut: true,
        ..target("cuts", seeds::to_cut, not_whole, 960 * MIB)
    },
];

fn picture(path: &Path) {
    let limits = Limits::default();
    let _ = nino_media::load_picture(path, &limits);
    let _ = nino_media::load_with_alpha(path, &limits);
    let _ = nino_media::load_mask(path, &limits);
}

fn clip(path: &Path) {
    let Ok(Some(mut clip)) = nino_media::open_video(path, &ReadOptions::default()) else {
        return;
    };
    // As many as a few seconds of work can be; what a frame takes does not grow with their number.
    for _ in 0..64 {
        if !matches!(clip.next_frame(), Ok(Some(_))) {
            return;
        }
    }
}

fn text(path: &Path) {
    let keywords = ["nino", "prompt", "parameters"];
    let _ = nino_media::read_text(path, &keywords, &Limits::default());
}

fn ppm(path: &Path) {
    let bytes = std::fs::read(path).unwrap_or_default();
    let _ = nino_media::count_ppm_frames(&bytes, &Limits::default());
}

fn wav(path: &Path) {
    let _ = nino_media::load_wav(path, &Limits::default());
}

fn latent(path: &Path) {
    let _ = Latent::open(path);
    let _ = Latent::open_noisy(path);
}

/// A file that was cut short must not be taken for a whole one.
fn not_whole(path: &Path) {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let is_whole = match &*extension {
        "png" | "jpg" | "webp" => nino_media::load_picture(path, &Limits::default()).is_ok(),
        _ => nino_weights::open(path).is_ok_and(|reader| read_all(&reader)),
    };
    assert!(!is_whole, "a file that was cut was read as a whole one");
}

/// Reads every tensor, as stored and as numbers.
fn weights(path: &Path) {
    if let Ok(reader) = nino_weights::open(path) {
        read_all(&reader);
    }
}

/// Whether there was no error.
fn read_all(reader: &TensorReader) -> bool {
    let mut whole = true;
    for entry in reader.index().entries() {
        let mut bytes = vec![0; entry.n_bytes() as usize];
        whole &= reader.read(entry, &mut bytes).is_ok();
        drop(bytes);
        let mut values = vec![0.0; entry.n_values()];
        whole &= reader.read_f32(entry, &mut values).is_ok();
    }
    whole
}

fn lora(path: &Path) {
    if let Ok(reader) = nino_weights::open(path) {
        let _ = nino_weights::lora::recognize(reader.index());
        let _ = nino_weights::lora::parse(&reader);
        let _ = nino_weights::lora::ControlLora::of(reader.index());
        read_all(&reader);
    }
}

fn embedding(path: &Path) {
    for encoder in ["clip_l", "clip_g"] {
        let _ = nino_engine::embedding_size(path, encoder);
    }
}
