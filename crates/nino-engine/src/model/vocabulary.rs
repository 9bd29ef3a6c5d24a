//! The vocabulary that a text encoder's file carries. UMT5's has 256,384 pieces, too many to be
//! built in; ComfyUI's files hold it as a tensor, llama.cpp's as metadata, and Hugging Face's and
//! Wan's folders as a file beside the weights.

use crate::EngineError;
use nino_text::{Pieces, Unigram};
use nino_weights::{Array, TensorReader, Value};
use std::path::Path;

/// The tensor of bytes in ComfyUI's files.
const TENSOR: &str = "spiece_model";
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
pub(super) fn read(reader: &TensorReader) -> Result<Option<Unigram>, EngineError> {
    let index = reader.index();
    let carried = index.entries().iter().find(|e| {
        let own = e.name.strip_suffix(TENSOR);
        own.is_some_and(|head| head.is_empty() || head.ends_with('.'))
    });
    if let Some(entry) = carried.filter(|e| e.n_bytes() as usize <= MAX_BYTES) {
        let mut bytes = vec![0; entry.n_bytes() as usize];
        reader.read(entry, &mut bytes)?;
        return Ok(Some(Unigram::from_sentencepiece(&bytes)?));
    }
    if let Some(pieces) = of_metadata(reader) {
        return Ok(Some(Unigram::new(pieces)?));
    }
    let folder = index.files.first().and_then(|path| path.parent());
    let beside = folder
        .into_iter()
        .flat_map(|f| FILES.map(|name| f.join(name)));
    match beside.into_iter().find(|path| path.is_file()) {
        Some(path) => of_file(&path).map(Some),
        None => Ok(None),
    }
}

fn of_file(path: &Path) -> Result<Unigram, EngineError> {
    let bytes = nino_files::read_small(path, "vocabulary", MAX_BYTES as u64)?;
    Ok(Unigram::from_sentencepiece(&bytes)?)
}

/// A vocabulary in llama.cpp's metadata.
fn of_metadata(reader: &TensorReader) -> Option<Pieces<'_>> {
    let metadata = &reader.index().metadata;
    let array = |key: &str| match metadata.get(&format!("tokenizer.ggml.{key}")) {
        Some(Value::Array(array)) => Some(array),
        _ => None,
    };
    let (Array::Str(texts), Array::F32(scores)) = (array("tokens")?, array("scores")?) else {
        return None;
    };
    let kinds = match array("token_type") {
        Some(Array::I32(kinds)) => &kinds[..],
        _ => &[],
    };
    let charsmap = match array("precompiled_charsmap") {
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
