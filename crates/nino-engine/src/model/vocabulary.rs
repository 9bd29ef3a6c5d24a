//! The vocabulary that a text encoder's file carries. UMT5's has 256,384 pieces and Mistral's
//! 131,072, too many to be built in; ComfyUI's files hold it as a tensor, llama.cpp's as metadata,
//! and Hugging Face's and Wan's folders as a file beside the weights.

use crate::EngineError;
use nino_text::{ByteBpe, Pieces, Tokenizer, Unigram};
use nino_weights::{Array, TensorReader, Value};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A vocabulary of a file.
pub(super) type Vocabulary = Arc<dyn Tokenizer + Send + Sync>;

/// The tensor of bytes in ComfyUI's files.
const TENSOR: &str = "spiece_model";
/// Mistral's.
const TEKKEN: &str = "tekken_model";
const TEKKEN_FILES: [&str; 3] = [
    "tekken.json",
    "tokenizer/tekken.json",
    "../tokenizer/tekken.json",
];
/// The file beside the weights, or one folder up.
const FILES: [&str; 4] = [
    "spiece.model",
    "tokenizer/spiece.model",
    "google/umt5-xxl/spiece.model",
    "../tokenizer/spiece.model",
];
/// Bytes of a vocabulary file, at most.
const MAX_BYTES: usize = 64 << 20;

/// The vocabulary of an encoder's file; `None` where there is none.
pub(super) fn read(reader: &TensorReader) -> Result<Option<Vocabulary>, EngineError> {
    let found = sentencepiece(reader)?;
    Ok(found.map(|unigram| Arc::new(unigram) as Vocabulary))
}

/// The same of Mistral's.
pub(super) fn read_tekken(reader: &TensorReader) -> Result<Option<Vocabulary>, EngineError> {
    let found = if let Some(json) = carried(reader, TEKKEN)? {
        Some(ByteBpe::from_tekken(&json)?)
    } else if let Some((texts, kinds)) = texts(reader) {
        Some(ByteBpe::from_ggml(texts, kinds)?)
    } else if let Some(path) = beside(reader, &TEKKEN_FILES) {
        let json = nino_files::read_small(&path, "vocabulary", MAX_BYTES as u64)?;
        Some(ByteBpe::from_tekken(&json)?)
    } else {
        None
    };
    Ok(found.map(|bpe| Arc::new(bpe) as Vocabulary))
}

/// The bytes of a tensor that holds a vocabulary.
fn carried(reader: &TensorReader, name: &str) -> Result<Option<Vec<u8>>, EngineError> {
    let carried = reader.index().entries().iter().find(|e| {
        let own = e.name.strip_suffix(name);
        own.is_some_and(|head| head.is_empty() || head.ends_with('.'))
    });
    let Some(entry) = carried.filter(|e| e.n_bytes() as usize <= MAX_BYTES) else {
        return Ok(None);
    };
    let mut bytes = vec![0; entry.n_bytes() as usize];
    reader.read(entry, &mut bytes)?;
    Ok(Some(bytes))
}

/// The first of these files beside the weights.
fn beside(reader: &TensorReader, names: &[&str]) -> Option<PathBuf> {
    let folder = reader.index().files.first()?.parent()?;
    let mut paths = names.iter().map(|name| folder.join(name));
    paths.find(|path| path.is_file())
}

fn sentencepiece(reader: &TensorReader) -> Result<Option<Unigram>, EngineError> {
    if let Some(bytes) = carried(reader, TENSOR)? {
        return Ok(Some(Unigram::from_sentencepiece(&bytes)?));
    }
    if let Some(pieces) = of_metadata(reader) {
        return Ok(Some(Unigram::new(pieces)?));
    }
    match beside(reader, &FILES) {
        Some(path) => of_file(&path).map(Some),
        None => Ok(None),
    }
}

fn of_file(path: &Path) -> Result<Unigram, EngineError> {
    let bytes = nino_files::read_small(path, "vocabulary", MAX_BYTES as u64)?;
    Ok(Unigram::from_sentencepiece(&bytes)?)
}

/// A list in llama.cpp's metadata.
fn array<'a>(reader: &'a TensorReader, key: &str) -> Option<&'a Array> {
    match reader
        .index()
        .metadata
        .get(&format!("tokenizer.ggml.{key}"))
    {
        Some(Value::Array(array)) => Some(array),
        _ => None,
    }
}

/// Texts and kinds of pieces in llama.cpp's metadata.
fn texts(reader: &TensorReader) -> Option<(&[String], &[i32])> {
    let Array::Str(texts) = array(reader, "tokens")? else {
        return None;
    };
    let kinds = match array(reader, "token_type") {
        Some(Array::I32(kinds)) => &kinds[..],
        _ => &[],
    };
    Some((texts, kinds))
}

/// A vocabulary with scores in llama.cpp's metadata.
fn of_metadata(reader: &TensorReader) -> Option<Pieces<'_>> {
    let (texts, kinds) = texts(reader)?;
    let Array::F32(scores) = array(reader, "scores")? else {
        return None;
    };
    let charsmap = match array(reader, "precompiled_charsmap") {
        Some(Array::U8(bytes)) => &bytes[..],
        _ => &[],
    };
    let of_kind = |wanted: &[i32]| -> Vec<u32> {
        let ids = kinds
            .iter()
            .zip(0..)
            .filter(|(kind, _)| wanted.contains(kind));
        ids.map(|(_, id)| id).collect()
    };
    let bytes = of_kind(&[6]);
    Some(Pieces {
        pieces: texts.iter().cloned().zip(scores.iter().copied()).collect(),
        special: of_kind(&[4]),
        unmatched: of_kind(&[2, 3, 5, 6]),
        bytes: if bytes.len() == 256 {
            bytes
        } else {
            Vec::new()
        },
        unknown: of_kind(&[2]).first().copied().unwrap_or(2),
        charsmap,
    })
}

#[cfg(test)]
mod tests;
