//! GGUF v2 and v3, little-endian. Format:
//! <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>.

mod cursor;
mod read;
mod write;

use nino_dtype::DType;

pub use read::{Parsed, parse};
pub use write::Writer;

pub const MAGIC: [u8; 4] = *b"GGUF";
pub const DEFAULT_ALIGNMENT: u64 = 32;

/// Metadata key prefix under which converters keep a shape that had to be flattened.
pub const ORIG_SHAPE: &str = "comfy.gguf.orig_shape.";

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("cannot read {len} bytes at offset {offset}: {reason}")]
    Read {
        offset: u64,
        len: u64,
        reason: std::io::Error,
    },
    #[error("{what} at offset {offset} needs {needed} bytes, the file ends after {left}")]
    Truncated {
        what: &'static str,
        offset: u64,
        needed: u64,
        left: u64,
    },
    #[error("starts with {found:02x?}, not \"GGUF\"")]
    Magic { found: [u8; 4] },
    #[error("version {found} at offset 4; versions 2 and 3 are readable")]
    Version { found: u32 },
    #[error("big-endian file; only little-endian ones are readable")]
    BigEndian,
    #[error("{what} at offset {offset} is not UTF-8")]
    Utf8 { what: &'static str, offset: u64 },
    #[error("{what} {name:?} at offset {offset} appears twice")]
    Duplicate {
        what: &'static str,
        name: String,
        offset: u64,
    },
    #[error("key {key:?} at offset {offset} has value type {found}, known are 0 to 12")]
    ValueType {
        key: String,
        offset: u64,
        found: u32,
    },
    #[error("key {key:?} at offset {offset} holds {found}, which is not a boolean")]
    Bool { key: String, offset: u64, found: u8 },
    #[error("key {key:?} at offset {offset} nests arrays deeper than {most}")]
    Depth {
        key: String,
        offset: u64,
        most: usize,
    },
    #[error("general.alignment is {found}, must be a power of two from 8 to 65536")]
    Alignment { found: String },
    #[error(
        "tensor {tensor:?} at offset {offset} has {found} dimensions, at most {most} are allowed"
    )]
    Dims {
        tensor: String,
        offset: u64,
        found: u32,
        most: u32,
    },
    #[error("tensor {tensor:?} at offset {offset} has type {found} ({}), which this build cannot read",
        type_name(*found))]
    DType {
        tensor: String,
        offset: u64,
        found: u32,
    },
    #[error("tensor {tensor:?} of shape {shape:?} is not whole {dtype} blocks or too large")]
    Shape {
        tensor: String,
        shape: Vec<u64>,
        dtype: DType,
    },
    #[error(
        "tensor {tensor:?}: original shape {kept:?} does not have the {expected} values stored"
    )]
    OrigShape {
        tensor: String,
        kept: Vec<usize>,
        expected: usize,
    },
    #[error("tensor {tensor:?} has data offset {found}, not a multiple of {alignment}")]
    Misaligned {
        tensor: String,
        found: u64,
        alignment: u64,
    },
    #[error("tensor {tensor:?} at offset {offset} needs {needed} bytes, the file has {size}")]
    OutOfFile {
        tensor: String,
        offset: u64,
        needed: u64,
        size: u64,
    },
    #[error("tensors {first:?} and {second:?} overlap at offset {offset}")]
    Overlap {
        first: String,
        second: String,
        offset: u64,
    },
}

const DTYPES: [(u32, DType); 20] = [
    (0, DType::F32),
    (1, DType::F16),
    (2, DType::Q4_0),
    (3, DType::Q4_1),
    (6, DType::Q5_0),
    (7, DType::Q5_1),
    (8, DType::Q8_0),
    (10, DType::Q2_K),
    (11, DType::Q3_K),
    (12, DType::Q4_K),
    (13, DType::Q5_K),
    (14, DType::Q6_K),
    (20, DType::IQ4_NL),
    (23, DType::IQ4_XS),
    (24, DType::I8),
    (25, DType::I16),
    (26, DType::I32),
    (27, DType::I64),
    (28, DType::F64),
    (30, DType::BF16),
];

/// ggml types that exist and are not readable here, for the message.
const OTHER_TYPES: [(u32, &str); 14] = [
    (9, "Q8_1"),
    (15, "Q8_K"),
    (16, "IQ2_XXS"),
    (17, "IQ2_XS"),
    (18, "IQ3_XXS"),
    (19, "IQ1_S"),
    (21, "IQ3_S"),
    (22, "IQ2_S"),
    (29, "IQ1_M"),
    (34, "TQ1_0"),
    (35, "TQ2_0"),
    (39, "MXFP4"),
    (40, "NVFP4"),
    (4, "Q4_2, removed"),
];

fn dtype_from_id(id: u32) -> Option<DType> {
    DTYPES.iter().find(|(i, _)| *i == id).map(|&(_, d)| d)
}

/// The number this format gives a type; `None` for types it cannot hold, such as fp8.
pub fn dtype_id(dtype: DType) -> Option<u32> {
    DTYPES.iter().find(|(_, d)| *d == dtype).map(|&(i, _)| i)
}

fn type_name(id: u32) -> &'static str {
    OTHER_TYPES
        .iter()
        .find(|(i, _)| *i == id)
        .map_or("unknown", |&(_, n)| n)
}

#[cfg(test)]
mod tests;
