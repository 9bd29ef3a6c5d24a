//! What the cache holds, and taking something out of it. Nothing outside the cache is ever removed:
//! links are removed as links, and a content only when no other name leads to it.

use crate::HubError;
use crate::alias::Alias;
use crate::names::RepoName;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Entries of the cache that are looked at.
const MOST_ENTRIES: usize = 100_000;
const DEPTH: usize = 26;

/// A repository in the cache.
#[derive(Clone, Debug)]
pub struct Download {
    pub repo: RepoName,
    pub folder: PathBuf,
    /// Names in all snapshots, in order.
    pub files: Vec<DownloadedFile>,
    /// All that its folder takes on the disk.
    pub bytes: u64,
    /// Bytes of it that belong to downloads that are not finished.
    pub unfinished: u64,
}

#[derive(Clone, Debug)]
pub struct DownloadedFile {
    /// Its path in the repository.
    pub name: String,
    /// Its name in a snapshot.
    pub path: PathBuf,
    /// The content, for names that are links.
    blob: Option<PathBuf>,
}

/// Something that can be removed.
#[derive(Clone, Debug)]
pub struct Removal {
    /// What it is called in full.
    pub name: String,
    /// Bytes that are free afterwards.
    pub frees: u64,
    /// Names of files that go.
    pub files: Vec<String>,
    folder: PathBuf,
    /// Names and contents; all of the folder where there are none.
    paths: Vec<PathBuf>,
}

/// The repositories in a cache, by name.
pub fn downloads(cache: &Path) -> Vec<Download> {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for entry in entries.take(MOST_ENTRIES) {
        // A link to a folder is somebody else's folder.
        let is_folder = entry.file_type().is_ok_and(|t| t.is_dir());
        let repo = RepoName::of_folder(&entry.file_name().to_string_lossy());
        if let (true, Some(repo)) = (is_folder, repo) {
            found.push(Download::read(repo, entry.path()));
        }
    }
    found.sort_by(|a, b| a.repo.cmp(&b.repo));
    found
}

impl Download {
    fn read(repo: RepoName, folder: PathBuf) -> Download {
        let blobs = fs::canonicalize(folder.join("blobs")).ok();
        let mut files = Vec::new();
        let snapshots = fs::read_dir(folder.join("snapshots"));
        for snapshot in snapshots.into_iter().flatten().flatten() {
            let root = snapshot.path();
            for path in below(&root) {
                let name = path.strip_prefix(&root).unwrap_or(&path);
                // A link that leads out of the repository has no content here.
                let leads_to = fs::canonicalize(&path).ok();
                let blob = leads_to.filter(|to| to.parent() == blobs.as_deref());
                files.push(DownloadedFile {
                    name: name.to_string_lossy().replace('\\', "/"),
                    path,
                    blob,
                });
            }
        }
        files.sort_by(|a, b| a.name.cmp(&b.name));
        let all = below(&folder);
        let is_unfinished = |path: &&PathBuf| path.extension().is_some_and(|e| e == "incomplete");
        Download {
            repo,
            bytes: all.iter().map(|path| own_bytes(path)).sum(),
            unfinished: all
                .iter()
                .filter(is_unfinished)
                .map(|path| own_bytes(path))
                .sum(),
            files,
            folder,
        }
    }

    fn whole(&self) -> Removal {
        let names: BTreeSet<&str> = self.files.iter().map(|f| f.name.as_str()).collect();
        Removal {
            name: self.repo.to_string(),
            frees: self.bytes,
            files: names.into_iter().map(str::to_owned).collect(),
            folder: self.folder.clone(),
            paths: Vec::new(),
        }
    }

    /// One file, in all snapshots. The last file of a repository takes the repository with it.
    fn file(&self, name: &str) -> Option<Removal> {
        let (own, other): (Vec<_>, Vec<_>) = self.files.iter().partition(|f| f.name == name);
        if own.is_empty() {
            return None;
        }
        if other.is_empty() {
            return Some(self.whole());
        }
        let still_used: BTreeSet<_> = other.iter().filter_map(|f| f.blob.as_ref()).collect();
        let blobs: BTreeSet<&PathBuf> = own.iter().filter_map(|f| f.blob.as_ref()).collect();
        let blobs: Vec<&PathBuf> = blobs.difference(&still_used).copied().collect();
        let names = own.iter().map(|f| &f.path);
        let paths: Vec<PathBuf> = names.chain(blobs).cloned().collect();
        Some(Removal {
            name: format!("{}/{name}", self.repo),
            frees: paths.iter().map(|path| own_bytes(path)).sum(),
            files: vec![name.to_owned()],
            folder: self.folder.clone(),
            paths,
        })
    }
}

impl Removal {
    /// What a person means by `name`: a repository, `owner/name/file` or `owner/name:file`, a short
    /// name, or a file's name that only one download has.
    pub fn find(cache: &Path, name: &str) -> Result<Removal, HubError> {
        let all = downloads(cache);
        let same = |a: &str, b: &str| a.eq_ignore_ascii_case(b);
        if let Some(whole) = all.iter().find(|d| same(d.repo.as_str(), name)) {
            return Ok(whole.whole());
        }
        let mut found: Vec<Removal> = Vec::new();
        let alias = Alias::find(name);
        for download in &all {
            for file in download.files.iter().map(|f| f.name.as_str()) {
                let full = format!("{}/{file}", download.repo);
                let last = file.rsplit('/').next().unwrap_or(file);
                let stem = last.rsplit_once('.').map_or(last, |(stem, _)| stem);
                let is_alias = alias.is_some_and(|alias| {
                    let mut files = alias.all_files();
                    files.any(|(repo, name)| same(repo, download.repo.as_str()) && name == file)
                });
                let is_meant = same(&full, &name.replacen(':', "/", 1))
                    || [file, last, stem].iter().any(|n| same(n, name))
                    || is_alias;
                let is_new = found
                    .iter()
                    .all(|f| f.name != full && f.name != download.repo.as_str());
                if is_meant && is_new {
                    found.extend(download.file(file));
                }
            }
        }
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => Err(HubError::NoDownload {
                name: name.to_owned(),
                near: near(&all, name),
            }),
            _ => Err(HubError::Ambiguous {
                name: name.to_owned(),
                found: found.into_iter().map(|f| f.name).collect(),
            }),
        }
    }

    /// Removes it.
    pub fn run(&self) -> Result<(), HubError> {
        if self.paths.is_empty() {
            // Links in it are removed, not followed.
            let done = fs::remove_dir_all(&self.folder);
            return done.map_err(HubError::io(&self.folder, "remove the folder"));
        }
        for path in &self.paths {
            fs::remove_file(path).map_err(HubError::io(path, "remove the file"))?;
            // Folders that are empty now; the first that is not ends it.
            let mut folder = path.parent();
            while let Some(empty) = folder.filter(|f| **f != self.folder) {
                if fs::remove_dir(empty).is_err() {
                    break;
                }
                folder = empty.parent();
            }
        }
        Ok(())
    }
}

/// Files and links below a folder; links are not followed.
fn below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![(folder.to_owned(), 0)];
    while let Some((folder, depth)) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            if found.len() >= MOST_ENTRIES {
                return found;
            }
            match entry.file_type() {
                Ok(kind) if kind.is_dir() && depth < DEPTH => {
                    folders.push((entry.path(), depth + 1));
                }
                Ok(kind) if !kind.is_dir() => found.push(entry.path()),
                _ => {}
            }
        }
    }
    found
}

/// Bytes of a file itself: none for a link.
fn own_bytes(path: &Path) -> u64 {
    let meta = fs::symlink_metadata(path).ok();
    meta.filter(fs::Metadata::is_file).map_or(0, |m| m.len())
}

/// Downloads whose name contains the word.
fn near(all: &[Download], name: &str) -> Vec<String> {
    let name = name.to_lowercase();
    let names = all.iter().map(|d| d.repo.to_string());
    let near = names.filter(|n| !name.is_empty() && n.to_lowercase().contains(&name));
    near.take(3).collect()
}
