//! The text encoders in a file.

use super::encoder::{EncoderConfig, Sight, SightConfig, TextEncoder};
use crate::EngineError;
use crate::model::identity::Origin;
use crate::model::vocabulary;
use nino_graph::RopeLayout;
use nino_models::{Encoder, Network, llm};
use nino_weights::TensorReader;
use nino_weights::names::{self, Component, Net};
use std::path::Path;
use std::sync::Arc;

/// The text encoders in a file, of which there is at least one.
pub(crate) fn read(path: &Path) -> Result<Vec<TextEncoder>, EngineError> {
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
pub(crate) fn among(
    reader: &Arc<TensorReader>,
    components: &[Component],
    origin: &Origin,
) -> Result<Vec<TextEncoder>, EngineError> {
    let mut found = Vec::new();
    let sight = sight(reader, components, origin)?;
    let architecture = reader.index().metadata.get("general.architecture");
    // llama.cpp turns queries and keys of this kind of model so that pairs stand side by side.
    let paired = architecture.and_then(|a| a.as_str()) == Some("llama");
    let encodes = |c: &&Component| matches!(c.net, Net::ClipText | Net::T5 | Net::Llm);
    for component in components.iter().filter(encodes) {
        let Some(opened) = nino_models::open(reader, component.clone())? else {
            continue;
        };
        if let Some(mut config) = EncoderConfig::of(opened.network) {
            let vocabulary = match config.kind() {
                Encoder::Umt5 => vocabulary::read(reader)?,
                Encoder::Llm(llm::Kind::Mistral3) => vocabulary::read_tekken(reader)?,
                Encoder::Clip(_) | Encoder::T5 | Encoder::Llm(_) => None,
            };
            if let EncoderConfig::Llm(c) = &mut config
                && paired
            {
                c.rope = RopeLayout::Interleaved;
            }
            let sees = matches!(
                config.kind(),
                Encoder::Llm(llm::Kind::Qwen25Vl | llm::Kind::Qwen3Vl)
            );
            found.push(TextEncoder {
                vocabulary,
                sight: sight.clone().filter(|_| sees),
                weights: opened.params,
                origin: origin.clone(),
                config,
            });
        }
    }
    Ok(found)
}

/// The half of a language model that sees, among the networks of a file.
fn sight(
    reader: &Arc<TensorReader>,
    components: &[Component],
    origin: &Origin,
) -> Result<Option<Sight>, EngineError> {
    let sees = |c: &&Component| matches!(c.net, Net::QwenVision | Net::Qwen3Vision);
    let Some(component) = components.iter().find(sees) else {
        return Ok(None);
    };
    let Some(opened) = nino_models::open(reader, component.clone())? else {
        return Ok(None);
    };
    let config = match opened.network {
        Network::QwenVision(config) => SightConfig::Qwen25(config),
        Network::Qwen3Vision(config) => SightConfig::Qwen3(config),
        _ => return Ok(None),
    };
    Ok(Some(Sight {
        config,
        weights: opened.params,
        origin: origin.clone(),
    }))
}
