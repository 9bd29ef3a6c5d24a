//! One text encoder: its network, its weights, and the states that it gives.

use crate::model::identity::Origin;
use crate::model::vocabulary::Vocabulary;
use nino_models::{Encoder, FileParams, Network, clip, llm, qwen_vision, qwen3_vision, t5};

/// A text encoder as its file has it.
#[derive(Clone)]
pub(crate) struct TextEncoder {
    pub(crate) weights: FileParams,
    pub(crate) origin: Origin,
    pub(crate) config: EncoderConfig,
    /// The vocabulary in its file, where the built-in ones do not serve it.
    pub(crate) vocabulary: Option<Vocabulary>,
    /// The half of a language model that sees.
    pub(crate) sight: Option<Sight>,
}

/// What turns pictures into tokens of a language model.
#[derive(Clone)]
pub(crate) struct Sight {
    pub(crate) config: SightConfig,
    pub(crate) weights: FileParams,
    pub(crate) origin: Origin,
}

/// Its network.
#[derive(Clone, Debug)]
pub(crate) enum SightConfig {
    Qwen25(qwen_vision::Config),
    Qwen3(qwen3_vision::Config),
}

/// The network of a text encoder.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum EncoderConfig {
    Clip(clip::Config),
    T5(t5::Config),
    Llm(llm::Config),
}

impl EncoderConfig {
    /// Width of a token's embedding.
    pub(crate) fn width(&self) -> usize {
        match self {
            EncoderConfig::Clip(c) => c.width,
            EncoderConfig::T5(c) => c.width,
            EncoderConfig::Llm(c) => c.width,
        }
    }

    pub(crate) fn kind(&self) -> Encoder {
        match self {
            EncoderConfig::Clip(c) => Encoder::Clip(c.width),
            EncoderConfig::T5(c) => match c.position_bias {
                t5::PositionBias::Shared => Encoder::T5,
                t5::PositionBias::PerLayer => Encoder::Umt5,
            },
            EncoderConfig::Llm(c) => Encoder::Llm(c.kind),
        }
    }

    pub(crate) fn network(&self) -> Network {
        match self.clone() {
            EncoderConfig::Clip(c) => Network::ClipText(c),
            EncoderConfig::T5(c) => Network::T5(c),
            EncoderConfig::Llm(c) => Network::Llm(c),
        }
    }

    /// `None` of a network that encodes no text.
    pub(super) fn of(network: Network) -> Option<EncoderConfig> {
        match network {
            Network::ClipText(c) => Some(EncoderConfig::Clip(c)),
            Network::T5(c) => Some(EncoderConfig::T5(c)),
            Network::Llm(c) => Some(EncoderConfig::Llm(c)),
            Network::Denoiser(_)
            | Network::ControlNet(_)
            | Network::ClipVision(_)
            | Network::QwenVision(_)
            | Network::Qwen3Vision(_)
            | Network::Redux(_)
            | Network::Uso(_)
            | Network::Vae(_)
            | Network::Upscaler(_)
            | Network::Wav2Vec2(_) => None,
        }
    }
}

/// A network and the states it is to give.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum States {
    Clip {
        config: clip::Config,
        want: clip::Want,
    },
    T5 {
        config: t5::Config,
        /// The layer, counted from the last, which is 1.
        skip: usize,
        /// Whether padding is not seen, and gives zeros.
        masked: bool,
    },
    /// The inputs of some layers, side by side. Padding is not seen.
    Llm {
        config: llm::Config,
        taps: Vec<usize>,
        /// Whether they go through the last norm.
        norm: bool,
    },
}

impl States {
    /// Width of what a token becomes.
    pub(super) fn width(&self) -> usize {
        match self {
            States::Clip { config, .. } => config.width,
            States::T5 { config, .. } => config.width,
            States::Llm { config, taps, .. } => config.width * taps.len(),
        }
    }
}
