//! A vocabulary gives the same tokens wherever it is carried.

use super::{read, read_tekken};
use crate::tests::made;
use nino_dtype::DType;
use nino_text::Pieces;
use nino_weights::{Array, Format, Index, MemoryTensor, TensorReader, Value, from_memory};
use serde_json::Value as Json;
use std::path::Path;
use std::sync::Arc;

const TEXT: &str = "A red fox, 12 years old; snow at dawn (4k) [INST]";

fn golden(name: &str) -> Vec<u8> {
    std::fs::read(made::goldens().join(name)).unwrap()
}

/// A file that holds a vocabulary as a tensor of bytes.
fn in_tensor(name: &str, bytes: Vec<u8>) -> TensorReader {
    let tensor = MemoryTensor {
        name: name.to_owned(),
        dtype: DType::U8,
        shape: vec![bytes.len()],
        bytes: Arc::new(bytes),
    };
    from_memory("made up", vec![tensor]).unwrap()
}

/// A file that holds it as llama.cpp does.
fn in_metadata(lists: Vec<(&str, Array)>) -> TensorReader {
    let mut index = Index::new(Format::Gguf, Vec::new(), Vec::new());
    for (key, list) in lists {
        let key = format!("tokenizer.ggml.{key}");
        index.metadata.insert(key, Value::Array(list));
    }
    TensorReader::without_files(index)
}

/// A file beside which it lies.
fn beside(folder: &Path, name: &str, bytes: &[u8]) -> TensorReader {
    std::fs::write(folder.join(name), bytes).unwrap();
    let weights = vec![folder.join("model.safetensors")];
    TensorReader::without_files(Index::new(Format::Safetensors, weights, Vec::new()))
}

#[test]
fn sentencepieces_are_read_from_a_tensor_metadata_and_a_file_beside() {
    let file = golden("../text/small/spiece.model");
    let pieces = Pieces::from_sentencepiece(&file).unwrap();
    let mut kinds = vec![1; pieces.pieces.len()];
    pieces
        .unmatched
        .iter()
        .for_each(|&id| kinds[id as usize] = 3);
    pieces.bytes.iter().for_each(|&id| kinds[id as usize] = 6);
    pieces.special.iter().for_each(|&id| kinds[id as usize] = 4);
    kinds[pieces.unknown as usize] = 2;
    let (texts, scores) = pieces.pieces.iter().cloned().unzip();
    let lists = vec![
        ("tokens", Array::Str(texts)),
        ("scores", Array::F32(scores)),
        ("token_type", Array::I32(kinds)),
        ("precompiled_charsmap", Array::U8(pieces.charsmap.to_vec())),
    ];
    let folder = tempfile::tempdir().unwrap();
    let readers = [
        in_tensor("spiece_model", file.clone()),
        in_tensor("text_encoders.umt5xxl.spiece_model", file.clone()),
        in_metadata(lists),
        beside(folder.path(), "spiece.model", &file),
    ];
    let tokens = readers.map(|reader| read(&reader).unwrap().unwrap().ids(TEXT));
    assert!(tokens[0].len() > 8, "{tokens:?}");
    assert!(tokens.iter().all(|t| *t == tokens[0]), "{tokens:?}");
    assert!(read(&in_tensor("other", vec![1])).unwrap().is_none());
}

#[test]
fn mistrals_pieces_are_read_from_a_tensor_metadata_and_a_file_beside() {
    let file = golden("tiny_flux2.tekken.json");
    let json: Json = serde_json::from_slice(&file).unwrap();
    let list = |name: &str| json[name].as_array().unwrap().clone();
    let size = json["config"]["default_vocab_size"].as_u64().unwrap() as usize;
    let special = list("special_tokens");
    let special = special
        .iter()
        .map(|s| s["token_str"].as_str().unwrap().to_owned());
    let mut texts: Vec<String> = special.collect();
    let mut kinds = vec![3; texts.len()];
    let n = size - texts.len();
    texts.extend(
        list("vocab")[..n]
            .iter()
            .map(|piece| ggml(piece["token_bytes"].as_str().unwrap())),
    );
    kinds.resize(texts.len(), 1);
    let lists = vec![
        ("tokens", Array::Str(texts)),
        ("token_type", Array::I32(kinds)),
    ];
    let folder = tempfile::tempdir().unwrap();
    let readers = [
        in_tensor("tekken_model", file.clone()),
        in_metadata(lists),
        beside(folder.path(), "tekken.json", &file),
    ];
    let tokens = readers.map(|reader| read_tekken(&reader).unwrap().unwrap().ids(TEXT));
    assert!(tokens[0].len() > 8, "{tokens:?}");
    assert!(tokens.iter().all(|t| *t == tokens[0]), "{tokens:?}");
}

/// A piece, given in base64, as llama.cpp writes it: GPT-2's printable characters for bytes.
fn ggml(base64: &str) -> String {
    let value = |c: u8| match c {
        b'A'..=b'Z' => c - b'A',
        b'a'..=b'z' => c - b'a' + 26,
        b'0'..=b'9' => c - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let sixes: Vec<u8> = base64.bytes().filter(|&c| c != b'=').map(value).collect();
    let bytes = sixes.chunks(4).flat_map(|four| {
        let all = four
            .iter()
            .fold(0u32, |all, &six| all << 6 | u32::from(six));
        let all = all << (6 * (4 - four.len()));
        all.to_be_bytes()[1..four.len()].to_vec()
    });
    let printable = |b: u8| matches!(b, 33..=126 | 161..=172 | 174..=255);
    let shown = |b: u8| {
        if printable(b) {
            return b as char;
        }
        let before = (0..b).filter(|&b| !printable(b)).count() as u32;
        char::from_u32(256 + before).unwrap()
    };
    bytes.map(shown).collect()
}
