//! Models in several files: a `*.index.json` that says which file holds which tensor, and GGUF
//! files that are parts of one, named `x-00001-of-00003.gguf`.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::open::{Opened, open_file};
use crate::{Entry, Error, FileSource, Format, Index, Result};

/// A shard list is text of one line per tensor; more than this is not one.
const MAX_LIST: u64 = 64 << 20;

#[derive(Deserialize)]
struct List {
    weight_map: BTreeMap<String, String>,
}

/// Opens all shards a list names and checks that they hold exactly what it says.
pub(crate) fn open_sharded(list: &Path) -> Result<(Index, Vec<FileSource>)> {
    let text = nino_files::read_small(list, "a shard list", MAX_LIST)?;
    let List { weight_map } = serde_json::from_slice(&text).map_err(|reason| Error::ShardList {
        path: list.to_owned(),
        reason,
    })?;

    let mut shards: Vec<&String> = weight_map.values().collect();
    shards.sort_unstable();
    shards.dedup();
    let folder = list.parent().unwrap_or(Path::new(""));
    let mut sources = Vec::new();
    let mut paths = Vec::new();
    let mut entries: Vec<Entry> = Vec::new();
    let mut unlisted = Vec::new();
    let mut format = Format::Safetensors;
    for shard in shards {
        // A list must not reach outside its folder.
        if shard.is_empty() || shard.contains(['/', '\\', ':']) || shard.starts_with('.') {
            return Err(Error::ShardPath {
                path: list.to_owned(),
                shard: shard.clone(),
            });
        }
        let path = folder.join(shard);
        let opened = open_file(&path, sources.len())?;
        format = opened.format;
        for entry in opened.entries {
            if weight_map.get(&entry.name) == Some(shard) {
                entries.push(entry);
            } else {
                unlisted.push(format!("{} in {shard}", entry.name));
            }
        }
        sources.push(opened.source);
        paths.push(path);
    }
    let found: HashSet<&str> = entries.iter().map(|e| e.name.as_str()).collect();
    let missing: Vec<String> = weight_map
        .keys()
        .filter(|k| !found.contains(k.as_str()))
        .cloned()
        .collect();
    if !missing.is_empty() || !unlisted.is_empty() {
        return Err(Error::ShardMismatch {
            path: list.to_owned(),
            missing,
            unlisted,
        });
    }
    Ok((Index::new(format, paths, entries), sources))
}

/// Keys of a GGUF file that is a part: its number from zero, how many there are, and how many
/// tensors they have together.
const PART: &str = "split.no";
const PARTS: &str = "split.count";
const TENSORS: &str = "split.tensors.count";

/// How many files a GGUF file says its model is split into; `None` for a whole one.
fn n_parts(opened: &Opened) -> Option<u64> {
    let n = opened.metadata.get(PARTS)?.as_u64()?;
    (n > 1).then_some(n)
}

/// Whether a file name is that of a part after the first.
pub(crate) fn is_later_part(name: &str) -> bool {
    part_of(name).is_some_and(|(_, part, _)| part > 1)
}

/// A part's name as its beginning, its number from one and how many there are.
fn part_of(name: &str) -> Option<(&str, u64, u64)> {
    let (rest, of) = name.strip_suffix(".gguf")?.rsplit_once("-of-")?;
    let (start, part) = rest.rsplit_once('-')?;
    let number = |text: &str| text.parse().ok().filter(|_| text.len() == 5);
    Some((start, number(part)?, number(of)?))
}

/// The other parts of a model of which one was opened; `None` where that is all there is.
pub(crate) fn open_parts(path: &Path, opened: &Opened) -> Result<Option<(Index, Vec<FileSource>)>> {
    let Some(n) = n_parts(opened) else {
        return Ok(None);
    };
    let fail = |reason: String| Error::Parts {
        path: path.to_owned(),
        reason,
    };
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let (start, _, of) = part_of(&name)
        .filter(|(_, _, of)| *of == n)
        .ok_or_else(|| fail(format!("its name does not end in -00001-of-{n:05}.gguf")))?;
    let mut metadata = crate::Metadata::new();
    let (mut files, mut entries, mut sources) = (Vec::<PathBuf>::new(), Vec::new(), Vec::new());
    let mut names = HashSet::new();
    for part in 1..=of {
        let file = path.with_file_name(format!("{start}-{part:05}-of-{of:05}.gguf"));
        let opened = open_file(&file, sources.len())?;
        let told = opened.metadata.get(PART).and_then(crate::Value::as_u64);
        if n_parts(&opened) != Some(n) || told != Some(part - 1) {
            return Err(fail(format!(
                "{} is not part {part} of {n}",
                file.display()
            )));
        }
        if let Some(twice) = opened
            .entries
            .iter()
            .find(|e| !names.insert(e.name.clone()))
        {
            return Err(Error::DuplicateTensor {
                path: file,
                tensor: twice.name.clone(),
            });
        }
        if part == 1 {
            metadata = opened.metadata;
        }
        entries.extend(opened.entries);
        sources.push(opened.source);
        files.push(file);
    }
    let told = metadata.get(TENSORS).and_then(crate::Value::as_u64);
    if let Some(told) = told.filter(|&told| told != entries.len() as u64) {
        let found = entries.len();
        return Err(fail(format!("its parts hold {found} tensors, not {told}")));
    }
    let mut index = Index::new(Format::Gguf, files, entries);
    index.metadata = metadata;
    Ok(Some((index, sources)))
}
