//! Sharded models: a `*.index.json` that says which file holds which tensor.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use serde::Deserialize;

use crate::open::open_file;
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
