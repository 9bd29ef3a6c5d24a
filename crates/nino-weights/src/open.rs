//! From a path to a reader: tells formats apart by their first bytes and knows diffusers folders.

use std::path::Path;

use crate::shards::{is_later_part, open_parts, open_sharded};
use crate::{
    Entry, Error, FileSource, Format, Index, Metadata, Result, Source, TensorReader, gguf,
    safetensors, scaled, sniff, torch,
};

/// Sub-folders of a diffusers pipeline that hold weights; each becomes a name prefix.
const PARTS: [&str; 9] = [
    "unet",
    "transformer",
    "transformer_2",
    "vae",
    "text_encoder",
    "text_encoder_2",
    "text_encoder_3",
    "image_encoder",
    "controlnet",
];

/// File stems in the order they are preferred when a folder holds several variants.
const STEMS: [&str; 6] = [
    "diffusion_pytorch_model",
    "model",
    "pytorch_model",
    "diffusion_pytorch_model.fp16",
    "model.fp16",
    "pytorch_model.fp16",
];
const EXTENSIONS: [&str; 6] = ["safetensors", "gguf", "bin", "pth", "pt", "ckpt"];
const LOOKED_FOR: &str =
    "model_index.json, *.index.json, *.safetensors, *.gguf, *.bin, *.pth, *.pt, *.ckpt";

/// Opens a model file, a shard list, or a folder of either; reads headers only.
pub fn open(path: impl AsRef<Path>) -> Result<TensorReader> {
    let path = path.as_ref();
    let (index, sources) = if path.is_dir() {
        if path.join("model_index.json").is_file() {
            open_pipeline(path)?
        } else {
            open_folder(path)?
        }
    } else {
        open_model(path)?
    };
    let reader = TensorReader::new(index, sources);
    scaled::link(reader)
}

/// What one file's header says.
pub(crate) struct Opened {
    pub(crate) format: Format,
    pub(crate) entries: Vec<Entry>,
    pub(crate) metadata: Metadata,
    pub(crate) source: FileSource,
}

/// Parses one file; `file` is the number its spans carry.
pub(crate) fn open_file(path: &Path, file: usize) -> Result<Opened> {
    let source = FileSource::open(path)?;
    let parsed = parse_file(path, &source, file);
    // First, because what was read while the file changed can fail in any way.
    source.check_unchanged()?;
    let (format, entries, metadata) = parsed?;
    Ok(Opened {
        format,
        entries,
        metadata,
        source,
    })
}

fn parse_file(
    path: &Path,
    source: &FileSource,
    file: usize,
) -> Result<(Format, Vec<Entry>, Metadata)> {
    let mut start = vec![0; source.size().min(sniff::BYTES) as usize];
    source
        .read_exact_at(&mut start, 0)
        .map_err(Error::io(path, "read"))?;
    let owned = || path.to_owned();
    if start.starts_with(&gguf::MAGIC) {
        let parsed = gguf::parse(source, file).map_err(|reason| Error::Gguf {
            path: owned(),
            reason,
        })?;
        Ok((Format::Gguf, parsed.entries, parsed.metadata))
    } else if sniff::kind(&start).is_some() {
        // An extension does not make a model of a picture or of a web page.
        Err(Error::UnknownFormat {
            path: owned(),
            start,
        })
    } else if start.get(8) == Some(&b'{') || path.extension().is_some_and(|e| e == "safetensors") {
        let parsed = safetensors::parse(source, file).map_err(|reason| Error::Safetensors {
            path: owned(),
            reason,
        })?;
        Ok((Format::Safetensors, parsed.entries, parsed.metadata))
    } else if start.starts_with(b"PK") || start.first() == Some(&0x80) && start.get(1) <= Some(&5) {
        let parsed = torch::parse(source, file).map_err(|reason| Error::Torch {
            path: owned(),
            reason,
        })?;
        Ok((Format::Torch, parsed.entries, parsed.metadata))
    } else {
        Err(Error::UnknownFormat {
            path: owned(),
            start,
        })
    }
}

fn open_model(path: &Path) -> Result<(Index, Vec<FileSource>)> {
    if path.extension().is_some_and(|e| e == "json") {
        return open_sharded(path);
    }
    let opened = open_file(path, 0)?;
    if let Some(whole) = open_parts(path, &opened)? {
        return Ok(whole);
    }
    let mut index = Index::new(opened.format, vec![path.to_owned()], opened.entries);
    index.metadata = opened.metadata;
    Ok((index, vec![opened.source]))
}

fn open_pipeline(folder: &Path) -> Result<(Index, Vec<FileSource>)> {
    let mut files = Vec::new();
    let mut sources = Vec::new();
    let mut entries = Vec::new();
    for part in PARTS {
        let sub = folder.join(part);
        if !sub.is_dir() {
            continue;
        }
        let (index, part_sources) = open_folder(&sub)?;
        let first = files.len();
        for entry in index.entries() {
            let mut entry = entry.clone();
            entry.name = format!("{part}.{}", entry.name);
            entry.spans.iter_mut().for_each(|s| s.file += first);
            entries.push(entry);
        }
        files.extend(index.files);
        sources.extend(part_sources);
    }
    if entries.is_empty() {
        let looked_for = "unet, transformer, vae, text_encoder folders";
        return Err(Error::EmptyFolder {
            path: folder.to_owned(),
            looked_for,
        });
    }
    Ok((Index::new(Format::Diffusers, files, entries), sources))
}

/// A folder that holds one model: sharded, or a file under one of the usual names, or the only one.
fn open_folder(folder: &Path) -> Result<(Index, Vec<FileSource>)> {
    let mut names = Vec::new();
    for item in std::fs::read_dir(folder).map_err(Error::io(folder, "list"))? {
        let item = item.map_err(Error::io(folder, "list"))?;
        if let Ok(name) = item.file_name().into_string() {
            names.push(name);
        }
    }
    names.sort_unstable();
    let has = |name: &String| names.contains(name);
    for ext in EXTENSIONS {
        let usual = STEMS.iter().flat_map(|stem| {
            let file = format!("{stem}.{ext}");
            [format!("{file}.index.json"), file]
        });
        if let Some(name) = usual.into_iter().find(has) {
            return open_model(&folder.join(name));
        }
        let list = format!(".{ext}.index.json");
        let mut candidates: Vec<&String> = names.iter().filter(|n| n.ends_with(&list)).collect();
        if candidates.is_empty() {
            let end = format!(".{ext}");
            let first = |n: &&String| n.ends_with(&end) && !is_later_part(n);
            candidates = names.iter().filter(first).collect();
        }
        match candidates[..] {
            [] => {}
            [name] => return open_model(&folder.join(name)),
            _ => {
                return Err(Error::AmbiguousFolder {
                    path: folder.to_owned(),
                    candidates: candidates.into_iter().cloned().collect(),
                });
            }
        }
    }
    Err(Error::EmptyFolder {
        path: folder.to_owned(),
        looked_for: LOOKED_FOR,
    })
}
