//! `nino inspect`: what a model file is and what is in it.

mod print;

use crate::args::InspectArgs;
use crate::env::Env;
use crate::printer::Printer;
use anyhow::Result;
use nino_engine::ModelKind;
use nino_models::detect::{self, Confidence, Detected, Prediction, Report};
use nino_weights::inspect::Summary;
use nino_weights::lora::{self, Delta, LoraPart};
use nino_weights::{Index, TensorReader};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    summary: Summary,
    parts: Vec<Part>,
    lora: Option<LoraFacts>,
    /// Names that belong to no known network.
    unknown: Vec<String>,
    metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tensors: Option<Vec<Tensor>>,
}

#[derive(Serialize)]
struct Part {
    role: String,
    model: &'static str,
    confidence: &'static str,
    reason: String,
    names: String,
    prefix: String,
    tensors: usize,
    params: u64,
    bytes: u64,
    halves: Vec<&'static str>,
    prediction: Option<&'static str>,
    missing: Vec<String>,
    unknown: Vec<String>,
    misshaped: Vec<Misshaped>,
}

#[derive(Serialize)]
struct Misshaped {
    tensor: String,
    expected: Vec<usize>,
    found: Vec<usize>,
}

#[derive(Serialize)]
struct LoraFacts {
    format: String,
    /// Why it cannot be applied, if it cannot.
    refused: Option<String>,
    updates: usize,
    ranks: Vec<usize>,
    parts: Vec<String>,
}

#[derive(Serialize)]
struct Tensor {
    name: String,
    encoding: String,
    shape: Vec<usize>,
    bytes: u64,
    file: usize,
    offset: u64,
}

pub(crate) fn run(args: &InspectArgs, env: &Env, printer: Printer) -> Result<()> {
    let reader = nino_weights::open(env.library().resolve(ModelKind::ALL, &args.path)?)?;
    let index = reader.index();
    let report = detect::detect(index)?;
    let document = Document {
        summary: nino_weights::inspect::summarize(index),
        parts: report.parts.iter().map(part).collect(),
        lora: lora_facts(&reader, &report),
        unknown: report.rest.clone(),
        metadata: index
            .metadata
            .iter()
            .map(|(k, v)| (k.clone(), v.to_string()))
            .collect(),
        tensors: args
            .tensors
            .then(|| tensors(index, args.filter.as_deref().unwrap_or_default())),
    };
    printer.text(print::report(&document))?;
    printer.document(&document)
}

fn part(found: &Detected) -> Part {
    Part {
        role: format!("{:?}", found.kind.part()).to_lowercase(),
        model: found.kind.label(),
        confidence: match found.confidence {
            Confidence::Certain => "certain",
            Confidence::Likely => "likely",
            Confidence::Guess => "guess",
            Confidence::Closest => "closest",
        },
        reason: found.reason.clone(),
        names: found.dialect.to_string(),
        prefix: found.prefix.clone(),
        tensors: found.index.entries().len(),
        params: found.index.n_params(),
        bytes: found.index.n_bytes(),
        halves: found.difference.halves.clone(),
        prediction: found.prediction.map(|p| match p {
            Prediction::Eps => "eps",
            Prediction::V => "v",
            Prediction::EpsOrV => "eps or v",
            Prediction::Flow => "flow",
        }),
        missing: found.difference.missing.clone(),
        unknown: found.difference.unknown.clone(),
        misshaped: found
            .difference
            .misshaped
            .iter()
            .map(|m| Misshaped {
                tensor: m.name.clone(),
                expected: m.expected.clone(),
                found: m.found.clone(),
            })
            .collect(),
    }
}

fn lora_facts(reader: &TensorReader, report: &Report) -> Option<LoraFacts> {
    let format = report.lora?.to_string();
    let lora = match lora::parse(reader) {
        Ok(lora) => lora,
        Err(e) => {
            let (refused, updates, ranks, parts) = (Some(e.to_string()), 0, vec![], vec![]);
            return Some(LoraFacts {
                format,
                refused,
                updates,
                ranks,
                parts,
            });
        }
    };
    let mut ranks: Vec<usize> = Vec::new();
    let mut parts: Vec<String> = Vec::new();
    for update in &lora.updates {
        if let Delta::LowRank(low) = &update.delta {
            ranks.push(low.rank);
        }
        parts.push(match update.part {
            LoraPart::Diffusion => "diffusion".to_owned(),
            LoraPart::TextEncoder(n) => format!("text encoder {}", n + 1),
        });
    }
    ranks.sort_unstable();
    ranks.dedup();
    parts.sort_unstable();
    parts.dedup();
    Some(LoraFacts {
        format,
        refused: None,
        updates: lora.updates.len(),
        ranks,
        parts,
    })
}

fn tensors(index: &Index, filter: &str) -> Vec<Tensor> {
    let shown = index.entries().iter().filter(|e| e.name.contains(filter));
    shown
        .map(|e| Tensor {
            name: e.name.clone(),
            encoding: match e.scale {
                Some(_) => format!("{} scaled", e.dtype),
                None => e.dtype.to_string(),
            },
            shape: e.shape.clone(),
            bytes: e.n_bytes(),
            file: e.spans.first().map_or(0, |s| s.file),
            offset: e.spans.first().map_or(0, |s| s.offset),
        })
        .collect()
}
