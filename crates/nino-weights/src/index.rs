//! The index of a model: every tensor's name, encoding, shape and bytes, known from headers alone.

use std::collections::HashMap;
use std::fmt;
use std::path::PathBuf;

use nino_dtype::DType;

use crate::Metadata;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Safetensors,
    Gguf,
    Torch,
    /// A diffusers folder: one sub-folder per part.
    Diffusers,
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Format::Safetensors => "safetensors",
            Format::Gguf => "GGUF",
            Format::Torch => "PyTorch",
            Format::Diffusers => "diffusers folder",
        })
    }
}

/// A run of bytes in one of the index's files, or, beyond them, of blocks that the reader makes
/// from several tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub file: usize,
    pub offset: u64,
    pub len: u64,
}

/// Weights that are stored divided by factors, as fp8 and int8 files have them: the stored values
/// times `weight` are the real ones. Positions in [`Index::side`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    pub weight: usize,
    pub input: Option<usize>,
    /// Every group of so many values of a row was multiplied by a Hadamard matrix
    /// ([`crate::hadamard`]) before it was stored.
    pub rotated: Option<usize>,
}

/// One tensor. Its values are the bytes of `spans` in order; when `strides` is given (in values,
/// one per dimension) they are gathered from that single span instead.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub spans: Vec<Span>,
    pub strides: Option<Vec<usize>>,
    pub scale: Option<Scale>,
    /// The encoding of the file, where no kernel decodes it and values become `dtype` as they are
    /// read: `fp4`, or `nvfp4` and `nf4` in rows that their blocks do not fill.
    pub recoded: Option<&'static str>,
}

/// All tensors of a model and what its headers say besides. A pure value: no file is held open.
#[derive(Clone, Debug)]
pub struct Index {
    pub format: Format,
    pub files: Vec<PathBuf>,
    pub metadata: Metadata,
    /// Scales and markers of files with scaled weights, taken out of `entries`.
    pub side: Vec<Entry>,
    entries: Vec<Entry>,
    by_name: HashMap<String, usize>,
}

impl Entry {
    /// A tensor stored as one run of bytes.
    pub fn plain(name: String, dtype: DType, shape: Vec<usize>, span: Span) -> Entry {
        Entry {
            name,
            dtype,
            shape,
            spans: vec![span],
            strides: None,
            scale: None,
            recoded: None,
        }
    }

    pub fn n_values(&self) -> usize {
        self.shape.iter().product()
    }

    /// Bytes of the tensor's values in its encoding, contiguous.
    pub fn n_bytes(&self) -> u64 {
        self.dtype.bytes_for(self.n_values()).unwrap_or(0) as u64
    }

    /// How values are stored, in words.
    pub fn encoding(&self) -> String {
        match (self.recoded, self.scale) {
            (Some(stored), _) => format!("{stored} as {}", self.dtype),
            (None, Some(_)) => format!("{} scaled", self.dtype),
            (None, None) => self.dtype.to_string(),
        }
    }

    /// Values in one row: the last dimension, or 1 for a scalar.
    pub fn row_len(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }
}

impl Index {
    pub fn new(format: Format, files: Vec<PathBuf>, entries: Vec<Entry>) -> Index {
        let by_name = entries
            .iter()
            .enumerate()
            .map(|(i, e)| (e.name.clone(), i))
            .collect();
        Index {
            format,
            files,
            metadata: Metadata::new(),
            side: Vec::new(),
            entries,
            by_name,
        }
    }

    /// Tensors in file order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.by_name.get(name).map(|&i| &self.entries[i])
    }

    pub fn contains(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    pub fn shape(&self, name: &str) -> Option<&[usize]> {
        self.get(name).map(|e| e.shape.as_slice())
    }

    pub fn n_params(&self) -> u64 {
        self.entries.iter().map(|e| e.n_values() as u64).sum()
    }

    pub fn n_bytes(&self) -> u64 {
        self.entries.iter().map(Entry::n_bytes).sum()
    }

    /// The same files with other entries, such as renamed or selected ones.
    #[must_use]
    pub fn with_entries(&self, entries: Vec<Entry>) -> Index {
        let mut index = Index::new(self.format, self.files.clone(), entries);
        index.metadata = self.metadata.clone();
        index.side.clone_from(&self.side);
        index
    }
}
