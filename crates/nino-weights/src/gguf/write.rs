//! The writer, version 3: header first, then tensors in order, each padded to the alignment.

use std::io::{self, Write};
use std::path::Path;

use nino_files::AtomicFile;

use super::{DEFAULT_ALIGNMENT, MAGIC, dtype_id};
use crate::safetensors::NewTensor;
use crate::{Array, Error, Metadata, Result, Value};

/// Streams tensors into a file that appears when [`Writer::finish`] succeeds.
pub struct Writer {
    file: AtomicFile,
    /// Bytes of each tensor still to come, last one first.
    left: Vec<u64>,
}

impl Writer {
    /// Every tensor has at most four dimensions, rows of whole blocks, and a type that
    /// [`dtype_id`] knows. `general.alignment` must not be among `metadata`.
    pub fn create(path: &Path, tensors: &[NewTensor], metadata: &Metadata) -> Result<Writer> {
        let mut header = Vec::new();
        header.extend_from_slice(&MAGIC);
        header.extend_from_slice(&3u32.to_le_bytes());
        header.extend_from_slice(&(tensors.len() as u64).to_le_bytes());
        header.extend_from_slice(&(metadata.len() as u64).to_le_bytes());
        for (key, value) in metadata {
            put_str(&mut header, key);
            put_value(&mut header, value);
        }
        let mut offset = 0u64;
        let mut left = Vec::with_capacity(tensors.len());
        for t in tensors {
            let refuse = || Error::Unholdable {
                path: path.to_owned(),
                tensor: t.name.clone(),
                dtype: t.dtype,
            };
            let id = dtype_id(t.dtype).ok_or_else(refuse)?;
            let bytes = t
                .dtype
                .bytes_for(t.shape.iter().product())
                .ok_or_else(refuse)? as u64;
            put_str(&mut header, &t.name);
            header.extend_from_slice(&(t.shape.len() as u32).to_le_bytes());
            for &n in t.shape.iter().rev() {
                header.extend_from_slice(&(n as u64).to_le_bytes());
            }
            header.extend_from_slice(&id.to_le_bytes());
            header.extend_from_slice(&offset.to_le_bytes());
            offset = (offset + bytes).next_multiple_of(DEFAULT_ALIGNMENT);
            left.push(bytes);
        }
        left.reverse();
        header.resize(header.len().next_multiple_of(DEFAULT_ALIGNMENT as usize), 0);
        let mut file = AtomicFile::create(path)?;
        file.write_all(&header).map_err(Error::io(path, "write"))?;
        Ok(Writer { file, left })
    }

    /// The next bytes of the current tensor; its last ones are padded.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let path = self.file.target().to_owned();
        self.put(bytes).map_err(Error::io(&path, "write"))
    }

    fn put(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let Some(left) = self.left.last_mut() {
            let n = bytes.len().min(*left as usize);
            self.file.write_all(&bytes[..n])?;
            bytes = &bytes[n..];
            *left -= n as u64;
            if *left > 0 {
                break;
            }
            self.left.pop();
            let pad = self.file_pad()?;
            self.file
                .write_all(&[0; DEFAULT_ALIGNMENT as usize][..pad])?;
            if bytes.is_empty() {
                break;
            }
        }
        assert!(bytes.is_empty(), "caller writes what it named");
        Ok(())
    }

    fn file_pad(&mut self) -> io::Result<usize> {
        let pos = io::Seek::stream_position(&mut self.file)?;
        Ok((pos.next_multiple_of(DEFAULT_ALIGNMENT) - pos) as usize)
    }

    pub fn finish(mut self) -> Result<()> {
        // Tensors without values have no bytes to be written for them.
        while self.left.last() == Some(&0) {
            self.left.pop();
        }
        assert!(self.left.is_empty(), "caller writes what it named");
        Ok(self.file.commit_to_disk()?)
    }
}

fn put_str(out: &mut Vec<u8>, s: &str) {
    out.extend_from_slice(&(s.len() as u64).to_le_bytes());
    out.extend_from_slice(s.as_bytes());
}

fn put_value(out: &mut Vec<u8>, value: &Value) {
    macro_rules! put {
        ($id:literal, $v:expr) => {{
            out.extend_from_slice(&u32::to_le_bytes($id));
            out.extend_from_slice(&$v.to_le_bytes());
        }};
    }
    match value {
        Value::U8(v) => put!(0, v),
        Value::I8(v) => put!(1, v),
        Value::U16(v) => put!(2, v),
        Value::I16(v) => put!(3, v),
        Value::U32(v) => put!(4, v),
        Value::I32(v) => put!(5, v),
        Value::F32(v) => put!(6, v),
        Value::Bool(v) => put!(7, u8::from(*v)),
        Value::Str(s) => {
            out.extend_from_slice(&8u32.to_le_bytes());
            put_str(out, s);
        }
        Value::Array(a) => {
            out.extend_from_slice(&9u32.to_le_bytes());
            put_array(out, a);
        }
        Value::U64(v) => put!(10, v),
        Value::I64(v) => put!(11, v),
        Value::F64(v) => put!(12, v),
    }
}

fn put_array(out: &mut Vec<u8>, array: &Array) {
    let mut head = |id: u32| {
        out.extend_from_slice(&id.to_le_bytes());
        out.extend_from_slice(&(array.len() as u64).to_le_bytes());
    };
    macro_rules! put {
        ($id:literal, $v:expr) => {{
            head($id);
            $v.iter()
                .for_each(|x| out.extend_from_slice(&x.to_le_bytes()));
        }};
    }
    match array {
        Array::U8(v) => put!(0, v),
        Array::I8(v) => put!(1, v),
        Array::U16(v) => put!(2, v),
        Array::I16(v) => put!(3, v),
        Array::U32(v) => put!(4, v),
        Array::I32(v) => put!(5, v),
        Array::F32(v) => put!(6, v),
        Array::Bool(v) => {
            head(7);
            out.extend(v.iter().map(|&b| u8::from(b)));
        }
        Array::Str(v) => {
            head(8);
            v.iter().for_each(|s| put_str(out, s));
        }
        Array::Nested(v) => {
            head(9);
            v.iter().for_each(|a| put_array(out, a));
        }
        Array::U64(v) => put!(10, v),
        Array::I64(v) => put!(11, v),
        Array::F64(v) => put!(12, v),
    }
}
