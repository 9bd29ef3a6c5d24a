//! The same numbers in files of several encodings.

use nino_dtype::DType;
use nino_weights::safetensors::{self, NewTensor};
use nino_weights::{Metadata, gguf};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) shape: Vec<usize>,
    pub(crate) values: Vec<f32>,
}

impl Tensor {
    pub(crate) fn is_matrix(&self) -> bool {
        self.shape.len() == 2
    }

    fn is_table(&self) -> bool {
        self.name.ends_with("embed_tokens.weight")
    }

    pub(crate) fn stored(&self, name: &str, dtype: DType) -> NewTensor {
        NewTensor {
            name: name.to_owned(),
            dtype,
            shape: self.shape.clone(),
        }
    }
}

/// All tensors of a file.
pub(crate) fn tensors(path: &Path) -> Vec<Tensor> {
    let reader = nino_weights::open(path).unwrap();
    let tensor = |entry: &nino_weights::Entry| {
        let mut values = vec![0.0; entry.n_values()];
        reader.read_f32(entry, &mut values).unwrap();
        Tensor {
            name: entry.name.clone(),
            shape: entry.shape.clone(),
            values,
        }
    };
    reader.index().entries().iter().map(tensor).collect()
}

pub(crate) fn encoded(dtype: DType, values: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; dtype.bytes_for(values.len()).unwrap()];
    nino_dtype::encode(dtype, values, &mut bytes).unwrap();
    bytes
}

/// Bytes, and the numbers that they stand for.
pub(crate) fn rounded(dtype: DType, values: &[f32]) -> (Vec<u8>, Vec<f32>) {
    let bytes = encoded(dtype, values);
    let mut back = vec![0.0; values.len()];
    nino_dtype::decode(dtype, &bytes, &mut back).unwrap();
    (bytes, back)
}

pub(crate) fn write(path: PathBuf, tensors: &[(NewTensor, Vec<u8>)]) -> PathBuf {
    let list: Vec<NewTensor> = tensors.iter().map(|(t, _)| t.clone()).collect();
    let mut writer = safetensors::Writer::create(&path, &list, &BTreeMap::new()).unwrap();
    tensors.iter().for_each(|(_, b)| writer.write(b).unwrap());
    writer.finish().unwrap();
    path
}

/// The numbers themselves.
pub(crate) fn plain(path: PathBuf, tensors: &[Tensor], values: &[Vec<f32>]) -> PathBuf {
    let all = tensors.iter().zip(values);
    let all = all.map(|(t, v)| (t.stored(&t.name, DType::F32), encoded(DType::F32, v)));
    write(path, &all.collect::<Vec<_>>())
}

/// A GGUF file with matrices in blocks of 8 bits and all else in f32, and what they stand for.
pub(crate) fn in_blocks(
    path: PathBuf,
    tensors: &[Tensor],
    name: impl Fn(&str) -> String,
) -> (PathBuf, Vec<Vec<f32>>) {
    let dtype = |t: &Tensor| {
        if t.is_matrix() {
            DType::Q8_0
        } else {
            DType::F32
        }
    };
    let list: Vec<NewTensor> = tensors
        .iter()
        .map(|t| t.stored(&name(&t.name), dtype(t)))
        .collect();
    let mut writer = gguf::Writer::create(&path, &list, &Metadata::default()).unwrap();
    let mut values = Vec::new();
    for tensor in tensors {
        let (bytes, back) = rounded(dtype(tensor), &tensor.values);
        writer.write(&bytes).unwrap();
        values.push(back);
    }
    writer.finish().unwrap();
    (path, values)
}

/// ComfyUI's files: matrices of layers divided by a factor, one for all rows (fp8) or one for each
/// (int8).
pub(crate) fn scaled(path: PathBuf, tensors: &[Tensor], dtype: DType) -> (PathBuf, Vec<Vec<f32>>) {
    let (format, most) = match dtype {
        DType::I8 => (r#"{"format": "int8_tensorwise"}"#, 127.0),
        _ => (r#"{"format": "float8_e4m3fn"}"#, 448.0),
    };
    let (mut all, mut values) = (Vec::new(), Vec::new());
    for tensor in tensors {
        if !tensor.is_matrix() || tensor.is_table() {
            let bytes = encoded(DType::F16, &tensor.values);
            all.push((tensor.stored(&tensor.name, DType::F16), bytes));
            values.push(tensor.values.clone());
            continue;
        }
        let row = match dtype {
            DType::I8 => tensor.shape[1],
            _ => tensor.values.len(),
        };
        let (mut bytes, mut factors, mut back) = (Vec::new(), Vec::new(), Vec::new());
        for part in tensor.values.chunks_exact(row) {
            let factor = part.iter().fold(0f32, |m, v| m.max(v.abs())) / most;
            let small: Vec<f32> = part.iter().map(|v| v / factor).collect();
            let (coded, near) = match dtype {
                DType::I8 => {
                    let near: Vec<f32> = small.iter().map(|v| v.round()).collect();
                    let coded = near.iter().map(|&v| (v as i8).cast_unsigned());
                    (coded.collect(), near)
                }
                _ => rounded(dtype, &small),
            };
            bytes.extend(coded);
            back.extend(near.iter().map(|v| v * factor));
            factors.push(factor);
        }
        let layer = tensor.name.strip_suffix("weight").unwrap();
        let beside = |name: &str, dtype, n| NewTensor {
            name: format!("{layer}{name}"),
            dtype,
            shape: n,
        };
        let n = match dtype {
            DType::I8 => vec![factors.len(), 1],
            _ => Vec::new(),
        };
        all.push((tensor.stored(&tensor.name, dtype), bytes));
        let factors = encoded(DType::F32, &factors);
        all.push((beside("weight_scale", DType::F32, n), factors));
        let marker = beside("comfy_quant", DType::U8, vec![format.len()]);
        all.push((marker, format.as_bytes().to_vec()));
        values.push(back);
    }
    (write(path, &all), values)
}

/// The mean square of the difference over that of the values.
pub(crate) fn nmse(found: &[f32], wanted: &[f32]) -> f64 {
    assert_eq!(found.len(), wanted.len());
    let square = |v: f32| f64::from(v) * f64::from(v);
    let pairs = found.iter().zip(wanted);
    let error: f64 = pairs.map(|(f, w)| square(f - w)).sum();
    error / wanted.iter().map(|&w| square(w)).sum::<f64>()
}
