//! Detection of a file's models from tensor names and shapes alone. Every known model is a full
//! list of tensors. A component is the model whose list differs least from the file, and the full
//! difference is reported: missing, unknown and mis-shaped tensors.
//!
//! The lists come from the recorded graphs of the models ([`crate::describe`]).

mod kind;
mod twins;

use crate::Network;
use crate::describe;
use crate::difference::Difference;
use crate::weights::find_in;
use nino_weights::lora::{self, ControlLora, LoraFormat};
use nino_weights::names::{self, Component, Dialect, Net};
use nino_weights::{Index, Result};
use std::path::Path;

pub use kind::{Kind, Part};
pub use twins::Prediction;

/// The confidence of a detection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Tensors are missing, unknown or mis-shaped: this is the closest model.
    Closest,
    /// All tensors fit, but they also fit a twin (a model with the same tensors), and nothing
    /// distinguishes the two.
    Guess,
    /// All tensors fit; the file's name or metadata distinguishes it from its twins.
    Likely,
    /// All tensors fit and only this model has them.
    Certain,
}

/// One network of the file, identified.
#[derive(Clone, Debug)]
pub struct Detected {
    pub kind: Kind,
    pub confidence: Confidence,
    pub reason: String,
    pub dialect: Dialect,
    pub prefix: String,
    pub prediction: Option<Prediction>,
    /// The tensors that differ from the model's.
    pub difference: Difference,
    /// Tensors under canonical names.
    pub index: Index,
}

/// Everything that was detected in a file.
#[derive(Clone, Debug)]
pub struct Report {
    /// The diffusion model first, then the VAE and the encoders.
    pub parts: Vec<Detected>,
    pub lora: Option<LoraFormat>,
    /// Names of tensors that belong to no known network.
    pub rest: Vec<String>,
}

/// Detects everything in an index. The first file's name only decides between twins.
pub fn detect(index: &Index) -> Result<Report> {
    if let Some(format) = lora::recognize(index) {
        return Ok(Report {
            parts: Vec::new(),
            lora: Some(format),
            rest: Vec::new(),
        });
    }
    if let Some(lora) = ControlLora::of(index)? {
        return Ok(Report {
            parts: vec![control_lora(index, &lora)],
            lora: None,
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
    /// The main part: the diffusion model, or the first part of a file without one.
    pub fn main(&self) -> Option<&Detected> {
        self.parts.first()
    }

    pub fn part(&self, part: Part) -> Option<&Detected> {
        self.parts.iter().find(|d| d.kind.part() == part)
    }

    /// The `general.architecture` of a GGUF file, in the names that ComfyUI's loader knows.
    pub fn gguf_architecture(&self) -> &'static str {
        use Kind as K;
        match self.main().map(|d| (d.kind, d.kind.net())) {
            Some((K::Sdxl | K::SdxlInpaint | K::SdxlEdit | K::SdxlRefiner, _)) => "sdxl",
            Some((_, Net::Unet)) => "sd1",
            Some((_, Net::Flux)) => "flux",
            Some((_, Net::Wan)) => "wan",
            Some((_, Net::ZImage)) => "lumina2",
            Some((_, Net::QwenImage)) => "qwen_image",
            Some((_, Net::T5)) => "t5encoder",
            Some((_, Net::Llm)) => "qwen3",
            _ => "unknown",
        }
    }
}

/// The known model that a component differs least from, and the difference; `None` for networks
/// without a list.
pub(crate) fn closest(component: &Component) -> Option<(Kind, Difference)> {
    let mut best: Option<(Kind, Difference)> = None;
    for kind in Kind::of_net(component.net) {
        for tensors in kind.lists() {
            let difference = Difference::between(component, tensors);
            if difference.is_empty() {
                return Some((kind, difference));
            }
            let least = best.as_ref().map(|(_, d)| d.count());
            if least.is_none_or(|least| difference.count() < least) {
                best = Some((kind, difference));
            }
        }
    }
    best
}

/// Whether this is an upscaler whose tensors are consistent with each other. There are upscalers of
/// many sizes, and all of them run.
fn is_upscaler_of_any_size(component: &Component) -> bool {
    if !matches!(component.net, Net::Rrdb | Net::Srvgg) {
        return false;
    }
    let find = |name: &str| find_in(&component.index, name);
    let network = Network::detect(component.net, &find);
    let tensors = network.and_then(|network| describe::tensors(&network).ok());
    tensors.is_some_and(|tensors| Difference::between(component, &tensors).is_empty())
}

fn file_hint(path: Option<&Path>) -> String {
    let Some(path) = path else {
        return String::new();
    };
    let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
    let name = path.file_name().unwrap_or_default();
    format!("{}/{}", folder.to_string_lossy(), name.to_string_lossy()).to_lowercase()
}

/// A `ControlNet` that needs the UNet of the model it steers.
fn control_lora(index: &Index, lora: &ControlLora) -> Detected {
    Detected {
        kind: Kind::ControlLora,
        confidence: Confidence::Certain,
        reason: format!(
            "{} updates of a UNet's weights, beside {} tensors of its own",
            lora.updates.len(),
            lora.whole.len()
        ),
        dialect: Dialect::Original,
        prefix: String::new(),
        prediction: None,
        difference: Difference::default(),
        index: index.clone(),
    }
}

fn identify(index: &Index, component: Component, hint: &str) -> Detected {
    let unlisted = |component: Component, confidence, reason: &str| Detected {
        kind: Kind::unlisted(component.net),
        confidence,
        reason: reason.to_owned(),
        dialect: component.dialect,
        prefix: component.prefix,
        prediction: None,
        difference: Difference::default(),
        index: component.index,
    };
    let Some((kind, difference)) = closest(&component) else {
        let reason = "recognized by a name; its tensors are not checked";
        return unlisted(component, Confidence::Guess, reason);
    };
    if !difference.is_empty() && is_upscaler_of_any_size(&component) {
        let reason = "an upscaler of sizes of its own, which all tensors fit";
        return unlisted(component, Confidence::Certain, reason);
    }
    let (kind, confidence, reason) = if difference.is_empty() {
        let twins = twins::choose(kind, hint, index);
        (twins.kind, twins.confidence, twins.reason)
    } else {
        let reason = format!(
            "tensors missing: {}, unknown: {}, mis-shaped: {}, of {}",
            difference.missing.len(),
            difference.unknown.len(),
            difference.misshaped.len(),
            component.index.entries().len()
        );
        (kind, Confidence::Closest, reason)
    };
    Detected {
        kind,
        confidence,
        reason,
        dialect: component.dialect,
        prefix: component.prefix,
        prediction: twins::prediction(kind, hint, index),
        difference,
        index: component.index,
    }
}
