//! The text encoders of a model with their tokenizer and LoRAs. ComfyUI's CLIP.

use super::diffusion;
use super::identity::{NetId, Origin, Part};
use super::lora::{Loras, Source};
use crate::EngineError;
use nino_dtype::DType;
use nino_graph::Device;
use nino_models::{Family, FileParams, Network, Opened, clip};
use nino_text::{Bpe, Layout};
use nino_weights::TensorReader;
use nino_weights::lora::LoraPart;
use nino_weights::names::{self, Component, Net};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Text encoders, the narrow one first, as the context has them.
#[derive(Clone)]
pub struct TextEncoders {
    pub family: Family,
    /// Layer to stop at, counted from the last, which is 1; the family's own when `None`. What
    /// ComfyUI's `CLIPSetLastLayer` counts as -1, -2, …
    pub clip_skip: Option<usize>,
    pub(super) encoders: Vec<TextEncoder>,
    pub(super) bpe: Arc<Bpe>,
    pub(super) loras: Arc<Loras>,
    pub(super) quantize: Option<DType>,
}

/// One of them.
#[derive(Clone)]
pub(crate) struct TextEncoder {
    pub(super) weights: FileParams,
    pub(super) origin: Origin,
    pub(crate) config: clip::Config,
}

impl TextEncoders {
    /// Reads text encoders from files of their own; which family they are for, their widths say.
    pub fn open(paths: &[PathBuf]) -> Result<TextEncoders, EngineError> {
        let mut encoders = Vec::new();
        for path in paths {
            encoders.extend(read(path)?);
        }
        encoders.sort_by_key(|t: &TextEncoder| t.config.width);
        let widths: Vec<usize> = encoders.iter().map(|t| t.config.width).collect();
        let family = Family::of_encoders(&widths).ok_or_else(|| EngineError::Encoders {
            path: paths.first().cloned().unwrap_or_default(),
            family: "any family",
            wanted: Vec::new(),
            found: widths,
        })?;
        Ok(TextEncoders::new(family, encoders, Bpe::clip()))
    }

    pub(super) fn new(family: Family, encoders: Vec<TextEncoder>, bpe: Bpe) -> TextEncoders {
        TextEncoders {
            family,
            clip_skip: None,
            encoders,
            bpe: Arc::new(bpe),
            loras: Arc::default(),
            quantize: None,
        }
    }

    /// The same encoders with plain weights held as `dtype`, converted while they are loaded.
    #[must_use]
    pub fn quantized(&self, dtype: DType) -> TextEncoders {
        let mut text = self.clone();
        text.encoders
            .iter_mut()
            .for_each(|t| t.weights.quantize(dtype));
        text.quantize = Some(dtype);
        text
    }

    /// The same encoders stopped at another layer.
    #[must_use]
    pub fn with_clip_skip(&self, clip_skip: Option<usize>) -> TextEncoders {
        TextEncoders {
            clip_skip,
            ..self.clone()
        }
    }

    /// Width of the context they make together.
    pub fn context_width(&self) -> usize {
        self.encoders.iter().map(|e| e.config.width).sum()
    }

    /// Whether a word is one piece of the vocabulary. Words that captions of the training had
    /// often are; others are spelled in several pieces.
    pub fn knows(&self, word: &str) -> bool {
        self.bpe.encode(word).len() == 1
    }

    pub(crate) fn encoders(&self) -> &[TextEncoder] {
        &self.encoders
    }

    pub(crate) fn bpe(&self) -> &Bpe {
        &self.bpe
    }

    /// How encoder `i` lays out its tokens.
    pub(crate) fn layout(&self, i: usize) -> Layout {
        let config = &self.encoders[i].config;
        match (self.family, config.width) {
            (Family::Emoji, _) => Layout::new(&self.bpe, config.max_tokens),
            (_, ..=768) => Layout::clip_l(),
            (_, 1024) => Layout::clip_h(),
            _ => Layout::clip_g(),
        }
    }

    /// The hidden states that encoder `i` gives.
    pub(crate) fn want(&self, i: usize) -> clip::Want {
        self.family.want(&self.encoders[i].config, self.clip_skip)
    }

    /// What the weights of encoder `i` are kept by.
    pub(crate) fn id(&self, i: usize) -> NetId {
        NetId {
            origin: self.encoders[i].origin.clone(),
            part: Part::Text(i),
            loras: self.loras.ids(self.lora_part(i)),
            quantize: self.quantize,
        }
    }

    /// See [`crate::DiffusionModel::held`].
    pub(crate) fn held(&self, stored: DType, device: &dyn Device) -> DType {
        diffusion::held(self.family, stored, device)
    }

    /// The weights of encoder `i` with the LoRAs applied.
    pub(crate) fn source(&self, i: usize) -> Source {
        Source {
            file: self.encoders[i].weights.clone(),
            part: self.lora_part(i),
            loras: Arc::clone(&self.loras),
        }
    }

    /// The number LoRAs give encoder `i`: the refiner's only one is SDXL's second.
    pub(super) fn lora_part(&self, i: usize) -> LoraPart {
        LoraPart::TextEncoder(i + usize::from(self.family == Family::SdxlRefiner))
    }
}

/// The text encoders in a file, of which there is at least one.
pub(super) fn read(path: &Path) -> Result<Vec<TextEncoder>, EngineError> {
    let reader = Arc::new(nino_weights::open(path)?);
    let origin = Origin::files(&reader.index().files);
    let (components, _) = names::canonical(reader.index())?;
    let found = among(&reader, &components, &origin)?;
    if found.is_empty() {
        return Err(EngineError::NotAnEncoder {
            path: path.to_owned(),
        });
    }
    Ok(found)
}

/// The text encoders among the networks of a file.
pub(super) fn among(
    reader: &Arc<TensorReader>,
    components: &[Component],
    origin: &Origin,
) -> Result<Vec<TextEncoder>, EngineError> {
    let mut found = Vec::new();
    for component in components.iter().filter(|c| c.net == Net::ClipText) {
        let opened = nino_models::open(reader, component.clone())?;
        if let Some(Opened {
            network: Network::ClipText(config),
            params,
            ..
        }) = opened
        {
            found.push(TextEncoder {
                weights: params,
                origin: origin.clone(),
                config,
            });
        }
    }
    Ok(found)
}
