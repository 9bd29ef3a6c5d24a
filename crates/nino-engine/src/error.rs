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
    #[error("{}: not a VAE this program knows; its tensors begin with {}", path.display(), found.join(", "))]
    NotAVae { path: PathBuf, found: Vec<String> },
    #[error("no built-in description is called {name:?}; known are {}", known.join(", "))]
    UnknownSpec { name: String, known: Vec<String> },
    #[error("{}: holds no latent: looked for latent_tensor, samples or latents, found {}", path.display(), listed(found))]
    NoLatent { path: PathBuf, found: Vec<String> },
    #[error("{}: a latent is [b, c, h, w] or [b, c, t, h, w], each at least 1; this one is {shape:?}", path.display())]
    LatentShape { path: PathBuf, shape: Vec<usize> },
    #[error("{}: a latent of {values} values; at most {most} are read, where there is memory", path.display())]
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
    #[error("the latent has {found} channels, the VAE takes {expected}")]
    Channels { expected: usize, found: usize },
    #[error(
        "the latent is of a video of {frames} latent frames, and {vae} decodes single pictures"
    )]
    VideoLatent { frames: usize, vae: String },
    #[error("{frames} latent frames for {model}, which makes single pictures")]
    FramesForPictures { frames: usize, model: &'static str },
    #[error("{what} has {} latent frames of {}x{}, the clip {} of {}x{}", found.frames, found.width, found.height, expected.frames, expected.width, expected.height)]
    SeenSize {
        what: &'static str,
        expected: crate::LatentSize,
        found: crate::LatentSize,
    },
    #[error("{model} takes {extra} channels beside the latent, and the frames to see have {found}")]
    SeenChannels {
        model: String,
        extra: usize,
        found: usize,
    },
    #[error("{model} looks at pictures by tokens of width {expected}, and these have {found}")]
    ImageWidth {
        model: String,
        expected: usize,
        found: usize,
    },
    #[error("{vae} encodes single pictures, not clips: use a video VAE such as Wan's")]
    VideoFrames { vae: String },
    #[error("{found} weights of frames for a latent of {expected} frames")]
    FrameMask { expected: usize, found: usize },
    #[error("{model} makes clips of words alone, and takes no picture")]
    NoPictureInput { model: String },
    #[error("{model} follows no clip: VACE and Fun control models do")]
    NoClipInput { model: String },
    #[error("{model} takes no camera's path")]
    NoCameraInput { model: String },
    #[error("{model} has no layers that can be skipped: only Wan's are")]
    NoSkippedLayers { model: String },
    #[error(
        "USO looks at three layers of SigLIP's view of one picture, of {expected} values each; \
         found {found}: choose an image encoder such as sigclip_vision_patch14_384"
    )]
    UsoStates { expected: usize, found: usize },
    #[error("{model}: a style by USO and one with a strength by attn_bias do not go together")]
    StyleBias { model: String },
    #[error(
        "{model}: what a model saw of other latents stays between steps only in Flux.2, with one \
         prompt a side, both of one length and for the whole picture"
    )]
    KeptReferences { model: String },
    #[error("{model}: its places cannot be scaled: only Wan's can")]
    NoStretch { model: String },
    #[error(
        "tracks have 120 frames behind the first, which do not fall on the {frames} of this clip: \
         choose another length, such as 81"
    )]
    TrackFrames { frames: usize },
    #[error("{}: not the journal of this clip: it was begun with other settings or other models", path.display())]
    OtherJournal { path: PathBuf },
    #[error("{}: cannot {action} the clip's journal: {source}", path.display())]
    Journal {
        path: PathBuf,
        action: &'static str,
        source: std::io::Error,
    },
    #[error("the clip has no frames")]
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
    #[error("{name} is a description without weights: it can be planned with, not run")]
    NoWeights { name: String },
    #[error("{vae} takes scaled latents, and nothing says which scale")]
    NoFormat { vae: String },
    #[error("latents of the {} format have {} channels, those of {vae} have {channels}", format.name, format.unpacked_channels())]
    FormatChannels {
        format: &'static LatentFormat,
        vae: String,
        channels: usize,
    },
    #[error("{}: no diffusion model that this program runs in this file, which holds {}", path.display(), some(found))]
    NoUnet { path: PathBuf, found: Vec<String> },
    #[error("{}: {family} takes the text encoder {}; found {}", path.display(), encoder_names(wanted), encoder_names(found))]
    Encoders {
        path: PathBuf,
        family: &'static str,
        wanted: Vec<Encoder>,
        found: Vec<Encoder>,
    },
    #[error("{model} takes text of width {wanted}, and its text encoders give {found}")]
    EncoderWidth {
        model: String,
        wanted: usize,
        found: usize,
    },
    #[error("{}: the text encoder's vocabulary is not in the file (spiece_model, tekken_model), nor beside it (spiece.model, tekken.json)", path.display())]
    NoVocabulary { path: PathBuf },
    #[error(
        "the text encoder does not see pictures: {family} needs a file with both halves of Qwen2.5-VL"
    )]
    Blind { family: &'static str },
    #[error("{}: not an image encoder of a kind that this program runs (CLIP, SigLIP)", path.display())]
    NotAnImageEncoder { path: PathBuf },
    #[error("{family} does not do without guidance, which the prompt disables")]
    NeedsGuidance { family: &'static str },
    #[error("{}: not a style model of a kind that this program runs (Flux Redux)", path.display())]
    NotAStyleModel { path: PathBuf },
    #[error(
        "the style model looks at hidden states of width {expected}, and the image encoder gives {found}"
    )]
    StyleStates { expected: usize, found: usize },
    #[error("the style model's tokens have {style} values, and the prompt's {prompt}")]
    StyleWidth { prompt: usize, style: usize },
    #[error("{}: not an upscaler of a kind that this program runs (ESRGAN, Real-ESRGAN)", path.display())]
    NotAnUpscaler { path: PathBuf },
    #[error(
        "a picture of {width}x{height} cannot be enlarged {scale} times: the largest is {most} pixels wide and high"
    )]
    UpscaledSize {
        width: usize,
        height: usize,
        scale: usize,
        most: usize,
    },
    #[error("{}: not a CLIP or T5 text encoder", path.display())]
    NotAnEncoder { path: PathBuf },
    #[error("{}: no VAE in this file, and none was given", path.display())]
    MissingVae { path: PathBuf, family: &'static str },
    #[error("{vae} is a VAE of {channels} channels, and {model} makes latents of {wanted}")]
    VaeMismatch {
        vae: String,
        channels: usize,
        model: String,
        wanted: usize,
    },
    #[error("{vae} is a VAE of {format} latents, and {model} makes {wanted} latents")]
    VaeFormat {
        vae: String,
        format: &'static str,
        model: String,
        wanted: &'static str,
    },
    #[error("{}: this LoRA is for {made_for} and does not fit {model}: {misfits} of {all} updates have no place there, such as {example}", path.display())]
    LoraFamily {
        path: PathBuf,
        made_for: &'static str,
        model: String,
        misfits: usize,
        all: usize,
        example: String,
    },
    #[error("{}: no ControlNet for Stable Diffusion or Flux.1 is in this file", path.display())]
    NoControlNet { path: PathBuf },
    #[error("the ControlNet {net} was made for another model than {model}")]
    ControlNetFamily { net: String, model: String },
    #[error(
        "the ControlNet {net} knows {known} kinds of pictures, numbered from 0; there is no {mode}"
    )]
    ControlNetMode {
        net: String,
        mode: usize,
        known: usize,
    },
    #[error("the ControlNet {net} sees pictures encoded, and was given no VAE for that")]
    ControlNetVae { net: String },
    #[error(
        "the ControlNet {net} sees pictures encoded, which it cannot for a part of the picture"
    )]
    ControlNetArea { net: String },
    #[error("{}: a UNet with context {context} and label {label:?} is of no family this program runs", path.display())]
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
    #[error("a mask needs a picture or a latent that it is a mask of")]
    MaskAlone,
    #[error("{model} looks at no other pictures, and {given} were given")]
    NoReferences { model: String, given: usize },
    #[error(
        "{model} cannot have latents to look at placed by the method {method}: leave the method \
         out, and it has them where it was trained to"
    )]
    ReferencePlaces {
        model: &'static str,
        method: &'static str,
    },
    #[error("the latent holds {found} pictures, {wanted} are asked for")]
    LatentBatch { found: usize, wanted: usize },
    #[error(
        "{model} is {kind}: it takes {more} channels beside the latent, where models that \
         paint over or change a picture are supported"
    )]
    InputChannels {
        model: String,
        kind: &'static str,
        more: usize,
    },
    #[error("{model} changes whole pictures by the prompt and takes no mask")]
    EditMask { model: String },
    #[error(transparent)]
    Sample(#[from] nino_sample::Error),
    #[error(transparent)]
    Text(#[from] nino_text::Error),
    #[error("{vae} has no {part} in its file")]
    NoPart { vae: String, part: &'static str },
    #[error(transparent)]
    Vae(#[from] nino_models::VaeError),
    #[error(transparent)]
    Codec(#[from] nino_dtype::CodecError),
    #[error(transparent)]
    Media(MediaError),
    #[error("{} is not the file it was when the model was opened: open it again", path.display())]
    FileChanged { path: PathBuf },
    #[error(
        "{} needed, {} of {} on the device are in use by other requests",
        mib(*need), mib(*busy), mib(*capacity)
    )]
    Busy {
        need: usize,
        busy: usize,
        capacity: usize,
    },
    #[error("conditioning for {family} has {what} of {expected} values, this one of {found}")]
    ConditioningWidth {
        what: &'static str,
        family: &'static str,
        expected: usize,
        found: usize,
    },
    #[error("conditioning of {found} values is no whole number of tokens of {width}, or none")]
    ConditioningLength { width: usize, found: usize },
    #[error("{bad} of {all} values of {what} are NaN or infinite")]
    InputNotFinite {
        what: &'static str,
        bad: usize,
        all: usize,
    },
    #[error("guidance of {cfg} needs a negative prompt, which may be empty, and none was given")]
    NoNegative { cfg: f32 },
    #[error("there is no prompt: even an empty one has to be encoded")]
    NoPrompt,
    #[error("an area begins at {x},{y} of a latent of {width}x{height}, which is outside of it")]
    AreaOutside {
        x: usize,
        y: usize,
        width: usize,
        height: usize,
    },
    #[error("a prompt has {bytes} bytes, {most} are the most that are encoded")]
    PromptLength { bytes: usize, most: usize },
    #[error("a prompt makes {chunks} chunks of tokens, {most} are the most that are encoded")]
    PromptChunks { chunks: usize, most: usize },
    #[error("a prompt makes {tokens} tokens, {most} are the most that are encoded at once")]
    PromptTokens { tokens: usize, most: usize },
    #[error("the noise has {found} values, the latent {expected}")]
    NoiseLength { expected: usize, found: usize },
    #[error("noise levels have to fall: {first} is followed by {then}")]
    Sigmas { first: f32, then: f32 },
    #[error("the network gave NaN or infinity in {dtype}: its weights or its input are broken")]
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
        "no network this program knows".to_owned()
    } else {
        names.join(", ")
    }
}

/// Bytes in MiB, rounded up.
fn mib(bytes: usize) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}
