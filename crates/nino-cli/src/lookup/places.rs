//! Where model files lie on this machine.

use super::{Kind, LookupError, hub, yaml};
use crate::env::Env;
use std::path::{Path, PathBuf};

pub(super) const EXTENSIONS: [&str; 7] = ["safetensors", "sft", "gguf", "ckpt", "pt", "pth", "bin"];
/// Folders below folders that are looked into.
const DEPTH: usize = 6;

pub(super) enum Place {
    Folder(PathBuf),
    /// The cache of `nino pull` and Hugging Face's tools.
    Hub(PathBuf),
}

/// A file, or a diffusers folder.
pub(super) struct Candidate {
    /// Its path below the place, with `/` between the parts.
    pub(super) name: String,
    pub(super) path: PathBuf,
}

/// Places that exist, in the order they are searched.
pub(super) fn of(kind: Kind, env: &Env) -> Result<Vec<Place>, LookupError> {
    let mut folders = Vec::new();
    for models in &env.models {
        folders.extend(kind.folders().iter().map(|f| models.join(f)));
        folders.push(models.clone());
    }
    if let Some(comfyui) = &env.comfyui {
        // The folder that holds `models`, or that folder itself.
        let models = comfyui.join("models");
        let models = if models.is_dir() {
            models
        } else {
            comfyui.clone()
        };
        folders.extend(kind.folders().iter().map(|f| models.join(f)));
        let extra = comfyui.join("extra_model_paths.yaml");
        if extra.is_file() {
            folders.extend(extra_folders(&extra, kind)?);
        }
    }
    let mut places: Vec<Place> = Vec::new();
    for folder in folders.into_iter().filter(|f| f.is_dir()) {
        let known = |p: &Place| matches!(p, Place::Folder(f) if *f == folder);
        if !places.iter().any(known) {
            places.push(Place::Folder(folder));
        }
    }
    places.extend(env.hf_cache.clone().filter(|f| f.is_dir()).map(Place::Hub));
    Ok(places)
}

/// Folders of a kind that ComfyUI's `extra_model_paths.yaml` names; defaults first.
fn extra_folders(path: &Path, kind: Kind) -> Result<Vec<PathBuf>, LookupError> {
    let fail = |source| LookupError::Yaml {
        path: path.to_owned(),
        source,
    };
    let text = std::fs::read_to_string(path).map_err(|e| fail(e.into()))?;
    let here = path.parent().unwrap_or(Path::new("."));
    let mut sections = yaml::read(&text).map_err(fail)?;
    sections.sort_by_key(|s| !s.is_default());
    let mut folders = Vec::new();
    for section in &sections {
        let base = match section.get("base_path").first() {
            Some(base) => here.join(expanded(base)),
            None => here.to_owned(),
        };
        for name in kind.folders() {
            folders.extend(section.get(name).iter().map(|f| base.join(expanded(f))));
        }
    }
    Ok(folders)
}

/// `~` is the home folder, as ComfyUI has it.
fn expanded(path: &str) -> PathBuf {
    match (path.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

impl Place {
    pub(super) fn describe(&self) -> String {
        match self {
            Place::Folder(path) => path.display().to_string(),
            Place::Hub(path) => format!("the downloads in {}", path.display()),
        }
    }

    pub(super) fn list(&self) -> Vec<Candidate> {
        let mut found = Vec::new();
        match self {
            Place::Folder(path) => walk(path, "", DEPTH, &mut found),
            Place::Hub(path) => {
                for (repo, snapshot) in hub::snapshots(path) {
                    if is_model_folder(&snapshot) {
                        found.push(Candidate {
                            name: repo.clone(),
                            path: snapshot.clone(),
                        });
                    }
                    walk(&snapshot, &format!("{repo}/"), DEPTH, &mut found);
                }
            }
        }
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }
}

/// A folder that cannot be read has no models for us.
fn walk(folder: &Path, prefix: &str, depth: usize, found: &mut Vec<Candidate>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let file = entry.file_name().to_string_lossy().into_owned();
        if file.starts_with('.') {
            continue;
        }
        let name = format!("{prefix}{file}");
        if path.is_dir() {
            if depth > 0 {
                walk(&path, &format!("{name}/"), depth - 1, found);
            }
            if is_model_folder(&path) {
                found.push(Candidate { name, path });
            }
        } else if is_model_file(&path) {
            found.push(Candidate { name, path });
        }
    }
}

fn is_model_file(path: &Path) -> bool {
    let end = path.extension().map(|e| e.to_string_lossy().to_lowercase());
    end.is_some_and(|e| EXTENSIONS.contains(&e.as_str()))
}

fn is_model_folder(path: &Path) -> bool {
    path.join("model_index.json").is_file()
}
