//! PyTorch `.pt`, `.pth`, `.ckpt` and `.bin` files: a zip of a pickle and raw storages, or the
//! legacy stream of pickles followed by them. The pickle is interpreted, never executed: see
//! [`pickle`].

mod legacy;
pub mod pickle;
mod state;
mod tensor;
mod zip;

use nino_dtype::DType;
pub use state::ALONE;

use crate::{Entry, Metadata, Source};

#[derive(Debug, thiserror::Error)]
pub enum Problem {
    #[error("cannot read {len} bytes at offset {offset}: {reason}")]
    Read {
        offset: u64,
        len: u64,
        reason: std::io::Error,
    },
    #[error("zip: {0}")]
    Zip(zip::Problem),
    #[error("pickle: {0}")]
    Pickle(pickle::Problem),
    #[error("legacy stream at offset {offset}: {what}")]
    Legacy { offset: u64, what: &'static str },
    #[error("big-endian file; only little-endian ones are readable")]
    BigEndian,
    #[error("holds {found}, neither a tensor nor a dictionary of tensors")]
    NoStateDict { found: String },
    #[error("dictionary nests deeper than {most} levels at {name:?}")]
    Depth { name: String, most: usize },
    #[error("dictionary {name:?} is reached twice")]
    Shared { name: String },
    #[error("names and values of the dictionary have more than {most} bytes at {name:?}")]
    Names { name: String, most: usize },
    #[error("tensor {tensor:?} appears twice")]
    Duplicate { tensor: String },
    #[error("tensor {tensor:?}: no storage {key:?} in the file")]
    NoStorage { tensor: String, key: String },
    #[error(
        "tensor {tensor:?} at offset {offset}: storage {key:?} has {found} bytes, expected \
         {expected}"
    )]
    StorageLength {
        tensor: String,
        key: String,
        offset: u64,
        expected: u64,
        found: u64,
    },
    #[error(
        "tensor {tensor:?} of shape {shape:?}, strides {strides:?}, start {start} reaches outside its \
         storage of {values} values"
    )]
    OutOfStorage {
        tensor: String,
        shape: Vec<usize>,
        strides: Vec<usize>,
        start: u64,
        values: u64,
    },
    #[error(
        "tensor {tensor:?} of shape {shape:?}, strides {strides:?} repeats stored values; expand it before saving"
    )]
    Expanded {
        tensor: String,
        shape: Vec<usize>,
        strides: Vec<usize>,
    },
    #[error("tensor {tensor:?} is not rebuilt the way torch.save writes it: {what}")]
    Rebuild { tensor: String, what: &'static str },
    #[error("tensor {tensor:?}: storage type {found:?} cannot be read")]
    StorageType { tensor: String, found: String },
}

// Not `#[from]`: the message says all, and a source would say it twice in a chain.
impl From<zip::Problem> for Problem {
    fn from(problem: zip::Problem) -> Self {
        Problem::Zip(problem)
    }
}

impl From<pickle::Problem> for Problem {
    fn from(problem: pickle::Problem) -> Self {
        Problem::Pickle(problem)
    }
}

#[derive(Debug)]
pub struct Parsed {
    pub entries: Vec<Entry>,
    pub metadata: Metadata,
}

/// Reads the pickle and places its tensors; `file` is the number the spans will carry.
pub fn parse<S: Source + ?Sized>(source: &S, file: usize) -> Result<Parsed, Problem> {
    let mut start = [0; 4];
    let n = source.size().min(4) as usize;
    read(source, &mut start[..n], 0)?;
    if start.starts_with(b"PK") {
        parse_zip(source, file)
    } else {
        legacy::parse(source, file)
    }
}

fn parse_zip<S: Source + ?Sized>(source: &S, file: usize) -> Result<Parsed, Problem> {
    let archive = zip::Archive::read(source)?;
    let (root, data) = archive
        .find_suffix("data.pkl")
        .ok_or(zip::Problem::NoPickle)?;
    if let Some(order) = archive.find(&format!("{root}byteorder"))
        && zip::Archive::bytes(source, order)? == b"big"
    {
        return Err(Problem::BigEndian);
    }
    let program = zip::Archive::bytes(source, data)?;
    let (heap, top, _) = pickle::run(&program)?;
    state::collect(&heap, top, |tensor, key, expected| {
        let member =
            archive
                .find(&format!("{root}data/{key}"))
                .ok_or_else(|| Problem::NoStorage {
                    tensor: tensor.to_owned(),
                    key: key.to_owned(),
                })?;
        let offset = zip::Archive::data_offset(source, member)?;
        if member.size < expected {
            return Err(Problem::StorageLength {
                tensor: tensor.to_owned(),
                key: key.to_owned(),
                offset,
                expected,
                found: member.size,
            });
        }
        Ok(crate::Span {
            file,
            offset,
            len: expected,
        })
    })
}

fn read<S: Source + ?Sized>(source: &S, buf: &mut [u8], offset: u64) -> Result<(), Problem> {
    let len = buf.len() as u64;
    source
        .read_exact_at(buf, offset)
        .map_err(|reason| Problem::Read {
            offset,
            len,
            reason,
        })
}

/// Type of a `torch.*Storage` class or a `torch.*` dtype, by its Python name.
fn dtype_from_name(name: &str) -> Option<DType> {
    Some(match name {
        "DoubleStorage" | "float64" | "double" => DType::F64,
        "FloatStorage" | "float32" | "float" => DType::F32,
        "HalfStorage" | "float16" | "half" => DType::F16,
        "BFloat16Storage" | "bfloat16" => DType::BF16,
        "LongStorage" | "int64" | "long" => DType::I64,
        "IntStorage" | "int32" | "int" => DType::I32,
        "ShortStorage" | "int16" | "short" => DType::I16,
        "CharStorage" | "int8" => DType::I8,
        "ByteStorage" | "uint8" => DType::U8,
        "BoolStorage" | "bool" => DType::Bool,
        "uint16" => DType::U16,
        "uint32" => DType::U32,
        "uint64" => DType::U64,
        "float8_e4m3fn" | "Float8_e4m3fnStorage" => DType::F8E4M3,
        "float8_e5m2" | "Float8_e5m2Storage" => DType::F8E5M2,
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
