//! What `nino inspect` shows of a file: format, model, encodings, and whether the file's name tells
//! the truth about them.

use std::collections::BTreeMap;

use nino_dtype::DType;
use serde::Serialize;

use crate::Index;

/// Tensors of one encoding.
#[derive(Clone, Debug, Serialize, PartialEq, Eq)]
pub struct EncodingShare {
    pub encoding: String,
    pub tensors: u64,
    pub params: u64,
    pub bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    pub format: String,
    pub files: Vec<String>,
    pub file_bytes: u64,
    pub n_tensors: u64,
    pub params: u64,
    /// Most bytes first; `scaled` stands for values with factors beside them.
    pub encodings: Vec<EncodingShare>,
    /// The encoding that most parameters of matrices have.
    pub quantization: Option<String>,
    /// Set when the file's name claims another encoding.
    pub note: Option<String>,
}

pub fn summarize(index: &Index) -> Summary {
    let mut by_encoding: BTreeMap<String, EncodingShare> = BTreeMap::new();
    let mut matrices: BTreeMap<DType, u64> = BTreeMap::new();
    for entry in index.entries() {
        let encoding = entry.encoding();
        let share = by_encoding
            .entry(encoding.clone())
            .or_insert_with(|| EncodingShare {
                encoding,
                tensors: 0,
                params: 0,
                bytes: 0,
            });
        share.tensors += 1;
        share.params += entry.n_values() as u64;
        share.bytes += entry.n_bytes();
        if entry.shape.len() >= 2 {
            *matrices.entry(entry.dtype).or_default() += entry.n_values() as u64;
        }
    }
    let mut encodings: Vec<EncodingShare> = by_encoding.into_values().collect();
    encodings.sort_by_key(|e| std::cmp::Reverse(e.bytes));
    let main = matrices.into_iter().max_by_key(|(_, n)| *n).map(|(d, _)| d);
    let name = index
        .files
        .first()
        .and_then(|f| f.file_name())
        .unwrap_or_default();
    Summary {
        format: index.format.to_string(),
        files: index
            .files
            .iter()
            .map(|f| f.display().to_string())
            .collect(),
        file_bytes: crate::convert::total_size(&index.files),
        n_tensors: index.entries().len() as u64,
        params: index.n_params(),
        encodings,
        quantization: main.map(|d| d.to_string()),
        note: main.and_then(|d| false_claim(&name.to_string_lossy(), d)),
    }
}

/// Words in file names and the encodings they may stand for; longer words first where they overlap.
const CLAIMS: &[(&str, &[DType])] = &[
    ("fp8_e5m2", &[DType::F8E5M2]),
    ("fp8", &[DType::F8E4M3, DType::F8E5M2]),
    ("bf16", &[DType::BF16]),
    ("fp16", &[DType::F16]),
    ("fp32", &[DType::F32]),
    ("q8_0", &[DType::Q8_0]),
    ("q6_k", &[DType::Q6_K]),
    ("q5_k", &[DType::Q5_K]),
    ("q4_k", &[DType::Q4_K]),
    ("q3_k", &[DType::Q3_K]),
    ("q2_k", &[DType::Q2_K]),
    ("q5_1", &[DType::Q5_1]),
    ("q5_0", &[DType::Q5_0]),
    ("q4_1", &[DType::Q4_1]),
    ("q4_0", &[DType::Q4_0]),
    ("iq4_nl", &[DType::IQ4_NL]),
    ("iq4_xs", &[DType::IQ4_XS]),
    ("f16", &[DType::F16]),
    ("f32", &[DType::F32]),
    ("int8", &[DType::I8]),
    ("nf4", &[DType::NF4]),
    ("nvfp4", &[DType::NVFP4]),
    ("mxfp8", &[DType::MXFP8]),
];

fn false_claim(file: &str, main: DType) -> Option<String> {
    let lower = file.to_lowercase();
    let claims = CLAIMS.iter().filter(|(word, _)| has_word(&lower, word));
    let claims: Vec<_> = claims.collect();
    let (word, _) = claims.first()?;
    if claims.iter().any(|(_, dtypes)| dtypes.contains(&main)) {
        return None;
    }
    Some(format!(
        "the file's name says {word}, but most of its parameters are {main}"
    ))
}

/// Whether `word` stands in `text` with no letter or digit before it and none that continues it.
fn has_word(text: &str, word: &str) -> bool {
    text.match_indices(word).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(|c| c.is_ascii_digit())
    })
}

#[cfg(test)]
mod tests {
    use super::{DType, false_claim};

    #[test]
    fn names_that_lie_are_noticed() {
        for (file, main, lies) in [
            ("flux1-dev-Q4_K_S.gguf", DType::Q4_K, false),
            ("flux1-dev-Q4_K_S.gguf", DType::Q8_0, true),
            ("flux1-dev-fp8.safetensors", DType::F8E4M3, false),
            ("flux1-dev-fp8.safetensors", DType::BF16, true),
            (
                "umt5_xxl_fp8_e4m3fn_scaled.safetensors",
                DType::F8E4M3,
                false,
            ),
            ("model.fp16.safetensors", DType::F16, false),
            ("model_bf16.safetensors", DType::F16, true),
            ("v1-5-pruned.ckpt", DType::F32, false),
            ("model-iq4_nl.gguf", DType::IQ4_NL, false),
        ] {
            assert_eq!(false_claim(file, main).is_some(), lies, "{file} {main}");
        }
    }
}
