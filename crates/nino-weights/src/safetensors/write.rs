//! The writer: sizes are known beforehand, so the header goes out first and bytes stream after it.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};

use nino_dtype::DType;
use nino_files::AtomicFile;
use serde_json::{Map, Value as Json, json};

use super::dtype_name;
use crate::{Error, Result};

/// A tensor about to be written, in the order its bytes will come.
#[derive(Clone, Debug)]
pub struct NewTensor {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<usize>,
}

/// Streams tensors into a file that appears when [`Writer::finish`] succeeds, or into anything else
/// that can be written to.
pub struct Writer<W = AtomicFile> {
    out: W,
    /// What errors call it.
    path: PathBuf,
    left: u64,
}

impl Writer {
    /// `dtype` of every tensor must be one the format can hold (see [`dtype_name`]).
    pub fn create(
        path: &Path,
        tensors: &[NewTensor],
        metadata: &BTreeMap<String, String>,
    ) -> Result<Writer> {
        let (header, left) = header(path, tensors, metadata)?;
        let out = AtomicFile::create(path)?;
        Writer::begin(out, path, &header, left)
    }

    pub fn finish(self) -> Result<()> {
        assert_eq!(self.left, 0, "caller writes what it named");
        Ok(self.out.commit_to_disk()?)
    }
}

impl<W: Write> Writer<W> {
    /// Writes to `out`, which errors call `name`. Nothing is finished: what is written is there.
    pub fn to(
        out: W,
        name: &Path,
        tensors: &[NewTensor],
        metadata: &BTreeMap<String, String>,
    ) -> Result<Writer<W>> {
        let (header, left) = header(name, tensors, metadata)?;
        Writer::begin(out, name, &header, left)
    }

    fn begin(mut out: W, path: &Path, header: &str, left: u64) -> Result<Writer<W>> {
        out.write_all(&(header.len() as u64).to_le_bytes())
            .and_then(|()| out.write_all(header.as_bytes()))
            .map_err(Error::io(path, "write"))?;
        let path = path.to_owned();
        Ok(Writer { out, path, left })
    }

    /// The next bytes of the data; tensors in order, each in as many calls as suits.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.left = self
            .left
            .checked_sub(bytes.len() as u64)
            .expect("caller writes what it named");
        self.out
            .write_all(bytes)
            .map_err(Error::io(&self.path, "write"))
    }
}

/// The header's text, and how many bytes of data come after it.
fn header(
    path: &Path,
    tensors: &[NewTensor],
    metadata: &BTreeMap<String, String>,
) -> Result<(String, u64)> {
    let mut header = Map::new();
    if !metadata.is_empty() {
        header.insert("__metadata__".to_owned(), json!(metadata));
    }
    let mut end = 0u64;
    for t in tensors {
        let begin = end;
        let n = t.shape.iter().product();
        end += t.dtype.bytes_for(n).unwrap_or(0) as u64;
        let dtype = dtype_name(t.dtype).ok_or_else(|| Error::Unholdable {
            path: path.to_owned(),
            tensor: t.name.clone(),
            dtype: t.dtype,
        })?;
        let info = json!({ "dtype": dtype, "shape": t.shape, "data_offsets": [begin, end] });
        if header.insert(t.name.clone(), info).is_some() {
            return Err(Error::DuplicateTensor {
                path: path.to_owned(),
                tensor: t.name.clone(),
            });
        }
    }
    let mut text = Json::Object(header).to_string();
    // Data starts on a multiple of 8, as the reference writer pads.
    text.push_str(&" ".repeat((8 - text.len() % 8) % 8));
    Ok((text, end))
}
