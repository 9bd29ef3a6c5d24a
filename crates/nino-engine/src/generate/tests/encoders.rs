//! Text encoders as files have them beside f16: GGUF, fp8 and int8, each against the plain numbers
//! that its file stands for.

use super::comfy::{PROMPT, control, store};
use crate::tests::made;
use crate::{Family, TextEncoders, encode_text};
use nino_dtype::DType;
use nino_weights::safetensors::NewTensor;
use nino_weights::{Metadata, gguf, safetensors};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const PLACE: &str = "text_encoders.qwen3_4b.transformer.";
/// Names of layers, and llama.cpp's.
const LLAMA: [(&str, &str); 11] = [
    ("input_layernorm", "attn_norm"),
    ("mlp.down_proj", "ffn_down"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("post_attention_layernorm", "ffn_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.o_proj", "attn_output"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.v_proj", "attn_v"),
];

struct Tensor {
    name: String,
    shape: Vec<usize>,
    values: Vec<f32>,
}

impl Tensor {
    fn is_matrix(&self) -> bool {
        self.shape.len() == 2
    }

    fn is_table(&self) -> bool {
        self.name.ends_with("embed_tokens.weight")
    }

    fn stored(&self, name: &str, dtype: DType) -> NewTensor {
        NewTensor {
            name: name.to_owned(),
            dtype,
            shape: self.shape.clone(),
        }
    }
}

/// The encoder of the small Z-Image.
fn encoder(folder: &Path) -> Vec<Tensor> {
    let list = made::list("tiny_z_image");
    let own = list.lines().filter_map(|line| line.strip_prefix(PLACE));
    let own = own.fold(String::new(), |all, line| all + line + "\n");
    let path = folder.join("whole.safetensors");
    made::write_list(&own, &path);
    let reader = nino_weights::open(&path).unwrap();
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

fn encoded(dtype: DType, values: &[f32]) -> Vec<u8> {
    let mut bytes = vec![0; dtype.bytes_for(values.len()).unwrap()];
    nino_dtype::encode(dtype, values, &mut bytes).unwrap();
    bytes
}

/// Bytes, and the numbers that they stand for.
fn rounded(dtype: DType, values: &[f32]) -> (Vec<u8>, Vec<f32>) {
    let bytes = encoded(dtype, values);
    let mut back = vec![0.0; values.len()];
    nino_dtype::decode(dtype, &bytes, &mut back).unwrap();
    (bytes, back)
}

fn write(path: PathBuf, tensors: &[(NewTensor, Vec<u8>)]) -> PathBuf {
    let list: Vec<NewTensor> = tensors.iter().map(|(t, _)| t.clone()).collect();
    let mut writer = safetensors::Writer::create(&path, &list, &BTreeMap::new()).unwrap();
    tensors.iter().for_each(|(_, b)| writer.write(b).unwrap());
    writer.finish().unwrap();
    path
}

/// The numbers themselves.
fn plain(path: PathBuf, tensors: &[Tensor], values: &[Vec<f32>]) -> PathBuf {
    let all = tensors.iter().zip(values);
    let all = all.map(|(t, v)| (t.stored(&t.name, DType::F32), encoded(DType::F32, v)));
    write(path, &all.collect::<Vec<_>>())
}

/// llama.cpp's file with blocks of 8 bits, its table of words among them.
fn in_blocks(path: PathBuf, tensors: &[Tensor]) -> (PathBuf, Vec<Vec<f32>>) {
    let name = |t: &Tensor| match t.name.as_str() {
        "model.embed_tokens.weight" => "token_embd.weight".to_owned(),
        "model.norm.weight" => "output_norm.weight".to_owned(),
        name => {
            let rest = name.strip_prefix("model.layers.").unwrap();
            let (i, layer) = rest.split_once('.').unwrap();
            let layer = layer.strip_suffix(".weight").unwrap();
            let (_, own) = LLAMA.iter().find(|(name, _)| *name == layer).unwrap();
            format!("blk.{i}.{own}.weight")
        }
    };
    let dtype = |t: &Tensor| {
        if t.is_matrix() {
            DType::Q8_0
        } else {
            DType::F32
        }
    };
    let list: Vec<NewTensor> = tensors
        .iter()
        .map(|t| t.stored(&name(t), dtype(t)))
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
fn scaled(path: PathBuf, tensors: &[Tensor], dtype: DType) -> (PathBuf, Vec<Vec<f32>>) {
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

fn states(path: &Path) -> Vec<f32> {
    let text = TextEncoders::open(&[path.to_path_buf()]).unwrap();
    assert_eq!(text.family, Family::ZImage);
    control(|c| encode_text(&store(), &text, PROMPT, &[], c))
        .0
        .context
}

#[test]
fn encoders_in_gguf_fp8_and_int8_give_what_their_numbers_give() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    let tensors = encoder(folder.path());
    let unchanged: Vec<Vec<f32>> = tensors.iter().map(|t| t.values.clone()).collect();
    let whole = states(&plain(at("f32.safetensors"), &tensors, &unchanged));
    // Products of 8 bits may round their other factor to 8 bits, too.
    for (name, (path, values), limit) in [
        ("gguf", in_blocks(at("q8.gguf"), &tensors), 1e-3),
        (
            "fp8",
            scaled(at("fp8.safetensors"), &tensors, DType::F8E4M3),
            1e-8,
        ),
        (
            "int8",
            scaled(at("int8.safetensors"), &tensors, DType::I8),
            1e-3,
        ),
    ] {
        let wanted = states(&plain(at("numbers.safetensors"), &tensors, &values));
        let found = states(&path);
        let nmse = |found: &[f32], wanted: &[f32]| {
            let square = |v: f32| f64::from(v) * f64::from(v);
            let pairs = found.iter().zip(wanted);
            let error: f64 = pairs.map(|(f, w)| square(f - w)).sum();
            error / wanted.iter().map(|&w| square(w)).sum::<f64>()
        };
        let (near, rounding) = (nmse(&found, &wanted), nmse(&wanted, &whole));
        println!("{name}: NMSE {near:.1e}; its rounding alone {rounding:.1e}");
        assert!(near <= limit, "{name}: NMSE {near:.1e}");
        assert!(rounding > 1e-9, "{name}: its numbers are not those of f16");
    }
}
