//! What can go wrong with a request, in sentences with numbers. `kind.rs` has what each is about.

mod kind;

use crate::device::DeviceError;
use crate::media::MediaError;
use nino_dtype::DType;
use nino_graph::{ExecError, GraphError, PlanError};
use nino_models::latent::LatentFormat;
use nino_models::{Encoder, llm};
use std::path::PathBuf;

pub use kind::ErrorKind;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("stopped")]
    Cancelled,
    #[error(transparent)]
    Weights(#[from] nino_weights::Error),
    #[error(transparent)]
    File(#[from] nino_files::FileError),
    #[error("{}: this capture cannot be run again: {why}", path.display())]
    CannotReplay { path: PathBuf, why: &'static str },
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Exec(ExecError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("{}: not a supported VAE; its tensors begin with {}", path.display(), found.join(", "))]
    NotAVae { path: PathBuf, found: Vec<String> },
    #[error("no built-in description is called {name:?}; known are {}", known.join(", "))]
    UnknownSpec { name: String, known: Vec<String> },
    #[error("{}: contains no latent: expected latent_tensor, samples or latents, found {}", path.display(), listed(found))]
    NoLatent { path: PathBuf, found: Vec<String> },
    #[error("{}: a latent has shape [b, c, h, w] or [b, c, t, h, w], each at least 1; this one has \
             {shape:?}", path.display())]
    LatentShape { path: PathBuf, shape: Vec<usize> },
    #[error("{}: a latent of {values} values; the limit is {most}, or what memory holds", path.display())]
    LatentTooLarge {
        path: PathBuf,
        values: usize,
        most: usize,
    },
    #[error("{}: {bad} of {all} values of the latent are NaN or infinite", path.display())]
    LatentNotFinite {
        path: PathBuf,
        bad: usize,
        all: usize,
    },
    #[error("the latent has {found} channels, the VAE expects {expected}")]
    Channels { expected: usize, found: usize },
    #[error("this is a video latent of {frames} latent frames, and {vae} decodes single images")]
    VideoLatent { frames: usize, vae: String },
    #[error("{frames} latent frames for {model}, which makes single images")]
    FramesForPictures { frames: usize, model: &'static str },
    #[error("{what} has {} latent frames of {}x{}, the video {} of {}x{}", found.frames, found.width, found.height, expected.frames, expected.width, expected.height)]
    SeenSize {
        what: &'static str,
        expected: crate::LatentSize,
        found: crate::LatentSize,
    },
    #[error("{model} expects {extra} conditioning channels besides the latent, found {found}")]
    SeenChannels {
        model: String,
        extra: usize,
        found: usize,
    },
    #[error("{model} expects image tokens of width {expected}, found {found}")]
    ImageWidth {
        model: String,
        expected: usize,
        found: usize,
    },
    #[error(
        "{model} expects {} hidden states of width {} from the audio encoder, found {} of {}",
        expected.0, expected.1, found.0, found.1
    )]
    AudioStates {
        model: String,
        expected: (usize, usize),
        found: (usize, usize),
    },
    #[error("the audio is for {found} latent frames, the video has {expected}")]
    AudioFrames { expected: usize, found: usize },
    #[error("{samples} samples of audio are too few: the audio encoder needs 400 at 16 kHz")]
    AudioTooShort { samples: usize },
    #[error(
        "frames before the video need {least} latent pixels along each side ({} pixels), found {}x{}",
        8 * least, found.width, found.height
    )]
    MotionSize {
        least: usize,
        found: crate::LatentSize,
    },
    #[error("{model} takes a reference latent of one frame, found {frames}")]
    ReferenceFrames { model: String, frames: usize },
    #[error("{vae} encodes single images, not videos: use a video VAE such as Wan's")]
    VideoFrames { vae: String },
    #[error("{found} frame weights for a latent of {expected} frames")]
    FrameMask { expected: usize, found: usize },
    #[error("{model} is a text-to-video model and takes no input image")]
    NoPictureInput { model: String },
    #[error("{model} takes no control video: VACE and Fun control models do")]
    NoClipInput { model: String },
    #[error("{model} takes no audio: Wan 2.2 S2V does")]
    NoAudioInput { model: String },
    #[error("{model} takes audio through an audio encoder, and there is none")]
    NoAudioEncoder { model: String },
    #[error("{model} takes no camera path: Fun camera models do")]
    NoCameraInput { model: String },
    #[error("{model} does not support skip-layer guidance: only Wan models do")]
    NoSkippedLayers { model: String },
    #[error(
        "USO takes three hidden layers of SigLIP for one image, of {expected} values each; found \
         {found}: choose a vision encoder such as sigclip_vision_patch14_384"
    )]
    UsoStates { expected: usize, found: usize },
    #[error("{model}: a USO style cannot be combined with a style whose strength is an attn_bias")]
    StyleBias { model: String },
    #[error(
        "{model}: reference latents can be cached between steps only in Flux.2, with one positive \
         and one negative prompt of the same length, both for the whole image"
    )]
    KeptReferences { model: String },
    #[error("{model}: {what} is for the UNets of SD 1, SD 2 and SDXL")]
    UnetOnly { model: String, what: &'static str },
    #[error("FreeU comes before PatchModelAddDownscale: apply it after that node")]
    ShrinkAfterFreeU,
    #[error("self-attention guidance cannot be combined with {other}")]
    SelfAttention { other: &'static str },
    #[error("guidance by three prompts cannot be combined with {other}")]
    ThirdPrompt { other: &'static str },
    #[error("{name} cannot be combined with {other}")]
    StepReuse { name: &'static str, other: String },
    #[error("{model}: its positions cannot be scaled: only Wan's can")]
    NoStretch { model: String },
    #[error(
        "tracks have 120 frames after the first, which do not match the {frames} of this video: \
         choose another length, such as 81"
    )]
    TrackFrames { frames: usize },
    #[error("{}: not the journal of this video: it was started with other settings or other models", path.display())]
    OtherJournal { path: PathBuf },
    #[error("{}: cannot {action} the video's journal: {source}", path.display())]
    Journal {
        path: PathBuf,
        action: &'static str,
        source: std::io::Error,
    },
    #[error("the video has no frames")]
    NoFrames,
    #[error("frame {frame} is {}x{}, those before it {}x{}", found.0, found.1, expected.0, expected.1)]
    FrameSize {
        frame: usize,
        expected: (usize, usize),
        found: (usize, usize),
    },
    #[error(transparent)]
    Misfits(#[from] Box<nino_models::Misfits>),
    #[error(transparent)]
    Describe(#[from] nino_models::describe::DescribeError),
    #[error("{name} is a description without weights: it can be planned, not run")]
    NoWeights { name: String },
    #[error("{vae} takes scaled latents, and their latent format is unknown")]
    NoFormat { vae: String },
    #[error("latents of the {} format have {} channels, those of {vae} have {channels}", format.name, format.unpacked_channels())]
    FormatChannels {
        format: &'static LatentFormat,
        vae: String,
        channels: usize,
    },
    #[error("{}: contains no supported diffusion model; it contains {}", path.display(), some(found))]
    NoUnet { path: PathBuf, found: Vec<String> },
    #[error("{}: {family} needs the text encoder {}; found {}", path.display(), encoder_names(wanted), encoder_names(found))]
    Encoders {
        path: PathBuf,
        family: &'static str,
        wanted: Vec<Encoder>,
        found: Vec<Encoder>,
    },
    #[error(
        "{model} expects text embeddings of width {wanted}, and the text encoders give {found}"
    )]
    EncoderWidth {
        model: String,
        wanted: usize,
        found: usize,
    },
    #[error("{}: the text encoder's vocabulary is neither in the file (spiece_model, tekken_model) \
             nor next to it (spiece.model, tekken.json)", path.display())]
    NoVocabulary { path: PathBuf },
    #[error(
        "the text encoder has no vision tower: {family} needs a file with Qwen2.5-VL's vision \
         tower and language model"
    )]
    Blind { family: &'static str },
    #[error("{}: not a supported vision encoder (CLIP, SigLIP)", path.display())]
    NotAnImageEncoder { path: PathBuf },
    #[error("{}: not a supported audio encoder (wav2vec 2.0)", path.display())]
    NotAnAudioEncoder { path: PathBuf },
    #[error("{family} needs guidance, which the prompt disables")]
    NeedsGuidance { family: &'static str },
    #[error("{}: not a supported style model (Flux Redux)", path.display())]
    NotAStyleModel { path: PathBuf },
    #[error(
        "the style model expects hidden states of width {expected}, and the vision encoder gives \
         {found}"
    )]
    StyleStates { expected: usize, found: usize },
    #[error("the style model's tokens have {style} values, and the prompt's {prompt}")]
    StyleWidth { prompt: usize, style: usize },
    #[error("{}: not a supported upscaler (ESRGAN, Real-ESRGAN)", path.display())]
    NotAnUpscaler { path: PathBuf },
    #[error(
        "an image of {width}x{height} cannot be upscaled {scale} times: the limit is {most} pixels \
         a side"
    )]
    UpscaledSize {
        width: usize,
        height: usize,
        scale: usize,
        most: usize,
    },
    #[error("{}: not a CLIP or T5 text encoder", path.display())]
    NotAnEncoder { path: PathBuf },
    #[error("{}: contains no VAE, and none was given", path.display())]
    MissingVae { path: PathBuf, family: &'static str },
    #[error("{vae} is a VAE of {channels} channels, and {model} makes latents of {wanted}")]
    VaeMismatch {
        vae: String,
        channels: usize,
        model: String,
        wanted: usize,
    },
    #[error("{vae} is a VAE for {format} latents, and {model} makes {wanted} latents")]
    VaeFormat {
        vae: String,
        format: &'static str,
        model: String,
        wanted: &'static str,
    },
    #[error("{}: this LoRA is for {made_for} and does not fit {model}: {misfits} of {all} updates \
             have no layer there, such as {example}", path.display())]
    LoraFamily {
        path: PathBuf,
        made_for: &'static str,
        model: String,
        misfits: usize,
        all: usize,
        example: String,
    },
    #[error("{model} and {other} cannot be merged: {why}")]
    Merge {
        model: String,
        other: String,
        why: String,
    },
    #[error("{}: contains no supported ControlNet", path.display())]
    NoControlNet { path: PathBuf },
    #[error("{}: this ControlNet has differences to the weights of a diffusion model, which must \
             be loaded with it", path.display())]
    ControlNetDifference { path: PathBuf },
    #[error("the ControlNet {net} is for another model than {model}")]
    ControlNetFamily { net: String, model: String },
    #[error("the ControlNet {net} has {known} control types, numbered from 0; there is no {mode}")]
    ControlNetMode {
        net: String,
        mode: usize,
        known: usize,
    },
    #[error("the ControlNet {net} takes encoded hint images, and no VAE was given")]
    ControlNetVae { net: String },
    #[error(
        "the ControlNet {net} takes encoded hint images, of which only one is supported for a \
         batch; {images} different ones were given"
    )]
    ControlNetBatch { net: String, images: usize },
    #[error(
        "the ControlNet {net} takes encoded hint images, which is not supported for a part of the \
         image"
    )]
    ControlNetArea { net: String },
    #[error("{}: a UNet with context width {context} and vector conditioning {label:?} is of no \
             supported family", path.display())]
    UnknownFamily {
        path: PathBuf,
        context: usize,
        label: Option<usize>,
    },
    #[error("the {what} is {}x{}, the request {}x{}", found.0, found.1, wanted.0, wanted.1)]
    StartSize {
        what: &'static str,
        found: (usize, usize),
        wanted: (usize, usize),
    },
    #[error("a mask needs an input image or a latent")]
    MaskAlone,
    #[error("{model} takes no reference images, and {given} were given")]
    NoReferences { model: String, given: usize },
    #[error(
        "{model} does not support the reference latents method {method}: leave the method out to \
         use the one it was trained with"
    )]
    ReferencePlaces {
        model: &'static str,
        method: &'static str,
    },
    #[error("the latent has a batch of {found}, and a batch of {wanted} was requested")]
    LatentBatch { found: usize, wanted: usize },
    #[error(
        "{model} is {kind}: it takes {more} channels besides the latent, and only inpainting and \
         editing models with such channels are supported"
    )]
    InputChannels {
        model: String,
        kind: &'static str,
        more: usize,
    },
    #[error("{model} edits whole images and takes no mask")]
    EditMask { model: String },
    #[error(transparent)]
    Sample(#[from] nino_sample::Error),
    #[error(transparent)]
    Text(#[from] nino_text::Error),
    #[error("{vae} contains no {part}")]
    NoPart { vae: String, part: &'static str },
    #[error(transparent)]
    Vae(#[from] nino_models::VaeError),
    #[error(transparent)]
    Codec(#[from] nino_dtype::CodecError),
    #[error(transparent)]
    Media(MediaError),
    #[error("{} changed since the model was opened: open it again", path.display())]
    FileChanged { path: PathBuf },
    #[error(
        "{} needed, and other requests use {} of {} on the device",
        mib(*need), mib(*busy), mib(*capacity)
    )]
    Busy {
        need: usize,
        busy: usize,
        capacity: usize,
    },
    #[error("conditioning for {family} has {what} of {expected} values, found {found}")]
    ConditioningWidth {
        what: &'static str,
        family: &'static str,
        expected: usize,
        found: usize,
    },
    #[error(
        "conditioning of {found} values is not a positive whole number of tokens of width \
             {width}"
    )]
    ConditioningLength { width: usize, found: usize },
    #[error("{bad} of {all} values of {what} are NaN or infinite")]
    InputNotFinite {
        what: &'static str,
        bad: usize,
        all: usize,
    },
    #[error("a CFG scale of {cfg} needs a negative prompt, which may be empty, and none was given")]
    NoNegative { cfg: f32 },
    #[error("there is no prompt: even an empty prompt must be encoded")]
    NoPrompt,
    #[error("an area begins at {x},{y}, outside the latent of {width}x{height}")]
    AreaOutside {
        x: usize,
        y: usize,
        width: usize,
        height: usize,
    },
    #[error("a prompt has {bytes} bytes; the limit is {most}")]
    PromptLength { bytes: usize, most: usize },
    #[error("a prompt has {chunks} chunks of tokens; the limit is {most}")]
    PromptChunks { chunks: usize, most: usize },
    #[error("a prompt has {tokens} tokens; the limit is {most}")]
    PromptTokens { tokens: usize, most: usize },
    #[error("the noise has {found} values, the latent {expected}")]
    NoiseLength { expected: usize, found: usize },
    #[error("sigmas must decrease: {first} is followed by {then}")]
    Sigmas { first: f32, then: f32 },
    #[error(
        "the network's output in {dtype} is NaN or infinite: its weights or its input are \
             damaged"
    )]
    NotFinite { dtype: DType },
}

impl From<MediaError> for EngineError {
    fn from(error: MediaError) -> EngineError {
        match error {
            MediaError::Stopped { .. } => EngineError::Cancelled,
            error => EngineError::Media(error),
        }
    }
}

impl From<ExecError> for EngineError {
    fn from(error: ExecError) -> EngineError {
        match error {
            ExecError::Cancelled => EngineError::Cancelled,
            other => EngineError::Exec(other),
        }
    }
}

/// `CLIP-L and OpenCLIP-G`, or `CLIP-L and T5-XXL`.
pub fn encoder_names(encoders: &[Encoder]) -> String {
    let name = |encoder: &Encoder| match encoder {
        Encoder::Clip(768) => "CLIP-L".to_owned(),
        Encoder::Clip(1024) => "OpenCLIP-H".to_owned(),
        Encoder::Clip(1280) => "OpenCLIP-G".to_owned(),
        Encoder::Clip(other) => format!("a CLIP of width {other}"),
        Encoder::T5 => "T5-XXL".to_owned(),
        Encoder::Umt5 => "UMT5-XXL".to_owned(),
        Encoder::Llm(llm::Kind::Qwen3) => "Qwen3".to_owned(),
        Encoder::Llm(llm::Kind::Qwen3Vl) => "Qwen3-VL".to_owned(),
        Encoder::Llm(llm::Kind::Qwen25Vl) => "Qwen2.5-VL".to_owned(),
        Encoder::Llm(llm::Kind::Mistral3) => "Mistral Small 3".to_owned(),
    };
    let names: Vec<String> = encoders.iter().map(name).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(" and ")
    }
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "no tensors at all".to_owned()
    } else {
        names.join(", ")
    }
}

fn some(names: &[String]) -> String {
    if names.is_empty() {
        "no known network".to_owned()
    } else {
        names.join(", ")
    }
}

/// Bytes in MiB, rounded up.
fn mib(bytes: usize) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
