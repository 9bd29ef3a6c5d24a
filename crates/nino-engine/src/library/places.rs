//! Where model files lie on this machine.

use super::walk::{self, walk};
use super::{LibraryError, LibraryPaths, ModelKind, YamlError, downloads, yaml};
use std::io::Read;
use std::path::{Path, PathBuf};

/// A folder to search.
pub(super) struct Place {
    pub(super) folder: PathBuf,
    /// What lies here; `None` where the folder does not say.
    pub(super) kind: Option<ModelKind>,
    is_downloads: bool,
}

/// A file, or a diffusers folder.
pub(super) struct Candidate {
    /// Its path below the place, with `/` between the parts.
    pub(super) name: String,
    pub(super) path: PathBuf,
    /// What the folder it lies in says it is.
    pub(super) kind: Option<ModelKind>,
    /// It lies in a folder that is a model as a whole.
    pub(super) is_part: bool,
}

/// What a place holds, by name.
pub(super) struct Listed {
    pub(super) candidates: Vec<Candidate>,
    /// Only so many entries were looked at, and there are more.
    pub(super) cut: Option<usize>,
}

/// Places that exist, in the order they are searched: folders of these kinds, loose files,
/// downloads.
pub(super) fn of(kinds: &[ModelKind], paths: &LibraryPaths) -> Result<Vec<Place>, LibraryError> {
    let mut folders: Vec<(PathBuf, Option<ModelKind>)> = Vec::new();
    let typed = |root: &Path| {
        let each = kinds
            .iter()
            .flat_map(|k| k.folders().iter().map(|f| (f, *k)));
        let each = each.map(|(folder, kind)| (root.join(folder), Some(kind)));
        each.collect::<Vec<_>>()
    };
    for models in &paths.models {
        folders.extend(typed(models));
        folders.push((models.clone(), None));
    }
    if let Some(comfyui) = &paths.comfyui {
        // The folder that holds `models`, or that folder itself.
        let models = comfyui.join("models");
        let models = if models.is_dir() { &models } else { comfyui };
        folders.extend(typed(models));
        let extra = comfyui.join("extra_model_paths.yaml");
        if extra.is_file() {
            folders.extend(extra_folders(&extra, kinds, paths.home.as_deref())?);
        }
    }
    let mut places: Vec<Place> = Vec::new();
    for (folder, kind) in folders {
        if folder.is_dir() && !places.iter().any(|p| p.folder == folder) {
            let is_downloads = false;
            places.push(Place {
                folder,
                kind,
                is_downloads,
            });
        }
    }
    let downloads = paths.downloads.iter().filter(|folder| folder.is_dir());
    places.extend(downloads.map(|folder| Place {
        folder: folder.clone(),
        kind: None,
        is_downloads: true,
    }));
    Ok(places)
}

/// Folders of these kinds that ComfyUI's `extra_model_paths.yaml` names; defaults first.
fn extra_folders(
    path: &Path,
    kinds: &[ModelKind],
    home: Option<&Path>,
) -> Result<Vec<(PathBuf, Option<ModelKind>)>, LibraryError> {
    let fail = |source| LibraryError::Yaml {
        path: path.to_owned(),
        source,
    };
    let text = read(path).map_err(fail)?;
    let here = path.parent().unwrap_or(Path::new("."));
    let mut sections = yaml::read(&text).map_err(fail)?;
    sections.sort_by_key(|s| !s.is_default());
    let mut folders = Vec::new();
    for section in &sections {
        let base = match section.get("base_path").first() {
            Some(base) => here.join(expanded(base, home)),
            None => here.to_owned(),
        };
        for kind in kinds {
            let named = kind.folders().iter().flat_map(|name| section.get(name));
            folders.extend(named.map(|f| (base.join(expanded(f, home)), Some(*kind))));
        }
    }
    Ok(folders)
}

fn read(path: &Path) -> Result<String, YamlError> {
    const MOST: u64 = 1 << 20;
    let mut text = String::new();
    let file = nino_files::Opened::open(path).map_err(std::io::Error::other)?;
    file.take(MOST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST {
        return Err(YamlError::TooLong { most: MOST });
    }
    Ok(text)
}

/// `~` is the home folder, as ComfyUI has it.
fn expanded(path: &str, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

impl Place {
    /// How messages speak of it.
    pub(super) fn describe(&self, listed: &Listed) -> String {
        let folder = self.folder.display();
        match (self.is_downloads, listed.cut) {
            (true, _) => format!("the downloads in {folder}"),
            (false, None) => folder.to_string(),
            (false, Some(n)) => format!(
                "{folder} (only its first {n} entries: use a folder that contains only models)"
            ),
        }
    }

    /// Looks at `most` entries of a folder at most.
    pub(super) fn list(&self, most: usize) -> Listed {
        let mut listed = Listed {
            candidates: Vec::new(),
            cut: None,
        };
        if self.is_downloads {
            for (repo, snapshot) in downloads::snapshots(&self.folder) {
                let first = listed.candidates.len();
                self.add(&snapshot, most, &mut listed);
                let is_model = walk::is_model_folder(&snapshot);
                for part in &mut listed.candidates[first..] {
                    part.name = format!("{repo}/{}", part.name);
                    part.is_part |= is_model;
                }
                listed.candidates.extend(is_model.then_some(Candidate {
                    name: repo,
                    path: snapshot,
                    kind: None,
                    is_part: false,
                }));
            }
        } else {
            self.add(&self.folder, most, &mut listed);
        }
        listed.candidates.sort_by(|a, b| a.name.cmp(&b.name));
        listed
    }

    /// Adds what lies below a folder.
    fn add(&self, folder: &Path, most: usize, listed: &mut Listed) {
        let found = walk(folder, most);
        if found.cut {
            listed.cut = Some(most);
        }
        let is_loose = self.kind.is_none() && !self.is_downloads;
        for entry in found.entries {
            // In a folder of all kinds the first folder below it may be of one.
            let kind = match entry.name.split_once('/') {
                Some((first, _)) if is_loose => ModelKind::of_folder(first),
                _ => self.kind,
            };
            listed.candidates.push(Candidate {
                name: entry.name,
                path: entry.path,
                kind,
                is_part: entry.is_part,
            });
        }
    }
}
