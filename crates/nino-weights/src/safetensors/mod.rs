//! safetensors: an 8-byte length, a JSON header, then the tensors' bytes without gaps.
//! Format: <https://github.com/huggingface/safetensors#format>.

mod header;
mod write;

use nino_dtype::DType;

pub use header::{Parsed, parse};
pub use write::{NewTensor, Writer};

/// What the reference implementation accepts; a 24 GB Flux file has 100 KB.
pub const MAX_HEADER: u64 = 100_000_000;

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("cannot read {len} bytes at offset {offset}: {reason}")]
    Read {
        offset: u64,
        len: u64,
        reason: std::io::Error,
    },
    #[error("file of {found} bytes is shorter than the 8 bytes of a header length")]
    NoHeader { found: u64 },
    #[error("header length at offset 0 says {found} bytes, at most {most} are possible here")]
    HeaderLength { found: u64, most: u64 },
    #[error("header at offset 8 is not UTF-8 from offset {offset}")]
    Utf8 { offset: u64 },
    #[error("header at offset 8: {reason}")]
    Json { reason: serde_json::Error },
    #[error("tensor {tensor:?} has type {dtype:?}, which this build cannot read")]
    DType { tensor: String, dtype: String },
    #[error("tensor {tensor:?} of shape {shape:?} has more values than fit in memory")]
    Shape { tensor: String, shape: Vec<u64> },
    #[error("tensor {tensor:?} at offset {begin}..{end}: its type and shape need {expected} bytes")]
    Length {
        tensor: String,
        begin: u64,
        end: u64,
        expected: u64,
    },
    #[error("tensor {tensor:?} starts at offset {found} of the data, {overlap} {previous:?} which ends at {expected}",
        overlap = if found < expected { "overlapping" } else { "leaving a hole after" })]
    Gap {
        tensor: String,
        previous: String,
        expected: u64,
        found: u64,
    },
    #[error("tensors end at byte {expected} of the file, which has {found}")]
    FileLength { expected: u64, found: u64 },
}

const DTYPES: [(&str, DType); 16] = [
    ("F64", DType::F64),
    ("F32", DType::F32),
    ("F16", DType::F16),
    ("BF16", DType::BF16),
    ("F8_E4M3", DType::F8E4M3),
    ("F8_E5M2", DType::F8E5M2),
    ("I64", DType::I64),
    ("I32", DType::I32),
    ("I16", DType::I16),
    ("I8", DType::I8),
    ("U64", DType::U64),
    ("U32", DType::U32),
    ("U16", DType::U16),
    ("U8", DType::U8),
    ("BOOL", DType::Bool),
    // An exponent, as factors of mxfp8 are stored; last, because bytes are written as U8.
    ("F8_E8M0", DType::U8),
];

fn dtype_from_name(name: &str) -> Option<DType> {
    DTYPES.iter().find(|(n, _)| *n == name).map(|&(_, d)| d)
}

/// The name this format gives a type; `None` for block types, which it cannot hold.
pub fn dtype_name(dtype: DType) -> Option<&'static str> {
    DTYPES.iter().find(|(_, d)| *d == dtype).map(|&(n, _)| n)
}

#[cfg(test)]
mod tests;
