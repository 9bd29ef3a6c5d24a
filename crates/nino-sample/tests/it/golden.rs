//! Reads the goldens: safetensors of f32, named vectors.

use std::collections::BTreeMap;
use std::path::Path;

use nino_sample::model::Betas;
use nino_sample::{ModelSampling, Prediction};

pub(crate) type Golden = BTreeMap<String, Vec<f32>>;

pub(crate) fn read(name: &str) -> Golden {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../goldens/sample");
    let bytes = std::fs::read(folder.join(format!("{name}.safetensors"))).unwrap();
    let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
    let (header, data) = bytes[8..].split_at(header_len);
    let header: BTreeMap<String, serde_json::Value> = serde_json::from_slice(header).unwrap();
    let vector = |entry: &serde_json::Value| {
        let at = |i: usize| entry["data_offsets"][i].as_u64().unwrap() as usize;
        let words = data[at(0)..at(1)].chunks_exact(4);
        words
            .map(|w| f32::from_le_bytes(w.try_into().unwrap()))
            .collect()
    };
    header
        .iter()
        .filter(|(k, _)| *k != "__metadata__")
        .map(|(k, v)| (k.clone(), vector(v)))
        .collect()
}

/// The largest difference, in units of the largest expected value.
pub(crate) fn error(found: &[f32], expected: &[f32]) -> f64 {
    if found.len() != expected.len() {
        return f64::INFINITY;
    }
    let scale = expected
        .iter()
        .fold(0.0f64, |m, &v| m.max(f64::from(v.abs())));
    let differs = |(a, b): (&f32, &f32)| {
        if a.to_bits() == b.to_bits() {
            0.0
        } else {
            f64::from((a - b).abs())
        }
    };
    let worst = found
        .iter()
        .zip(expected)
        .map(differs)
        .fold(
            0.0,
            |m: f64, d| {
                if d.is_nan() { f64::INFINITY } else { m.max(d) }
            },
        );
    if worst == 0.0 { 0.0 } else { worst / scale }
}

pub(crate) fn model(name: &str) -> ModelSampling {
    match name {
        "eps" => ModelSampling::stable_diffusion(Prediction::Eps),
        "v_zsnr" => ModelSampling::discrete(Prediction::V, Betas::STABLE_DIFFUSION, true),
        "lcm" => ModelSampling::lcm(false),
        "edm" => ModelSampling::continuous_edm(Prediction::Edm, 0.002, 80.0, 0.5),
        "v_continuous" => ModelSampling::continuous_v(0.03, 500.0),
        "flow_3" => ModelSampling::flow(3.0, 1000.0),
        "flow_8" => ModelSampling::flow(8.0, 1000.0),
        "schnell" => ModelSampling::flow(1.0, 1.0),
        "flux" => ModelSampling::flux(1.15),
        _ => panic!("no model {name}"),
    }
}

pub(crate) const MODELS: [&str; 9] = [
    "eps",
    "v_zsnr",
    "lcm",
    "edm",
    "v_continuous",
    "flow_3",
    "flow_8",
    "schnell",
    "flux",
];
