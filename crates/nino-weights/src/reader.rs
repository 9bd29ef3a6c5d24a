//! Lazy reading of single tensors: positioned reads of exactly their bytes, decoded on request.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::packed::Packed;
use crate::{Entry, Error, FileSource, Index, Result, Source, Span, hadamard};

/// Bytes decoded at a time: fits a core's second-level cache beside the values it becomes.
const CHUNK: usize = 256 << 10;

/// An index and its open files, or its bytes in memory. Shared between threads as it is: reads
/// carry their own position.
#[derive(Debug)]
pub struct TensorReader {
    index: Index,
    sources: Vec<Bytes>,
}

/// Where the bytes of a span are.
pub(crate) enum Bytes {
    File(FileSource),
    Memory(Arc<dyn AsRef<[u8]> + Send + Sync>),
    /// Made from other tensors of the reader.
    Packed(Box<Packed>),
    /// A source of another reader, by its number there.
    Other(Arc<TensorReader>, usize),
}

impl Bytes {
    /// Reads from a place; an error if the file was written to since it was opened.
    fn read(&self, reader: &TensorReader, span: Span, buf: &mut [u8]) -> Result<()> {
        let path = reader.index.files.get(span.file);
        let path = path.map_or(Path::new(""), |path| path);
        match self {
            Bytes::Packed(packed) => packed.read(reader, span.offset, buf),
            Bytes::Other(other, file) => {
                let span = Span {
                    file: *file,
                    ..span
                };
                other.sources[*file].read(other, span, buf)
            }
            Bytes::File(file) => {
                let read = file.read_exact_at(buf, span.offset);
                // First, because a file that was cut short also fails to be read. Asked after every
                // read, so that weights that are streamed again and again are noticed as well.
                file.check_unchanged()?;
                read.map_err(Error::io(path, "read"))
            }
            Bytes::Memory(bytes) => {
                let bytes: &[u8] = (**bytes).as_ref();
                let read = bytes.read_exact_at(buf, span.offset);
                read.map_err(Error::io(path, "read"))
            }
        }
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Bytes::File(file) => file.fmt(f),
            Bytes::Memory(bytes) => write!(f, "{} bytes in memory", (**bytes).as_ref().len()),
            Bytes::Packed(packed) => packed.fmt(f),
            Bytes::Other(other, file) => other.sources[*file].fmt(f),
        }
    }
}

impl TensorReader {
    pub(crate) fn new(index: Index, sources: Vec<FileSource>) -> TensorReader {
        TensorReader::over(index, sources.into_iter().map(Bytes::File).collect())
    }

    pub(crate) fn over(index: Index, sources: Vec<Bytes>) -> TensorReader {
        TensorReader { index, sources }
    }

    /// A description without bytes: names and shapes can be asked for, reading is an error.
    pub fn without_files(index: Index) -> TensorReader {
        TensorReader::new(index, Vec::new())
    }

    /// Tensors of two models as those of one.
    pub fn joined(parts: [(&Arc<TensorReader>, Vec<Entry>); 2]) -> TensorReader {
        let format = parts[0].0.index.format;
        let (mut files, mut sources) = (Vec::new(), Vec::new());
        let (mut entries, mut side) = (Vec::new(), Vec::new());
        for (reader, own) in parts {
            let (first_source, first_side) = (sources.len(), side.len());
            let moved = |mut entry: Entry| {
                for span in &mut entry.spans {
                    span.file += first_source;
                }
                if let Some(scale) = &mut entry.scale {
                    scale.weight += first_side;
                    scale.input = scale.input.map(|i| i + first_side);
                }
                entry
            };
            entries.extend(own.into_iter().map(moved));
            side.extend(reader.index.side.iter().cloned().map(moved));
            files.extend_from_slice(&reader.index.files);
            let numbers = 0..reader.sources.len();
            sources.extend(numbers.map(|i| Bytes::Other(Arc::clone(reader), i)));
        }
        let mut index = Index::new(format, files, entries);
        index.side = side;
        TensorReader { index, sources }
    }

    pub fn index(&self) -> &Index {
        &self.index
    }

    /// The same files under another list of tensors. Spans of `packed` are numbered after the
    /// files.
    pub(crate) fn with_index(mut self, index: Index, packed: Vec<Packed>) -> TensorReader {
        let packed = packed.into_iter().map(|p| Bytes::Packed(Box::new(p)));
        self.sources.extend(packed);
        TensorReader { index, ..self }
    }

    /// The entry of that name, or the error that says so.
    pub fn entry(&self, name: &str) -> Result<&Entry> {
        self.index.get(name).ok_or_else(|| Error::NoTensor {
            path: self.index.files.first().cloned().unwrap_or_default(),
            tensor: name.to_owned(),
        })
    }

    /// The tensor's values in their stored encoding; `buf` has exactly [`Entry::n_bytes`] bytes.
    pub fn read(&self, entry: &Entry, buf: &mut [u8]) -> Result<()> {
        let expected = entry.n_bytes();
        if buf.len() as u64 != expected {
            let (tensor, found) = (entry.name.clone(), buf.len() as u64);
            return Err(Error::Buffer {
                tensor,
                unit: "bytes",
                expected,
                found,
            });
        }
        if entry.strides.is_some() {
            return self.gather(entry, buf);
        }
        self.read_range(entry, 0, buf)
    }

    /// Bytes `start..start + buf.len()` of a tensor stored contiguously.
    pub fn read_range(&self, entry: &Entry, mut start: u64, mut buf: &mut [u8]) -> Result<()> {
        for span in &entry.spans {
            if start >= span.len {
                start -= span.len;
                continue;
            }
            let n = (span.len - start).min(buf.len() as u64) as usize;
            let (now, later) = buf.split_at_mut(n);
            self.read_span(
                Span {
                    offset: span.offset + start,
                    len: n as u64,
                    ..*span
                },
                now,
            )?;
            (buf, start) = (later, 0);
            if buf.is_empty() {
                break;
            }
        }
        if buf.is_empty() {
            return Ok(());
        }
        let (expected, found) = (entry.n_bytes(), entry.spans.iter().map(|s| s.len).sum());
        Err(Error::Buffer {
            tensor: entry.name.clone(),
            unit: "stored bytes",
            expected,
            found,
        })
    }

    fn read_span(&self, span: Span, buf: &mut [u8]) -> Result<()> {
        self.sources[span.file].read(self, span, buf)
    }

    /// A strided tensor: reads what it spans and picks the values in row-major order.
    fn gather(&self, entry: &Entry, buf: &mut [u8]) -> Result<()> {
        let (Some(strides), [span]) = (&entry.strides, &entry.spans[..]) else {
            return self.read_range(entry, 0, buf);
        };
        let mut stored = vec![0; span.len as usize];
        self.read_span(*span, &mut stored)?;
        let size = entry.dtype.block_bytes();
        let mut at = vec![0usize; entry.shape.len()];
        for value in buf.chunks_exact_mut(size) {
            let from = at.iter().zip(strides).map(|(i, s)| i * s).sum::<usize>() * size;
            value.copy_from_slice(&stored[from..from + size]);
            for (i, &d) in at.iter_mut().zip(&entry.shape).rev() {
                *i += 1;
                if *i < d {
                    break;
                }
                *i = 0;
            }
        }
        Ok(())
    }

    /// The tensor's real values, scale applied; `out` has exactly [`Entry::n_values`] of them.
    pub fn read_f32(&self, entry: &Entry, out: &mut [f32]) -> Result<()> {
        let expected = entry.n_values() as u64;
        if out.len() as u64 != expected {
            let (tensor, found) = (entry.name.clone(), out.len() as u64);
            return Err(Error::Buffer {
                tensor,
                unit: "values",
                expected,
                found,
            });
        }
        if entry.strides.is_none() {
            return self.read_f32_at(entry, 0, out);
        }
        check_real(entry)?;
        let mut bytes = vec![0; entry.n_bytes() as usize];
        self.gather(entry, &mut bytes)?;
        decode(entry, &bytes, out)?;
        self.apply_scale(entry, 0, out)?;
        unrotate(entry, out);
        Ok(())
    }

    /// Values `start..start + out.len()`, whole blocks, of a tensor stored without strides.
    pub(crate) fn read_f32_at(&self, entry: &Entry, start: usize, out: &mut [f32]) -> Result<()> {
        check_real(entry)?;
        let group = entry.scale.and_then(|s| s.rotated).unwrap_or(1);
        if !start.is_multiple_of(group) || !out.len().is_multiple_of(group) {
            let whole = start / group * group..(start + out.len()).next_multiple_of(group);
            let mut values = vec![0.0; whole.len()];
            self.read_f32_at(entry, whole.start, &mut values)?;
            out.copy_from_slice(&values[start - whole.start..][..out.len()]);
            return Ok(());
        }
        let (block_len, block_bytes) = (entry.dtype.block_len(), entry.dtype.block_bytes());
        let blocks = (CHUNK / block_bytes).max(1);
        let mut bytes = vec![0; blocks.min(out.len() / block_len) * block_bytes];
        let mut offset = (start / block_len * block_bytes) as u64;
        for values in out.chunks_mut(blocks * block_len) {
            let chunk = &mut bytes[..values.len() / block_len * block_bytes];
            self.read_range(entry, offset, chunk)?;
            decode(entry, chunk, values)?;
            offset += chunk.len() as u64;
        }
        self.apply_scale(entry, start, out)?;
        unrotate(entry, out);
        Ok(())
    }

    /// The factors of a scaled tensor: one, or one per row.
    pub fn scales(&self, entry: &Entry) -> Result<Option<Vec<f32>>> {
        let Some(scale) = entry.scale else {
            return Ok(None);
        };
        let side = &self.index.side[scale.weight];
        let rows = entry.shape.first().copied().unwrap_or(1);
        let n = side.n_values();
        if n != 1 && n != rows {
            return Err(Error::ScaleShape {
                tensor: entry.name.clone(),
                shape: entry.shape.clone(),
                scale: side.name.clone(),
                found: n as u64,
            });
        }
        let mut values = vec![0.0; n];
        self.read_f32(side, &mut values)?;
        Ok(Some(values))
    }

    /// Multiplies values that begin `start` values into the tensor.
    fn apply_scale(&self, entry: &Entry, start: usize, out: &mut [f32]) -> Result<()> {
        let Some(scales) = self.scales(entry)? else {
            return Ok(());
        };
        if let [scale] = scales[..] {
            out.iter_mut().for_each(|v| *v *= scale);
            return Ok(());
        }
        let row = (entry.n_values() / scales.len().max(1)).max(1);
        for (i, value) in out.iter_mut().enumerate() {
            *value *= scales[(start + i) / row];
        }
        Ok(())
    }

    /// All bytes of a small tensor that is not weights, such as a marker.
    pub(crate) fn read_small(&self, entry: &Entry, most: u64) -> Result<Option<Vec<u8>>> {
        if entry.n_bytes() > most {
            return Ok(None);
        }
        let mut bytes = vec![0; entry.n_bytes() as usize];
        self.read(entry, &mut bytes)?;
        Ok(Some(bytes))
    }
}

/// Takes whole groups of values back to what they were before they were rotated.
fn unrotate(entry: &Entry, values: &mut [f32]) {
    if let Some(group) = entry.scale.and_then(|s| s.rotated) {
        hadamard::rotate(values, group);
    }
}

fn check_real(entry: &Entry) -> Result<()> {
    if entry.dtype.is_real() || entry.scale.is_some() {
        return Ok(());
    }
    let (tensor, dtype) = (entry.name.clone(), entry.dtype);
    Err(Error::NotReal { tensor, dtype })
}

fn decode(entry: &Entry, bytes: &[u8], out: &mut [f32]) -> Result<()> {
    nino_dtype::decode(entry.dtype, bytes, out).map_err(|reason| Error::Codec {
        tensor: entry.name.clone(),
        reason,
    })
}
