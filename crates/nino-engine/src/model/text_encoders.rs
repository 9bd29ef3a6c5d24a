//! The text encoders of a model with their tokenizer and LoRAs. ComfyUI's CLIP.

use super::diffusion;
use super::identity::{NetId, Origin, Part};
use super::lora::{Loras, Source};
use super::vocabulary::{self, Vocabulary};
use crate::{EngineError, Precision};
use nino_dtype::DType;
use nino_graph::{Device, RopeLayout};
use nino_models::{Encoder, Family, FileParams, Network, clip, llm, qwen_vision, qwen3_vision, t5};
use nino_text::{Bpe, ByteBpe, Layout, Piece, Tokenizer, Unigram, tokenize};
use nino_weights::TensorReader;
use nino_weights::lora::LoraPart;
use nino_weights::names::{self, Component, Net};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

/// Text encoders in the order of the context: CLIP before T5, the narrow one first.
#[derive(Clone)]
pub struct TextEncoders {
    pub family: Family,
    /// Layer to stop at, counted from the last, which is 1; the family's own when `None`. What
    /// ComfyUI's `CLIPSetLastLayer` counts as -1, -2, …
    pub clip_skip: Option<usize>,
    /// How T5's tokens are padded; as the family was trained when `None`. ComfyUI's
    /// `T5TokenizerOptions`.
    pub t5_padding: Option<T5Padding>,
    /// How activations are stored. CLIP is small beside what it conditions, and stays in f32.
    pub precision: Precision,
    pub(super) encoders: Vec<TextEncoder>,
    pub(super) bpe: Arc<Bpe>,
    pub(super) loras: Arc<Loras>,
    pub(super) quantize: Option<DType>,
}

/// Padding behind a prompt in T5's vocabulary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct T5Padding {
    /// So many tokens of it, whatever the prompt's length.
    pub min_padding: usize,
    /// It goes on up to so many tokens of the whole.
    pub min_length: usize,
}

impl T5Padding {
    fn of(padding: Option<T5Padding>, layout: Layout) -> Layout {
        let Some(padding) = padding else {
            return layout;
        };
        Layout {
            min_padding: padding.min_padding,
            min_length: padding.min_length,
            ..layout
        }
    }
}

/// One of them.
#[derive(Clone)]
pub(crate) struct TextEncoder {
    pub(super) weights: FileParams,
    pub(super) origin: Origin,
    pub(crate) config: EncoderConfig,
    /// The vocabulary in its file, where the built-in ones do not serve it.
    pub(super) vocabulary: Option<Vocabulary>,
    /// The half of a language model that sees.
    pub(super) sight: Option<Sight>,
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

    pub(super) fn network(&self) -> Network {
        match self.clone() {
            EncoderConfig::Clip(c) => Network::ClipText(c),
            EncoderConfig::T5(c) => Network::T5(c),
            EncoderConfig::Llm(c) => Network::Llm(c),
        }
    }

    /// `None` of a network that encodes no text.
    fn of(network: Network) -> Option<EncoderConfig> {
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
    fn width(&self) -> usize {
        match self {
            States::Clip { config, .. } => config.width,
            States::T5 { config, .. } => config.width,
            States::Llm { config, taps, .. } => config.width * taps.len(),
        }
    }
}

/// T5's vocabulary, read when it is first asked for.
static T5: LazyLock<Unigram> = LazyLock::new(Unigram::t5);

/// Qwen's.
static QWEN: LazyLock<ByteBpe> = LazyLock::new(ByteBpe::qwen);

impl TextEncoders {
    /// Reads text encoders from files of their own; which family they are for, their kinds say.
    pub fn open(paths: &[PathBuf]) -> Result<TextEncoders, EngineError> {
        let mut encoders = Vec::new();
        for path in paths {
            encoders.extend(read(path)?);
        }
        encoders.sort_by_key(|t: &TextEncoder| t.config.kind());
        let found: Vec<Encoder> = encoders.iter().map(|t| t.config.kind()).collect();
        let family = Family::of_encoders(&found).ok_or_else(|| EngineError::Encoders {
            path: paths.first().cloned().unwrap_or_default(),
            family: "any family",
            wanted: Vec::new(),
            found,
        })?;
        // One kind of language model serves several families, the smallest of them Anima.
        let is_small = |t: &TextEncoder| t.config.width() == llm::Config::qwen3_06b().width;
        let family = match family {
            Family::ZImage if encoders.iter().all(is_small) => Family::Anima,
            family => family,
        };
        Ok(TextEncoders::new(family, encoders, Bpe::clip()))
    }

    pub(super) fn new(family: Family, encoders: Vec<TextEncoder>, bpe: Bpe) -> TextEncoders {
        TextEncoders {
            family,
            clip_skip: None,
            t5_padding: None,
            precision: Precision::Auto,
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

    /// The same encoders for another family's models, which prompt them differently: Z-Image and
    /// Flux.2 klein have one encoder. An error where that family has others.
    pub fn for_family(&self, family: Family) -> Result<TextEncoders, EngineError> {
        let found: Vec<Encoder> = self.encoders.iter().map(|t| t.config.kind()).collect();
        if family.encoders() != found {
            let path = self.encoders.first().and_then(|t| t.origin.path());
            return Err(EngineError::Encoders {
                path: path.map(Path::to_owned).unwrap_or_default(),
                family: family.name(),
                wanted: family.encoders().to_vec(),
                found,
            });
        }
        Ok(TextEncoders {
            family,
            ..self.clone()
        })
    }

    /// The same encoders stopped at another layer.
    #[must_use]
    pub fn with_clip_skip(&self, clip_skip: Option<usize>) -> TextEncoders {
        TextEncoders {
            clip_skip,
            ..self.clone()
        }
    }

    /// The same encoders with activations stored in another way.
    #[must_use]
    pub fn with_precision(&self, precision: Precision) -> TextEncoders {
        TextEncoders {
            precision,
            ..self.clone()
        }
    }

    /// How activations inside of an encoder's layers are stored on a device. T5 and language models
    /// take f16 where the device has it for all networks; what is between their layers is f32.
    pub(crate) fn layers(&self, i: usize, device: &dyn Device) -> DType {
        let is_clip = matches!(self.encoders[i].config, EncoderConfig::Clip(_));
        let halves = matches!(self.precision, Precision::Auto | Precision::F16);
        match device.activation_dtype() {
            DType::F16 if halves && !is_clip => DType::F16,
            _ => DType::F32,
        }
    }

    /// Width of the context they make together.
    pub fn context_width(&self) -> usize {
        let given = (0..self.encoders.len()).filter(|&i| self.gives_context(i));
        given.map(|i| self.width(i)).sum()
    }

    /// Whether a word is one piece of the vocabulary. Words that captions of the training had
    /// often are; others are spelled in several pieces.
    pub fn knows(&self, word: &str) -> bool {
        self.bpe.encode(word).len() == 1
    }

    /// What sees pictures for these encoders; `None` where nothing does.
    pub(crate) fn sight(&self) -> Option<&Sight> {
        self.encoders.iter().find_map(|t| t.sight.as_ref())
    }

    pub(crate) fn encoders(&self) -> &[TextEncoder] {
        &self.encoders
    }

    /// Width of the states that encoder `i` gives.
    pub(crate) fn width(&self, i: usize) -> usize {
        self.states(i).width()
    }

    /// Whether the states of encoder `i` are part of the context. Beside a T5, CLIP gives nothing
    /// but the pooled vector.
    pub(crate) fn gives_context(&self, i: usize) -> bool {
        let is_t5 = |e: &TextEncoder| matches!(e.config, EncoderConfig::T5(_));
        !self.encoders.iter().any(is_t5) || is_t5(&self.encoders[i])
    }

    /// The tokenizer of encoder `i`; an error where it was to be in the encoder's file and is not.
    pub(crate) fn tokenizer(&self, i: usize) -> Result<&dyn Tokenizer, EngineError> {
        let encoder = &self.encoders[i];
        Ok(match (encoder.config.kind(), &encoder.vocabulary) {
            (Encoder::Clip(_), _) => &*self.bpe,
            (Encoder::T5, _) => &*T5,
            (Encoder::Llm(llm::Kind::Qwen3 | llm::Kind::Qwen3Vl | llm::Kind::Qwen25Vl), _) => {
                &*QWEN
            }
            (Encoder::Umt5 | Encoder::Llm(llm::Kind::Mistral3), Some(vocabulary)) => &**vocabulary,
            (Encoder::Umt5 | Encoder::Llm(llm::Kind::Mistral3), None) => {
                match encoder.origin.path() {
                    Some(path) => {
                        let path = path.to_owned();
                        return Err(EngineError::NoVocabulary { path });
                    }
                    // A description is planned with; any vocabulary gives as many tokens, about.
                    None => &*T5,
                }
            }
        })
    }

    /// How encoder `i` lays out its tokens.
    pub(crate) fn layout(&self, i: usize) -> Layout {
        let layout = self.trained_layout(i);
        match self.encoders[i].config {
            EncoderConfig::T5(_) => T5Padding::of(self.t5_padding, layout),
            EncoderConfig::Clip(_) | EncoderConfig::Llm(_) => layout,
        }
    }

    fn trained_layout(&self, i: usize) -> Layout {
        match (self.family, &self.encoders[i].config) {
            (Family::Chroma, EncoderConfig::T5(_)) => Layout::t5_chroma(),
            (_, EncoderConfig::T5(_)) => match self.encoders[i].config.kind() {
                Encoder::Umt5 => Layout::umt5_wan(),
                _ => Layout::t5_flux(),
            },
            (Family::Klein, EncoderConfig::Llm(_)) => Layout::qwen3_klein(),
            (Family::Flux2, EncoderConfig::Llm(_)) => Layout::mistral_flux2(),
            (Family::QwenImage | Family::Krea2, EncoderConfig::Llm(_)) => Layout::qwen_image(),
            (Family::Anima, EncoderConfig::Llm(_)) => Layout::qwen3_anima(),
            (_, EncoderConfig::Llm(_)) => Layout::qwen3_z_image(),
            (Family::Emoji, EncoderConfig::Clip(c)) => Layout::new(&self.bpe, c.max_tokens),
            (_, EncoderConfig::Clip(c)) => match c.width {
                ..=768 => Layout::clip_l(),
                1024 => Layout::clip_h(),
                _ => Layout::clip_g(),
            },
        }
    }

    /// The words of a prompt in T5's vocabulary, with their weights, by which the family's models
    /// ask for the encoder's states; empty of families that do not.
    pub(crate) fn queries(&self, prompt: &str) -> Result<Vec<(u32, f32)>, EngineError> {
        if self.family != Family::Anima {
            return Ok(Vec::new());
        }
        let layout = T5Padding::of(self.t5_padding, Layout::t5_anima());
        let words = tokenize(&*T5, &layout, prompt, &|_| None)?;
        let tokens = words.chunks.into_iter().flat_map(|c| c.tokens);
        let words = tokens.filter_map(|token| match token.piece {
            Piece::Id(id) => Some((id, token.weight)),
            Piece::Embedding { .. } => None,
        });
        Ok(words.collect())
    }

    /// The states that encoder `i` gives.
    pub(crate) fn states(&self, i: usize) -> States {
        match &self.encoders[i].config {
            EncoderConfig::Clip(c) => States::Clip {
                config: c.clone(),
                want: self.family.want(c, self.clip_skip),
            },
            EncoderConfig::T5(c) => States::T5 {
                config: c.clone(),
                // One that the encoder has not is its last, as in ComfyUI.
                skip: self.clip_skip.filter(|&n| n <= c.n_layers).unwrap_or(1),
                masked: self.encoders[i].config.kind() == Encoder::Umt5,
            },
            EncoderConfig::Llm(c) => States::Llm {
                config: c.clone(),
                taps: self.family.taps(c, self.clip_skip),
                norm: self.family.ends_in_norm(c, self.clip_skip),
            },
        }
    }

    /// The first encoder's file.
    pub fn path(&self) -> Option<&Path> {
        self.encoders.first()?.origin.path()
    }

    /// The file of each encoder.
    pub(crate) fn each_path(&self) -> impl Iterator<Item = &Path> {
        self.encoders.iter().filter_map(|e| e.origin.path())
    }

    /// Whether they are what their files have, used as their family uses them.
    pub(crate) fn is_as_opened(&self) -> bool {
        let plain = |id: &NetId| id.loras.is_empty() && id.quantize.is_none();
        let as_trained = self.clip_skip.is_none() && self.t5_padding.is_none();
        as_trained && self.ids().iter().all(plain)
    }

    pub(crate) fn ids(&self) -> Vec<NetId> {
        (0..self.encoders.len()).map(|i| self.id(i)).collect()
    }

    /// What the weights of encoder `i` are kept by.
    pub(crate) fn id(&self, i: usize) -> NetId {
        NetId {
            origin: self.encoders[i].origin.clone(),
            part: Part::Text(i),
            loras: self.loras.ids(self.lora_part(i)),
            quantize: self.quantize,
            controls: Arc::new([]),
        }
    }

    /// The files of their weights.
    pub(crate) fn paths(&self) -> Vec<&Path> {
        let files = self.encoders.iter().flat_map(|e| e.origin.paths());
        files.collect()
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
            controls: Vec::new(),
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
