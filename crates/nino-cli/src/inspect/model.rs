//! A file of tensors: a model, a LoRA, a textual inversion or a latent, and what is in it.

use super::embedding::EmbeddingFacts;
use super::latent::LatentFacts;
use super::print;
use crate::args::InspectArgs;
use crate::printer::Printer;
use anyhow::Result;
use nino_engine::lora_family;
use nino_models::detect::{self, Confidence, Detected, Prediction, Report};
use nino_weights::inspect::Summary;
use nino_weights::lora::{self, Delta, LoraPart};
use nino_weights::{Index, TensorReader};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

#[derive(Serialize)]
pub(super) struct Document {
    /// `model`, `lora`, `embedding` or `latent`.
    pub(super) kind: &'static str,
    #[serde(flatten)]
    pub(super) summary: Summary,
    pub(super) parts: Vec<Part>,
    pub(super) lora: Option<LoraFacts>,
    pub(super) embedding: Option<EmbeddingFacts>,
    pub(super) latent: Option<LatentFacts>,
    /// Names that belong to no known network.
    pub(super) unknown: Vec<String>,
    pub(super) metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) tensors: Option<Vec<Tensor>>,
}

#[derive(Serialize)]
pub(super) struct Part {
    pub(super) role: String,
    pub(super) model: &'static str,
    pub(super) confidence: &'static str,
    pub(super) reason: String,
    pub(super) names: String,
    pub(super) prefix: String,
    pub(super) tensors: usize,
    pub(super) params: u64,
    pub(super) bytes: u64,
    pub(super) halves: Vec<&'static str>,
    pub(super) prediction: Option<&'static str>,
    pub(super) missing: Vec<String>,
    pub(super) unknown: Vec<String>,
    pub(super) misshaped: Vec<Misshaped>,
}

#[derive(Serialize)]
pub(super) struct Misshaped {
    pub(super) tensor: String,
    pub(super) expected: Vec<usize>,
    pub(super) found: Vec<usize>,
}

#[derive(Serialize)]
pub(super) struct LoraFacts {
    pub(super) format: String,
    /// The models it was made for, where that can be told.
    pub(super) family: Option<&'static str>,
    /// Why it cannot be applied, if it cannot.
    pub(super) refused: Option<String>,
    pub(super) updates: usize,
    pub(super) ranks: Vec<usize>,
    pub(super) parts: Vec<String>,
}

#[derive(Serialize)]
pub(super) struct Tensor {
    pub(super) name: String,
    pub(super) encoding: String,
    pub(super) shape: Vec<usize>,
    pub(super) bytes: u64,
    pub(super) file: usize,
    pub(super) offset: u64,
}

pub(super) fn run(path: &Path, args: &InspectArgs, printer: Printer) -> Result<()> {
    let reader = nino_weights::open(path)?;
    let index = reader.index();
    let report = detect::detect(index)?;
    let lora = lora_facts(&reader, &report);
    let is_other = lora.is_some() || !report.parts.is_empty();
    let latent = LatentFacts::of(index).filter(|_| !is_other);
    let embedding = EmbeddingFacts::of(index).filter(|_| !is_other);
    let document = Document {
        kind: match (&lora, &latent, &embedding) {
            (Some(_), ..) => "lora",
            (_, Some(_), _) => "latent",
            (_, _, Some(_)) => "embedding",
            _ => "model",
        },
        summary: nino_weights::inspect::summarize(index),
        parts: report.parts.iter().map(part).collect(),
        unknown: if latent.is_some() || embedding.is_some() {
            Vec::new()
        } else {
            report.rest.clone()
        },
        lora,
        embedding,
        latent,
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
            return Some(LoraFacts {
                format,
                family: None,
                refused: Some(e.to_string()),
                updates: 0,
                ranks: Vec::new(),
                parts: Vec::new(),
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
        family: lora_family(&lora),
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
            encoding: e.encoding(),
            shape: e.shape.clone(),
            bytes: e.n_bytes(),
            file: e.spans.first().map_or(0, |s| s.file),
            offset: e.spans.first().map_or(0, |s| s.offset),
        })
        .collect()
}
