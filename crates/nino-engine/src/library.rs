//! Model files by name: in folders of models, in ComfyUI's folders and those its
//! `extra_model_paths.yaml` names, and among downloads in the cache of Hugging Face's tools.
//!
//! A name is a file's name, with or without its extension, or its path below one of the places, as
//! ComfyUI shows it. The best kind of match wins, and among equal ones the first place. Searching
//! is bounded in depth and in the number of entries it looks at, so a folder such as `/` costs a
//! moment and not minutes.

mod downloads;
mod kind;
mod matching;
mod places;
#[cfg(test)]
mod tests;
mod walk;
mod yaml;

pub use kind::ModelKind;
use matching::{Level, suggestions};
use places::Listed;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
pub use yaml::YamlError;

/// Where model files are looked for; what is not given is not searched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LibraryPaths {
    /// Folders of models: ComfyUI's folder names are understood in them, and files that lie loose.
    pub models: Vec<PathBuf>,
    /// ComfyUI's folder, or its `models` folder.
    pub comfyui: Option<PathBuf>,
    /// The cache of Hugging Face's tools.
    pub downloads: Option<PathBuf>,
    /// What `~` means in `extra_model_paths.yaml`.
    pub home: Option<PathBuf>,
    /// Short names of downloads, and the names they stand for: `owner/repository/file`. A file that
    /// has such a name itself is found first.
    pub short_names: Vec<(String, String)>,
}

/// Finds and lists model files. It keeps no list: every call looks at the folders as they are.
#[derive(Clone, Debug)]
pub struct Library {
    paths: LibraryPaths,
    /// Entries that are looked at below one folder.
    most_entries: usize,
}

/// Far more than any collection of models has.
const MOST_ENTRIES: usize = 50_000;

/// A model file, or a folder in the layout of diffusers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its path below the place it was found in, with `/` between the parts, as ComfyUI shows it. A
    /// download's begins with `owner/repository/`.
    pub name: String,
    pub path: PathBuf,
    /// What its folder says it is; `None` for a file that lies loose and for a download.
    pub kind: Option<ModelKind>,
    /// Bytes of the file, or of the model files in the folder.
    pub size: u64,
}

#[derive(Debug, thiserror::Error)]
pub enum LibraryError {
    #[error("no {kind} is called {name:?}: {}{}", looked(places), offered(near))]
    Unknown {
        /// `model`, `VAE` and so on.
        kind: &'static str,
        name: String,
        /// The places that were searched.
        places: Vec<String>,
        /// Names that are there and look like it, best first.
        near: Vec<String>,
    },
    #[error("{name:?} is ambiguous: {}; give more of the path", paths(found))]
    Ambiguous { name: String, found: Vec<PathBuf> },
    #[error("{}: {source}", path.display())]
    Yaml { path: PathBuf, source: YamlError },
}

fn looked(places: &[String]) -> String {
    if places.is_empty() {
        return "there is no such file here, and no model folder is set".to_owned();
    }
    format!("looked here and in {}", places.join(", "))
}

fn offered(near: &[String]) -> String {
    if near.is_empty() {
        return String::new();
    }
    format!("; did you mean {}?", near.join(" or "))
}

fn paths(found: &[PathBuf]) -> String {
    let shown: Vec<String> = found.iter().map(|p| p.display().to_string()).collect();
    shown.join(", ")
}

impl Library {
    pub fn new(paths: LibraryPaths) -> Library {
        Library {
            paths,
            most_entries: MOST_ENTRIES,
        }
    }

    /// The file or folder that a user means: the path as given where there is something, else what
    /// [`Library::find`] finds. An absolute path is itself, there or not.
    pub fn resolve(&self, kinds: &[ModelKind], given: &Path) -> Result<PathBuf, LibraryError> {
        if given.is_absolute() || given.exists() {
            return Ok(given.to_owned());
        }
        self.find(kinds, &given.to_string_lossy())
    }

    /// The file or folder that has this name in the library and may be of one of `kinds`. Nothing
    /// outside the library's places is ever found.
    pub fn find(&self, kinds: &[ModelKind], name: &str) -> Result<PathBuf, LibraryError> {
        let name = name.replace('\\', "/");
        let places = places::of(kinds, &self.paths)?;
        let listed: Vec<Listed> = places.iter().map(|p| p.list(self.most_entries)).collect();
        for level in Level::ALL {
            for Listed { candidates, .. } in &listed {
                let hits = candidates.iter().filter(|c| level.matches(&c.name, &name));
                let mut found: Vec<PathBuf> = hits.map(|c| c.path.clone()).collect();
                found.dedup();
                match found.len() {
                    0 => {}
                    1 => return Ok(found.remove(0)),
                    _ => return Err(LibraryError::Ambiguous { name, found }),
                }
            }
        }
        if let Some(found) = self.find_short(&name, &listed) {
            return Ok(found);
        }
        let offered = listed.iter().flat_map(|l| &l.candidates);
        let offered = offered.filter(|c| c.kind.is_none_or(|k| kinds.contains(&k)));
        let searched = places.iter().zip(&listed);
        Err(LibraryError::Unknown {
            kind: ModelKind::noun_of(kinds),
            near: suggestions(&name, offered.map(|c| c.name.as_str())),
            places: searched.map(|(place, l)| place.describe(l)).collect(),
            name,
        })
    }

    /// The download that a short name stands for.
    fn find_short(&self, name: &str, listed: &[Listed]) -> Option<PathBuf> {
        let mut short_names = self.paths.short_names.iter();
        let (_, full) = short_names.find(|(short, _)| short.eq_ignore_ascii_case(name))?;
        let mut all = listed.iter().flat_map(|l| &l.candidates);
        all.find(|c| c.name == *full).map(|c| c.path.clone())
    }

    /// Every file and folder that may be of one of `kinds`, place by place and there by name. Where
    /// two places have the same name of one kind, the first one's is listed.
    pub fn list(&self, kinds: &[ModelKind]) -> Result<Vec<Found>, LibraryError> {
        let mut found = Vec::new();
        let mut known = BTreeSet::new();
        for place in places::of(kinds, &self.paths)? {
            let listed = place.list(self.most_entries);
            if listed.cut.is_some() {
                tracing::warn!("the list is incomplete: {}", place.describe(&listed));
            }
            // Other kinds have a folder of their own, and parts of a model are no models.
            let own = listed.candidates.into_iter();
            let own = own.filter(|c| c.kind == place.kind && !c.is_part);
            for candidate in own {
                if known.insert((candidate.kind, candidate.name.clone())) {
                    found.push(Found {
                        size: walk::size(&candidate.path, self.most_entries),
                        name: candidate.name,
                        path: candidate.path,
                        kind: candidate.kind,
                    });
                }
            }
        }
        Ok(found)
    }

    /// The folders that hold models of a kind and nothing else.
    pub fn folders(&self, kind: ModelKind) -> Result<Vec<PathBuf>, LibraryError> {
        let places = places::of(&[kind], &self.paths)?.into_iter();
        let typed = places.filter(|place| place.kind == Some(kind));
        Ok(typed.map(|place| place.folder).collect())
    }

    /// A picture or a latent to start from: the path as given where there is something, else in
    /// ComfyUI's folders of them, where its `LoadImage` looks. ComfyUI writes `name [output]` for a
    /// file that is not in `input`. A path that is nowhere is given back.
    pub fn find_input(&self, name: &Path) -> PathBuf {
        let comfyui = self.paths.comfyui.as_ref().filter(|_| !name.exists());
        let Some(comfyui) = comfyui else {
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
        let paths = roots.into_iter().flatten();
        let mut paths = paths.map(|root| root.join(folder).join(file));
        paths.find(|p| p.is_file()).unwrap_or(name.to_owned())
    }
}
