//! Scaled fp8 and int8: finds the scales of weights and takes them, and the markers beside them,
//! out of the list of tensors. Three spellings are in use, and a file may mix them:
//!
//! - `x.scale_weight`, `x.scale_input`, and a `scaled_fp8` marker for the whole file;
//! - `x.weight_scale`, `x.input_scale`, with `_quantization_metadata` in the header naming a
//!   format;
//! - the same with a `x.comfy_quant` tensor per layer that holds `{"format": ..}`.
//!
//! An int8 layer's description may say that its rows were rotated ([`crate::hadamard`]).

use nino_dtype::DType;
use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{Error, Index, Result, Scale, TensorReader, hadamard};

const WEIGHT_SCALES: [&str; 2] = ["scale_weight", "weight_scale"];
const INPUT_SCALES: [&str; 2] = ["scale_input", "input_scale"];
const MARKER: &str = "scaled_fp8";
const LAYER_MARKER: &str = "comfy_quant";
const METADATA: &str = "_quantization_metadata";
const READABLE: [&str; 3] = ["float8_e4m3fn", "float8_e5m2", INT8];
const INT8: &str = "int8_tensorwise";
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

/// Links scales to their weights. A file without any comes back as it was.
pub(crate) fn link(reader: TensorReader) -> Result<TensorReader> {
    let layers = layers(&reader)?;
    let index = reader.index();
    let mut side_names = HashSet::new();
    let mut scales = HashMap::new();
    for entry in index.entries() {
        let last = entry.name.rsplit('.').next().unwrap_or_default();
        if last == MARKER || last == LAYER_MARKER {
            side_names.insert(entry.name.as_str());
        }
        let Some(layer) = entry.name.strip_suffix("weight") else {
            continue;
        };
        let described = layers.get(layer.strip_suffix('.').unwrap_or(layer));
        let is_scaled = match entry.dtype {
            DType::F8E4M3 | DType::F8E5M2 => true,
            // Other files have int8 tensors that are no weights.
            DType::I8 => described.is_some_and(|l| l.format == INT8),
            _ => false,
        };
        if !is_scaled {
            continue;
        }
        let rotated = described.and_then(Layer::rotated);
        if let Some(group) = rotated
            && !(hadamard::is_size(group) && entry.row_len().is_multiple_of(group))
        {
            return Err(Error::QuantFormat {
                tensor: entry.name.clone(),
                format: format!("{INT8}, rotated in groups of {group}"),
            });
        }
        let find = |names: [&str; 2]| {
            names
                .iter()
                .find_map(|n| index.get(&format!("{layer}{n}")))
                .map(|e| e.name.as_str())
        };
        let input = find(INPUT_SCALES);
        side_names.extend(input);
        if let Some(weight) = find(WEIGHT_SCALES) {
            side_names.insert(weight);
            scales.insert(entry.name.as_str(), (weight, input, rotated));
        }
    }
    if side_names.is_empty() {
        return Ok(reader);
    }
    let index = split(index, &side_names, &scales);
    Ok(reader.with_index(index))
}

fn split(
    index: &Index,
    side_names: &HashSet<&str>,
    scales: &HashMap<&str, (&str, Option<&str>, Option<usize>)>,
) -> Index {
    let (side, mut entries): (Vec<_>, Vec<_>) = index
        .entries()
        .iter()
        .cloned()
        .partition(|e| side_names.contains(e.name.as_str()));
    let position: HashMap<&str, usize> = side
        .iter()
        .enumerate()
        .map(|(i, e)| (e.name.as_str(), i))
        .collect();
    for entry in &mut entries {
        if let Some((weight, input, rotated)) = scales.get(entry.name.as_str()) {
            entry.scale = Some(Scale {
                weight: position[weight],
                input: input.map(|i| position[i]),
                rotated: *rotated,
            });
        }
    }
    let mut index = index.with_entries(entries);
    index.side.clone_from(&side);
    index
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
