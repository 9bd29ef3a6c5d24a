//! A model whose tensors are in memory already: what another program loaded, or made.

use std::path::PathBuf;
use std::sync::Arc;

use nino_dtype::DType;

use crate::reader::Bytes;
use crate::{Entry, Error, Format, Index, Result, Span, TensorReader, scaled};

/// A tensor with its bytes, which stay where they are.
#[derive(Clone)]
pub struct MemoryTensor {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<usize>,
    /// The values in row-major order, in the encoding of `dtype`.
    pub bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
}

/// A reader of tensors in memory; `model` stands for the file in messages. An error when a tensor
/// has other bytes than its type and shape ask for.
pub fn from_memory(model: &str, tensors: Vec<MemoryTensor>) -> Result<TensorReader> {
    let (mut entries, mut sources) = (Vec::new(), Vec::new());
    for (file, tensor) in tensors.into_iter().enumerate() {
        let MemoryTensor {
            name,
            dtype,
            shape,
            bytes,
        } = tensor;
        let found = (*bytes).as_ref().len() as u64;
        let span = Span {
            file,
            offset: 0,
            len: found,
        };
        let entry = Entry::plain(name, dtype, shape, span);
        if entry.n_bytes() != found {
            return Err(Error::Buffer {
                tensor: entry.name.clone(),
                unit: "bytes",
                expected: entry.n_bytes(),
                found,
            });
        }
        entries.push(entry);
        sources.push(Bytes::Memory(bytes));
    }
    let files = vec![PathBuf::from(model); sources.len()];
    let index = Index::new(Format::Safetensors, files, entries);
    scaled::link(TensorReader::over(index, sources))
}

#[cfg(test)]
mod tests {
    use super::{MemoryTensor, from_memory};
    use nino_dtype::DType;
    use std::sync::Arc;

    fn tensor(shape: &[usize], values: &[f32]) -> MemoryTensor {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        MemoryTensor {
            name: "x".to_owned(),
            dtype: DType::F32,
            shape: shape.to_vec(),
            bytes: Arc::new(bytes),
        }
    }

    #[test]
    fn tensors_in_memory_read_like_a_files() {
        let reader = from_memory("made up", vec![tensor(&[2, 2], &[1.0, 2.0, 3.0, 4.0])]).unwrap();
        let entry = reader.entry("x").unwrap();
        let mut values = [0.0; 4];
        reader.read_f32(entry, &mut values).unwrap();
        assert_eq!(
            values.map(f32::to_bits),
            [1f32, 2.0, 3.0, 4.0].map(f32::to_bits)
        );
        let mut row = [0; 8];
        reader.read_range(entry, 8, &mut row).unwrap();
        assert_eq!(row[..4], 3.0f32.to_le_bytes());
    }

    #[test]
    fn a_tensor_of_too_few_bytes_is_refused() {
        let error = from_memory("made up", vec![tensor(&[3, 2], &[0.0; 4])]).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("24") && text.contains("16"), "{text}");
    }
}
