//! What a file is, from its header alone: for `nino list`, and for what `nino pull` got.

use nino_engine::{ModelKind, embedding_size, lora_family};
use nino_models::Network;
use nino_models::detect::{self, Confidence, Kind, Part, Report};
use nino_weights::TensorReader;
use serde::Serialize;
use std::path::Path;

/// What a file is used as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum What {
    Model,
    Vae,
    Encoder,
    Lora,
    Embedding,
    Upscaler,
    /// Something that no flag takes, or that cannot be told.
    Other,
}

/// What was found out about a file.
#[derive(Clone, Debug)]
pub(crate) struct Facts {
    pub(crate) what: What,
    /// The model, LoRA or encoder that it is; why it cannot be told, where it cannot.
    pub(crate) is: String,
    /// The encoding that most of its weights have.
    pub(crate) encoding: Option<String>,
    /// Bytes of its tensors.
    pub(crate) weights: Option<u64>,
    /// Whether nino runs it.
    pub(crate) runs: bool,
}

impl What {
    pub(crate) fn noun(self) -> &'static str {
        match self {
            What::Model => "model",
            What::Vae => "VAE",
            What::Encoder => "encoder",
            What::Lora => "LoRA",
            What::Embedding => "embedding",
            What::Upscaler => "upscaler",
            What::Other => "other",
        }
    }

    /// The kinds that the library looks for.
    pub(crate) fn kinds(self) -> &'static [ModelKind] {
        match self {
            What::Model => ModelKind::MODELS,
            What::Vae => &[ModelKind::Vae],
            What::Encoder => &[ModelKind::TextEncoder],
            What::Lora => &[ModelKind::Lora],
            What::Embedding => &[ModelKind::Embedding],
            What::Upscaler => &[ModelKind::UpscaleModel],
            What::Other => ModelKind::ALL,
        }
    }

    /// What the folder that a file lies in says.
    pub(super) fn of_folder(kind: ModelKind) -> What {
        let all = [
            What::Model,
            What::Vae,
            What::Encoder,
            What::Lora,
            What::Embedding,
            What::Upscaler,
        ];
        let mut all = all.into_iter();
        all.find(|what| what.kinds().contains(&kind))
            .unwrap_or(What::Other)
    }
}

/// Reads the header. A file that cannot be read is [`What::Other`], with the reason.
pub(crate) fn of(path: &Path) -> Facts {
    match nino_weights::open(path) {
        Ok(reader) => of_reader(path, &reader),
        Err(error) => Facts {
            what: What::Other,
            is: without_path(&error.to_string(), path),
            encoding: None,
            weights: None,
            runs: false,
        },
    }
}

fn of_reader(path: &Path, reader: &TensorReader) -> Facts {
    let index = reader.index();
    let report = detect::detect(index);
    let (what, is, runs) = match &report {
        Ok(report) => lora(reader, report)
            .or_else(|| told(report))
            .or_else(|| embedding(path)),
        Err(_) => None,
    }
    .unwrap_or((What::Other, "unknown".to_owned(), false));
    Facts {
        what,
        is,
        encoding: nino_weights::inspect::summarize(index).quantization,
        weights: Some(index.n_bytes()),
        runs,
    }
}

type Told = (What, String, bool);

/// A LoRA is told by the models that it is for.
fn lora(reader: &TensorReader, report: &Report) -> Option<Told> {
    let format = report.lora?;
    let is = match nino_weights::lora::parse(reader) {
        Ok(lora) => lora_family(&lora).map_or(format.to_string(), str::to_owned),
        Err(error) => return Some((What::Lora, format!("{format}: {error}"), false)),
    };
    Some((What::Lora, is, true))
}

fn told(report: &Report) -> Option<Told> {
    let main = report.main()?;
    let what = match main.kind.part() {
        Part::Diffusion => What::Model,
        Part::Vae => What::Vae,
        Part::TextEncoder => What::Encoder,
        Part::Upscaler => What::Upscaler,
        Part::ControlNet | Part::ImageEncoder | Part::AudioEncoder | Part::Style => What::Other,
    };
    let is_whole = main.confidence != Confidence::Closest;
    let runs = is_whole && Network::is_supported(main.kind.net()) && main.kind != Kind::Sd2Depth;
    let label = main.kind.label();
    let is = if is_whole {
        label.to_owned()
    } else {
        format!("like {label}")
    };
    Some((what, is, runs))
}

/// An embedding is told by its encoders.
fn embedding(path: &Path) -> Option<Told> {
    let has = |encoder: &str| {
        embedding_size(path, encoder)
            .ok()
            .flatten()
            .map(|(_, width)| width)
    };
    let family = match (has("clip_l"), has("clip_g")) {
        (Some(_), Some(1280)) => "SDXL",
        (Some(768), _) => "SD 1.x",
        (Some(1024), _) => "SD 2.x",
        _ => return None,
    };
    Some((What::Embedding, family.to_owned(), true))
}

/// The path stands in its own column.
fn without_path(message: &str, path: &Path) -> String {
    let path = format!("{}: ", path.display());
    message.strip_prefix(&path).unwrap_or(message).to_owned()
}
