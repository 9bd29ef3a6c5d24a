//! The text encoders and the VAE for a diffusion model that comes without them, among the files
//! that are here.

use crate::models::Models;
use nino_engine::{Checkpoint, Encoder, EngineError, Family, ModelFiles};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Files that are tried; each is read as far as its list of tensors.
const TRIED: usize = 24;

/// Files by their names in ComfyUI's folders.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Parts {
    pub(crate) clip: Vec<String>,
    pub(crate) vae: Option<String>,
}

impl Parts {
    /// Looks for files whose names say that they are the model's encoders, and for a VAE that makes
    /// a whole of them. What is not found is left out.
    pub(crate) fn find(models: &Models, model: &Path, family: Family) -> Parts {
        let Some(clip) = clip(models, model, family) else {
            return Parts::default();
        };
        let vae = vae(models, model, &clip, family);
        Parts { clip, vae }
    }

    pub(crate) fn to_json(&self, family: Family) -> Value {
        json!({ "clip": self.clip, "vae": self.vae, "type": clip_type(family) })
    }
}

/// Whether a file of this name is likely to be such an encoder.
fn is_encoder(name: &str, encoder: Encoder) -> bool {
    match encoder {
        Encoder::Clip(768) => name.contains("clip_l") || name.contains("clip-l"),
        Encoder::Clip(1024) => name.contains("clip_h") || name.contains("clip-h"),
        Encoder::Clip(_) => name.contains("clip_g") || name.contains("clip-g"),
        Encoder::T5 => name.contains("t5") && !name.contains("umt5"),
        Encoder::Umt5 => name.contains("umt5"),
        Encoder::Llm(_) => name.contains("qwen") || name.contains("mistral"),
    }
}

/// The first text encoders that fit the model, of those whose names say that they may. Several
/// sizes of one encoder have names that are alike, so each is tried.
fn clip(models: &Models, model: &Path, family: Family) -> Option<Vec<String>> {
    let names = models.names("text_encoders").unwrap_or_default();
    let mut sets = vec![Vec::new()];
    for encoder in family.encoders() {
        let likely = names
            .iter()
            .filter(|name| is_encoder(&name.to_lowercase(), *encoder));
        let likely: Vec<&String> = likely.collect();
        let longer = sets.iter().flat_map(|set: &Vec<String>| {
            let with = |name: &&String| [&set[..], &[(*name).clone()]].concat();
            likely.iter().map(with).collect::<Vec<_>>()
        });
        sets = longer.collect();
    }
    sets.into_iter().take(TRIED).find(|set| {
        let find = |name: &String| models.find("text_encoders", name).ok();
        let Some(clip) = set.iter().map(find).collect::<Option<Vec<PathBuf>>>() else {
            return false;
        };
        let files = ModelFiles {
            model,
            clip: &clip,
            vae: None,
        };
        // Text encoders are looked at before the VAE, which is still to be found.
        let opened = Checkpoint::open_files(files);
        matches!(opened, Ok(_) | Err(EngineError::MissingVae { .. }))
    })
}

/// The first VAE that fits the model, those with its family's name in front.
fn vae(models: &Models, model: &Path, clip: &[String], family: Family) -> Option<String> {
    let word = match family {
        Family::Klein | Family::Flux2 => "flux2",
        Family::QwenImage | Family::Krea2 | Family::Anima => "qwen",
        Family::Wan | Family::Wan5B => "wan",
        _ => "ae",
    };
    let find = |name: &String| models.find("text_encoders", name).ok();
    let clip = clip.iter().map(find).collect::<Option<Vec<PathBuf>>>()?;
    let mut names = models.names("vae").unwrap_or_default();
    names.sort_by_key(|name| !name.to_lowercase().contains(word));
    names.into_iter().take(TRIED).find(|name| {
        let Ok(path) = models.find("vae", name) else {
            return false;
        };
        let files = ModelFiles {
            model,
            clip: &clip,
            vae: Some(&path),
        };
        Checkpoint::open_files(files).is_ok()
    })
}

/// The `type` that ComfyUI's loaders of text encoders are told.
pub(crate) fn clip_type(family: Family) -> &'static str {
    match family {
        Family::Sdxl | Family::SdxlRefiner => "sdxl",
        Family::Flux => "flux",
        Family::Chroma => "chroma",
        Family::Wan | Family::Wan5B => "wan",
        Family::ZImage => "lumina2",
        Family::Klein | Family::Flux2 => "flux2",
        Family::QwenImage => "qwen_image",
        Family::Krea2 => "krea2",
        // The encoder says by itself that it is Anima's.
        Family::Sd1 | Family::Sd2 | Family::Anima | Family::Emoji => "stable_diffusion",
    }
}
