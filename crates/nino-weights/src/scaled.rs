//! Scaled fp8: finds the scales of fp8 weights and takes them, and the markers beside them, out of
//! the list of tensors. Three spellings are in use, and a file may mix them:
//!
//! - `x.scale_weight`, `x.scale_input`, and a `scaled_fp8` marker for the whole file;
//! - `x.weight_scale`, `x.input_scale`, with `_quantization_metadata` in the header naming a
//!   format;
//! - the same with a `x.comfy_quant` tensor per layer that holds `{"format": ..}`.

use serde::Deserialize;
use std::collections::{BTreeMap, HashMap, HashSet};

use crate::{Error, Index, Result, Scale, TensorReader};

const WEIGHT_SCALES: [&str; 2] = ["scale_weight", "weight_scale"];
const INPUT_SCALES: [&str; 2] = ["scale_input", "input_scale"];
const MARKER: &str = "scaled_fp8";
const LAYER_MARKER: &str = "comfy_quant";
const METADATA: &str = "_quantization_metadata";
const READABLE: [&str; 2] = ["float8_e4m3fn", "float8_e5m2"];
const MAX_MARKER: u64 = 4096;

#[derive(Deserialize)]
struct Layer {
    format: String,
}

#[derive(Deserialize)]
struct Layers {
    #[serde(default)]
    layers: BTreeMap<String, Layer>,
}

/// Links scales to their weights. A file without fp8 comes back as it was.
pub(crate) fn link(reader: TensorReader) -> Result<TensorReader> {
    check_formats(&reader)?;
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
        if !matches!(
            entry.dtype,
            nino_dtype::DType::F8E4M3 | nino_dtype::DType::F8E5M2
        ) {
            continue;
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
            scales.insert(entry.name.as_str(), (weight, input));
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
    scales: &HashMap<&str, (&str, Option<&str>)>,
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
        if let Some((weight, input)) = scales.get(entry.name.as_str()) {
            entry.scale = Some(Scale {
                weight: position[weight],
                input: input.map(|i| position[i]),
            });
        }
    }
    let mut index = index.with_entries(entries);
    index.side.clone_from(&side);
    index
}

/// Refuses layers whose marker names a format other than plain float8.
fn check_formats(reader: &TensorReader) -> Result<()> {
    let index = reader.index();
    let refuse = |tensor: &str, format: &str| {
        if READABLE.contains(&format) {
            return Ok(());
        }
        Err(Error::QuantFormat {
            tensor: tensor.to_owned(),
            format: format.to_owned(),
        })
    };
    if let Some(text) = index.metadata.get(METADATA).and_then(|v| v.as_str()) {
        match serde_json::from_str::<Layers>(text) {
            Ok(list) => {
                for (name, layer) in &list.layers {
                    refuse(name, &layer.format)?;
                }
            }
            Err(_) => refuse(METADATA, text)?,
        }
    }
    for entry in index.entries() {
        if entry.name.rsplit('.').next() != Some(LAYER_MARKER) {
            continue;
        }
        let bytes = reader.read_small(entry, MAX_MARKER)?.unwrap_or_default();
        let layer: Result<Layer, _> = serde_json::from_slice(bytes.trim_ascii());
        match layer {
            Ok(layer) => refuse(&entry.name, &layer.format)?,
            Err(_) => refuse(&entry.name, &String::from_utf8_lossy(&bytes))?,
        }
    }
    Ok(())
}
