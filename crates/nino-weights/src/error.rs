//! The crate's error: which file, which tensor, where in the file, what was expected and found.

use std::io;
use std::path::{Path, PathBuf};

use nino_dtype::DType;
use nino_files::FileError;

use crate::{gguf, safetensors, sniff, torch};

pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Every message is whole: reasons are part of it, not sources that a chain would print again.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{}: cannot {action}: {reason}", path.display())]
    Io {
        path: PathBuf,
        action: &'static str,
        reason: io::Error,
    },
    #[error("{0}")]
    File(FileError),
    #[error("{}: not a valid safetensors file: {reason}", path.display())]
    Safetensors {
        path: PathBuf,
        reason: safetensors::Problem,
    },
    #[error("{}: not a valid GGUF file: {reason}", path.display())]
    Gguf {
        path: PathBuf,
        reason: gguf::Problem,
    },
    #[error("{}: not a readable PyTorch file: {reason}", path.display())]
    Torch {
        path: PathBuf,
        reason: torch::Problem,
    },
    #[error("{}: neither safetensors, GGUF nor PyTorch: {}", path.display(), sniff::sentence(start))]
    UnknownFormat {
        path: PathBuf,
        /// The first bytes of the file.
        start: Vec<u8>,
    },
    #[error("{}: no model files here (looked for {looked_for})", path.display())]
    EmptyFolder {
        path: PathBuf,
        looked_for: &'static str,
    },
    #[error(
        "{}: more than one model file, name one of them: {}", path.display(), candidates.join(", ")
    )]
    AmbiguousFolder {
        path: PathBuf,
        candidates: Vec<String>,
    },
    #[error("{}: not a valid shard index: {reason}", path.display())]
    ShardList {
        path: PathBuf,
        reason: serde_json::Error,
    },
    #[error("{}: shard {shard:?} is not a plain file name", path.display())]
    ShardPath { path: PathBuf, shard: String },
    #[error(
        "{}: shards and index disagree: missing {}; not listed {}",
        path.display(), some(missing), some(unlisted)
    )]
    ShardMismatch {
        path: PathBuf,
        missing: Vec<String>,
        unlisted: Vec<String>,
    },
    #[error("{}: is a part of a model, and {reason}", path.display())]
    Parts { path: PathBuf, reason: String },
    #[error("{}: tensor {tensor:?} is in more than one file", path.display())]
    DuplicateTensor { path: PathBuf, tensor: String },
    #[error("no tensor {tensor:?} in {}", path.display())]
    NoTensor { path: PathBuf, tensor: String },
    #[error("tensor {tensor:?}: buffer holds {found} {unit}, needs {expected}")]
    Buffer {
        tensor: String,
        unit: &'static str,
        expected: u64,
        found: u64,
    },
    #[error("tensor {tensor:?} has type {dtype}, which is not a type of real numbers")]
    NotReal { tensor: String, dtype: DType },
    #[error("tensor {tensor:?}: {reason}")]
    Codec {
        tensor: String,
        reason: nino_dtype::CodecError,
    },
    #[error(
        "tensor {tensor:?} of shape {shape:?}: scale {scale:?} holds {found} values, which is \
         neither one nor one per row"
    )]
    ScaleShape {
        tensor: String,
        shape: Vec<usize>,
        scale: String,
        found: u64,
    },
    #[error("tensor {tensor:?} is quantized as {format:?}, which this build cannot read")]
    QuantFormat { tensor: String, format: String },
    #[error(
        "tensor {tensor:?} is packed by SVDQuant (nunchaku) for its own CUDA kernels and cannot be \
         read: use a GGUF, fp8 or int8 file of the same model"
    )]
    SvdQuant { tensor: String },
    #[error("tensor {tensor:?} {reason}")]
    Names {
        tensor: String,
        reason: crate::names::Problem,
    },
    #[error("{}: {reason}", path.display())]
    Lora {
        path: PathBuf,
        reason: crate::lora::Problem,
    },
    #[error("{}: cannot convert: {reason}", path.display())]
    Convert {
        path: PathBuf,
        reason: crate::convert::Problem,
    },
    #[error("{}: the format cannot hold tensor {tensor:?} as {dtype}", path.display())]
    Unholdable {
        path: PathBuf,
        tensor: String,
        dtype: DType,
    },
}

impl Error {
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Error {
        let path = path.to_owned();
        move |reason| Error::Io {
            path,
            action,
            reason,
        }
    }
}

// Not `#[from]`: the message says all, and a source would say it twice in a chain.
impl From<FileError> for Error {
    fn from(error: FileError) -> Self {
        Error::File(error)
    }
}

/// The first few of a list, for messages that must not flood the terminal.
pub(crate) fn some(names: &[String]) -> String {
    const SHOWN: usize = 8;
    if names.is_empty() {
        return "none".to_owned();
    }
    let shown = names
        .iter()
        .take(SHOWN)
        .map(String::as_str)
        .collect::<Vec<_>>()
        .join(", ");
    match names.len().checked_sub(SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown} and {more} more"),
    }
}
