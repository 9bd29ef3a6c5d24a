//! Model files by path or by name: as given, in `$NINO_MODELS`, in ComfyUI's folders, among downloads.
//!
//! A name is a file's name, with or without its extension, or its path below one of the places, as
//! ComfyUI shows it. The best kind of match wins, and among equal ones the first place.

mod hub;
mod places;
#[cfg(test)]
mod tests;
mod yaml;

use crate::env::Env;
use nino_engine::nearest;
use places::{Candidate, Place};
use std::path::{Path, PathBuf};

/// What a file is for: says in which of ComfyUI's folders it may lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Model,
    Vae,
    Clip,
    Lora,
    Embedding,
    /// Any of them.
    File,
}

impl Kind {
    /// ComfyUI's names of the folders, best first.
    fn folders(self) -> &'static [&'static str] {
        match self {
            Kind::Model => &["checkpoints", "diffusion_models", "unet", "diffusers"],
            Kind::Vae => &["vae", "vae_approx"],
            Kind::Clip => &["text_encoders", "clip"],
            Kind::Lora => &["loras"],
            Kind::Embedding => &["embeddings"],
            Kind::File => &[
                "checkpoints",
                "diffusion_models",
                "unet",
                "diffusers",
                "vae",
                "vae_approx",
                "text_encoders",
                "clip",
                "loras",
                "embeddings",
            ],
        }
    }

    fn noun(self) -> &'static str {
        match self {
            Kind::Model => "model",
            Kind::Vae => "VAE",
            Kind::Clip => "text encoder",
            Kind::Lora => "LoRA",
            Kind::Embedding => "embedding",
            Kind::File => "file",
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LookupError {
    #[error("no {kind} is called {name:?}: {}{}", looked(places), offered(near))]
    Unknown {
        kind: &'static str,
        name: String,
        places: Vec<String>,
        near: Vec<String>,
    },
    #[error("{name:?} may be any of {}: give more of the path", paths(found))]
    Ambiguous { name: String, found: Vec<PathBuf> },
    #[error("{}: {source}", path.display())]
    Yaml {
        path: PathBuf,
        source: yaml::YamlError,
    },
}

impl LookupError {
    pub(crate) fn hint(&self) -> Option<&'static str> {
        match self {
            LookupError::Unknown { places, .. } if places.is_empty() => Some(
                "set NINO_MODELS to a folder of models or NINO_COMFYUI to ComfyUI's own, and names are found there",
            ),
            _ => None,
        }
    }
}

fn looked(places: &[String]) -> String {
    if places.is_empty() {
        return "there is no such file here, and no other place is known".to_owned();
    }
    format!("looked here and in {}", places.join(", "))
}

fn offered(near: &[String]) -> String {
    if near.is_empty() {
        return String::new();
    }
    format!("; nearest are {}", near.join(", "))
}

fn paths(found: &[PathBuf]) -> String {
    let shown: Vec<String> = found.iter().map(|p| p.display().to_string()).collect();
    shown.join(", ")
}

/// Finds the file or folder that `name` means.
pub(crate) fn find(kind: Kind, name: &Path, env: &Env) -> Result<PathBuf, LookupError> {
    if name.exists() || name.is_absolute() {
        // What is not there is told by whoever opens it.
        return Ok(name.to_owned());
    }
    let text = name.to_string_lossy().replace('\\', "/");
    let places = places::of(kind, env)?;
    let listed: Vec<Vec<Candidate>> = places.iter().map(Place::list).collect();
    for level in Level::ALL {
        for candidates in &listed {
            let hits = candidates.iter().filter(|c| level.matches(&c.name, &text));
            let mut found: Vec<PathBuf> = hits.map(|c| c.path.clone()).collect();
            found.dedup();
            match found.len() {
                0 => {}
                1 => return Ok(found.remove(0)),
                _ => return Err(LookupError::Ambiguous { name: text, found }),
            }
        }
    }
    let mut names: Vec<&str> = Vec::new();
    for candidate in listed.iter().flatten() {
        let name = stem(file_name(&candidate.name));
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let near = nearest(stem(file_name(&text)), names.into_iter());
    Err(LookupError::Unknown {
        kind: kind.noun(),
        near: near.into_iter().map(str::to_owned).collect(),
        places: places.iter().map(Place::describe).collect(),
        name: text,
    })
}

/// Finds a picture or a latent to start from: as given, else in ComfyUI's folders of them, where its
/// `LoadImage` looks. It writes `name [output]` for a file that is not in `input`.
pub(crate) fn find_start(name: &Path, env: &Env) -> PathBuf {
    let Some(comfyui) = env.comfyui.as_ref().filter(|_| !name.exists()) else {
        return name.to_owned();
    };
    let text = name.to_string_lossy();
    let folders = ["input", "output", "temp"];
    let marked = folders.iter().find_map(|folder| {
        let name = text.strip_suffix(&format!(" [{folder}]"))?;
        Some((*folder, name))
    });
    let (folder, file) = marked.unwrap_or((folders[0], &text));
    // The folder that holds `models`, or that folder itself.
    let roots = [Some(comfyui.as_path()), comfyui.parent()];
    let paths = roots
        .into_iter()
        .flatten()
        .map(|r| r.join(folder).join(file));
    // What is not there is told by whoever opens it.
    paths
        .into_iter()
        .find(|p| p.is_file())
        .unwrap_or_else(|| name.to_owned())
}

/// Folders with textual inversions.
pub(crate) fn embeddings(env: &Env) -> Result<Vec<PathBuf>, LookupError> {
    let places = places::of(Kind::Embedding, env)?;
    Ok(places
        .into_iter()
        .filter_map(|place| match place {
            // The whole of $NINO_MODELS is no place for them: any model would be one.
            Place::Folder(path) if !env.models.contains(&path) => Some(path),
            _ => None,
        })
        .collect())
}

/// How a name and a file meet, best first.
#[derive(Clone, Copy)]
enum Level {
    Path,
    PathWithoutExtension,
    Name,
    Stem,
    AnyCase,
}

impl Level {
    const ALL: [Level; 5] = [
        Level::Path,
        Level::PathWithoutExtension,
        Level::Name,
        Level::Stem,
        Level::AnyCase,
    ];

    /// `file` is a path below a place, with `/` between its parts.
    fn matches(self, file: &str, wanted: &str) -> bool {
        match self {
            Level::Path => file == wanted,
            Level::PathWithoutExtension => stem(file) == wanted,
            Level::Name => file_name(file) == wanted,
            Level::Stem => stem(file_name(file)) == wanted,
            Level::AnyCase => {
                let (file, wanted) = (file_name(file).to_lowercase(), wanted.to_lowercase());
                file == wanted || stem(&file) == wanted
            }
        }
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Without a model file's extension; other dots are part of the name.
fn stem(name: &str) -> &str {
    let known = |end: &str| places::EXTENSIONS.contains(&end.to_lowercase().as_str());
    match name.rsplit_once('.') {
        Some((stem, end)) if known(end) => stem,
        _ => name,
    }
}
