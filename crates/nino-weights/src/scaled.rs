//! Scaled fp8 and int8: finds the scales of weights and takes them, and the markers beside them,
//! out of the list of tensors. Three spellings are in use, and a file may mix them:
//!
//! - `x.scale_weight`, `x.scale_input`, and a `scaled_fp8` marker for the whole file;
//! - `x.weight_scale`, `x.input_scale`, with `_quantization_metadata` in the header naming a
//!   format;
//! - the same with a `x.comfy_quant` tensor per layer that holds `{"format": ..}`.
//!
//! An int8 layer's description may say that its rows were rotated ([`crate::hadamard`]). Weights of
//! nvfp4, mxfp8 and bitsandbytes' 4 bits are found here, too, and read by [`crate::packed`].

use nino_dtype::DType;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::packed::{self, Packed, bitsandbytes};
use crate::{Error, Index, Result, Scale, Span, TensorReader, hadamard};

const WEIGHT_SCALES: [&str; 2] = ["scale_weight", "weight_scale"];
const INPUT_SCALES: [&str; 2] = ["scale_input", "input_scale"];
const MARKER: &str = "scaled_fp8";
const LAYER_MARKER: &str = "comfy_quant";
const METADATA: &str = "_quantization_metadata";
const READABLE: [&str; 5] = ["float8_e4m3fn", "float8_e5m2", INT8, NVFP4, MXFP8];
const INT8: &str = "int8_tensorwise";
const NVFP4: &str = "nvfp4";
const MXFP8: &str = "mxfp8";
/// The factor for a whole weight of nvfp4.
const SECOND_SCALE: &str = "weight_scale_2";
const INPUT_FACTORS: &str = "pre_quant_scale";
/// What ends the name of a weight packed by SVDQuant.
const SVDQUANT: &str = "qweight";
const MAX_MARKER: u64 = 4096;
/// The size of rotated groups where a description does not say it.
const GROUP: usize = 256;

/// How a layer's weight is stored.
#[derive(Deserialize)]
struct Layer {
    format: String,
    #[serde(flatten)]
    rotation: Rotation,
    /// Some writers put the same here.
    #[serde(default)]
    params: Rotation,
}

#[derive(Default, Deserialize)]
struct Rotation {
    convrot: Option<bool>,
    convrot_groupsize: Option<usize>,
}

impl Layer {
    /// The size of the groups that were rotated.
    fn rotated(&self) -> Option<usize> {
        let both = [&self.rotation, &self.params];
        let is_rotated = both.iter().find_map(|r| r.convrot).unwrap_or(false);
        let size = both.iter().find_map(|r| r.convrot_groupsize);
        is_rotated.then(|| size.unwrap_or(GROUP))
    }
}

#[derive(Deserialize)]
struct Layers {
    #[serde(default)]
    layers: BTreeMap<String, Layer>,
}

/// What stands beside a weight.
struct Beside<'a> {
    weight: &'a str,
    input: Option<&'a str>,
    rotated: Option<usize>,
}

/// What was found of a file's weights.
#[derive(Default)]
struct Found<'a> {
    /// Tensors that are no weights.
    side: HashSet<String>,
    /// By the name of the weight.
    scales: HashMap<&'a str, Beside<'a>>,
    packed: HashMap<String, Packed>,
}

/// Links scales to their weights. A file without any comes back as it was.
pub(crate) fn link(reader: TensorReader) -> Result<TensorReader> {
    let found = find(&reader)?;
    if found.side.is_empty() {
        return Ok(reader);
    }
    let (index, packed) = split(reader.index(), found);
    Ok(reader.with_index(index, packed))
}

fn find(reader: &TensorReader) -> Result<Found<'_>> {
    let layers = layers(reader)?;
    let index = reader.index();
    let mut found = Found::default();
    for weight in bitsandbytes::find(reader)? {
        found.side.extend(weight.side);
        found.packed.insert(weight.weight, weight.packed);
    }
    for entry in index.entries() {
        let last = entry.name.rsplit('.').next().unwrap_or_default();
        if last == MARKER || last == LAYER_MARKER {
            found.side.insert(entry.name.clone());
        }
        if last == SVDQUANT {
            return Err(Error::SvdQuant {
                tensor: entry.name.clone(),
            });
        }
        let Some(layer) = entry.name.strip_suffix("weight") else {
            continue;
        };
        let described = layers.get(layer.strip_suffix('.').unwrap_or(layer));
        let format = described.map(|l| l.format.as_str());
        let find = |names: &[&str]| {
            let mut found = names.iter().map(|n| index.get(&format!("{layer}{n}")));
            found.find_map(|found| found)
        };
        let input = find(&INPUT_SCALES).map(|e| e.name.as_str());
        let (scale, second) = (find(&WEIGHT_SCALES), find(&[SECOND_SCALE]));
        if let Some(format @ (NVFP4 | MXFP8)) = format {
            let packed = match (format, scale, second) {
                // Factors of a layer's input are not read.
                _ if find(&[INPUT_FACTORS]).is_some() => None,
                (NVFP4, Some(scale), Some(_)) => packed::nvfp4(entry, scale),
                (MXFP8, Some(scale), None) => packed::mxfp8(entry, scale),
                _ => None,
            };
            let packed = packed.ok_or_else(|| Error::QuantFormat {
                tensor: entry.name.clone(),
                format: format!("{format} in a form that is not known"),
            })?;
            found.packed.insert(entry.name.clone(), packed);
            found.side.extend(scale.map(|scale| scale.name.clone()));
        }
        let beside = match (format, entry.dtype) {
            (Some(NVFP4 | MXFP8), _) => second.map(|second| (second, None)),
            (_, DType::F8E4M3 | DType::F8E5M2) => scale.map(|scale| (scale, None)),
            // Other files have int8 tensors that are no weights.
            (Some(INT8), DType::I8) => {
                let rotated = described.and_then(Layer::rotated);
                if let Some(group) = rotated
                    && !(hadamard::is_size(group) && entry.row_len().is_multiple_of(group))
                {
                    return Err(Error::QuantFormat {
                        tensor: entry.name.clone(),
                        format: format!("{INT8}, rotated in groups of {group}"),
                    });
                }
                scale.map(|scale| (scale, rotated))
            }
            _ => continue,
        };
        found.side.extend(input.map(str::to_owned));
        if let Some((scale, rotated)) = beside {
            found.side.insert(scale.name.clone());
            let beside = Beside {
                weight: &scale.name,
                input,
                rotated,
            };
            found.scales.insert(&entry.name, beside);
        }
    }
    Ok(found)
}

/// The list of tensors without what is no weight, and what is made from others in the order of its
/// spans.
fn split(index: &Index, mut found: Found<'_>) -> (Index, Vec<Packed>) {
    let (side, mut entries): (Vec<_>, Vec<_>) = index
        .entries()
        .iter()
        .cloned()
        .partition(|e| found.side.contains(&e.name));
    let position: HashMap<&str, usize> = side
        .iter()
        .enumerate()
        .map(|(i, e)| (e.name.as_str(), i))
        .collect();
    let mut made = Vec::new();
    for entry in &mut entries {
        if let Some(beside) = found.scales.get(entry.name.as_str()) {
            entry.scale = Some(Scale {
                weight: position[beside.weight],
                input: beside.input.map(|i| position[i]),
                rotated: beside.rotated,
            });
        }
        if let Some(packed) = found.packed.remove(&entry.name) {
            entry.dtype = packed.dtype();
            entry.shape = vec![packed.rows, packed.row];
            entry.recoded = Some(packed.name()).filter(|&name| name != entry.dtype.name());
            entry.spans = vec![Span {
                file: index.files.len() + made.len(),
                offset: 0,
                len: packed.n_bytes(),
            }];
            made.push(packed);
        }
    }
    let mut index = index.with_entries(entries);
    index.side = side;
    (index, made)
}

/// The layers that the file describes, by name. A format that cannot be read is an error.
fn layers(reader: &TensorReader) -> Result<BTreeMap<String, Layer>> {
    let index = reader.index();
    let refuse = |tensor: &str, format: &str| Error::QuantFormat {
        tensor: tensor.to_owned(),
        format: format.to_owned(),
    };
    let mut found = match index.metadata.get(METADATA).and_then(|v| v.as_str()) {
        Some(text) => {
            let list = serde_json::from_str::<Layers>(text);
            list.map_err(|_| refuse(METADATA, text))?.layers
        }
        None => BTreeMap::new(),
    };
    for entry in index.entries() {
        let Some((name, LAYER_MARKER)) = entry.name.rsplit_once('.') else {
            continue;
        };
        let bytes = reader.read_small(entry, MAX_MARKER)?.unwrap_or_default();
        let layer: Layer = serde_json::from_slice(bytes.trim_ascii())
            .map_err(|_| refuse(&entry.name, &String::from_utf8_lossy(&bytes)))?;
        found.insert(name.to_owned(), layer);
    }
    let unreadable = |l: &Layer| !READABLE.contains(&l.format.as_str());
    match found.iter().find(|(_, layer)| unreadable(layer)) {
        Some((name, layer)) => Err(refuse(name, &layer.format)),
        None => Ok(found),
    }
}
