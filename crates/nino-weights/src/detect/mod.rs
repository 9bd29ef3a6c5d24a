//! What a file is, from names and shapes alone. Every known model is a full list of tensors written by a
//! small generator (`spec`); a component is the model whose list differs least from what is there, and
//! the difference is reported whole: missing, unknown, mis-shaped.

mod kind;
mod spec;
mod twins;

use std::collections::HashMap;
use std::path::Path;

pub use kind::{Kind, Part};
pub use spec::{Need, Spec};
pub use twins::Prediction;

use crate::lora::{self, LoraFormat};
use crate::names::{self, Component, Dialect};
use crate::{Index, Result};

/// How sure the answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Tensors are missing, unknown or mis-shaped: this is the closest model.
    Closest,
    /// All tensors fit, but so they do for a twin; nothing tells them apart.
    Guess,
    /// All tensors fit; the file's name or metadata told twins apart.
    Likely,
    /// All tensors fit and only this model has them.
    Certain,
}

/// A tensor whose shape is not what the model has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Misshaped {
    pub name: String,
    pub expected: Vec<usize>,
    pub found: Vec<usize>,
}

/// One network of the file, identified.
#[derive(Clone, Debug)]
pub struct Detected {
    pub kind: Kind,
    pub confidence: Confidence,
    pub reason: String,
    pub dialect: Dialect,
    pub prefix: String,
    /// The halves of an autoencoder that are there; empty for other networks.
    pub halves: Vec<&'static str>,
    pub prediction: Option<Prediction>,
    pub missing: Vec<String>,
    pub unknown: Vec<String>,
    pub misshaped: Vec<Misshaped>,
    /// Tensors under canonical names.
    pub index: Index,
}

/// All that was recognized in a file.
#[derive(Clone, Debug)]
pub struct Report {
    pub parts: Vec<Detected>,
    pub lora: Option<LoraFormat>,
    /// Names that belong to no known network.
    pub rest: Vec<String>,
}

/// Identifies everything in an index. The first file's name only ever decides between twins.
pub fn detect(index: &Index) -> Result<Report> {
    if let Some(format) = lora::recognize(index) {
        return Ok(Report {
            parts: Vec::new(),
            lora: Some(format),
            rest: Vec::new(),
        });
    }
    let (components, rest) = names::canonical(index)?;
    let hint = file_hint(index.files.first().map(std::path::PathBuf::as_path));
    let mut parts: Vec<Detected> = components
        .into_iter()
        .map(|c| identify(index, c, &hint))
        .collect();
    parts.sort_by_key(|d| d.kind.part());
    Ok(Report {
        parts,
        lora: None,
        rest,
    })
}

impl Report {
    /// What to call the whole: its diffusion model, else its only or first part.
    pub fn main(&self) -> Option<&Detected> {
        self.parts.first()
    }

    pub fn part(&self, part: Part) -> Option<&Detected> {
        self.parts.iter().find(|d| d.kind.part() == part)
    }
}

fn file_hint(path: Option<&Path>) -> String {
    let Some(path) = path else {
        return String::new();
    };
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    let name = path.file_name().unwrap_or_default();
    format!("{}/{}", folder.to_string_lossy(), name.to_string_lossy()).to_lowercase()
}

fn identify(index: &Index, component: Component, hint: &str) -> Detected {
    let Component {
        net,
        dialect,
        prefix,
        index: renamed,
        unmapped,
    } = component;
    let mut best: Option<(usize, Kind, Difference)> = None;
    for kind in Kind::of_net(net) {
        let difference = difference(&kind.spec(), &renamed);
        let cost = difference.cost();
        if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
            best = Some((cost, kind, difference));
        }
    }
    let Some((_, kind, mut difference)) = best else {
        return Detected {
            kind: Kind::unlisted(net),
            confidence: Confidence::Guess,
            reason: "recognized by a name; its tensors are not checked".to_owned(),
            dialect,
            prefix,
            halves: Vec::new(),
            prediction: None,
            missing: Vec::new(),
            unknown: Vec::new(),
            misshaped: Vec::new(),
            index: renamed,
        };
    };
    difference.unknown.extend(unmapped);
    let fits = difference.fits();
    let (kind, confidence, reason) = if fits {
        let twins = twins::choose(kind, hint, index);
        (twins.kind, twins.confidence, twins.reason)
    } else {
        (
            kind,
            Confidence::Closest,
            difference.summary(renamed.entries().len()),
        )
    };
    let prediction = twins::prediction(kind, hint, index);
    Detected {
        kind,
        confidence,
        reason,
        dialect,
        prefix,
        halves: difference.halves,
        prediction,
        missing: difference.missing,
        unknown: difference.unknown,
        misshaped: difference.misshaped,
        index: renamed,
    }
}

#[derive(Default)]
struct Difference {
    missing: Vec<String>,
    unknown: Vec<String>,
    misshaped: Vec<Misshaped>,
    halves: Vec<&'static str>,
}

impl Difference {
    fn cost(&self) -> usize {
        self.missing.len() + self.unknown.len() + self.misshaped.len()
    }

    fn fits(&self) -> bool {
        self.cost() == 0
    }

    fn summary(&self, n: usize) -> String {
        format!(
            "{} tensors missing, {} unknown, {} mis-shaped of {n}",
            self.missing.len(),
            self.unknown.len(),
            self.misshaped.len()
        )
    }
}

fn difference(spec: &Spec, index: &Index) -> Difference {
    let mut result = Difference::default();
    for half in [Need::Encoder, Need::Decoder] {
        let there = |t: &&spec::Tensor| t.need == half && index.contains(&t.name);
        if spec.tensors.iter().any(|t| there(&t)) {
            result.halves.push(if half == Need::Encoder {
                "encoder"
            } else {
                "decoder"
            });
        }
    }
    let half_absent = |need| match need {
        Need::Encoder => !result.halves.contains(&"encoder"),
        Need::Decoder => !result.halves.contains(&"decoder"),
        _ => false,
    };
    let mut known: HashMap<&str, &[usize]> = HashMap::with_capacity(spec.tensors.len());
    for tensor in &spec.tensors {
        known.insert(&tensor.name, &tensor.shape);
        match index.shape(&tensor.name) {
            Some(found) if same_shape(&tensor.shape, found) => {}
            Some(found) => result.misshaped.push(Misshaped {
                name: tensor.name.clone(),
                expected: tensor.shape.clone(),
                found: found.to_vec(),
            }),
            None if tensor.need == Need::Optional || half_absent(tensor.need) => {}
            None => result.missing.push(tensor.name.clone()),
        }
    }
    let unknown = index
        .entries()
        .iter()
        .filter(|e| !known.contains_key(e.name.as_str()));
    result.unknown = unknown.map(|e| e.name.clone()).collect();
    result
}

/// GGUF drops leading ones and some converters squeeze 1x1 kernels: sizes other than one must agree.
/// Our own files hold quantized kernels with their inputs last, where blocks fit.
fn same_shape(expected: &[usize], found: &[usize]) -> bool {
    let inputs_last = match *expected {
        [out, input, kh, kw] => *found == [out, kh, kw, input],
        _ => false,
    };
    expected == found
        || inputs_last
        || expected
            .iter()
            .filter(|&&d| d != 1)
            .eq(found.iter().filter(|&&d| d != 1))
}

#[cfg(test)]
mod tests;
