//! What errors are about, as kinds that a host can match on.

use super::EngineError;
use nino_graph::{ExecError, PlanError};

/// What an error is about, for hosts that act on it. The names are stable: a server sends them,
/// Python has an exception for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The caller asked to stop.
    Cancelled,
    /// A file cannot be read, or is not what it has to be.
    File,
    /// A file is not the one the model was opened from.
    FileChanged,
    /// Parts that do not belong together: a VAE, LoRA, text encoder or conditioning of another
    /// model.
    Mismatch,
    /// The request itself cannot be meant: sizes, numbers, values.
    Request,
    /// No plan fits the budget.
    OverBudget,
    /// It does not fit beside what other requests are using now.
    Busy,
    /// The device or the host ran out of memory or disk.
    OutOfMemory,
    /// The driver gave the device up.
    DeviceLost,
    /// A device cannot be opened or measured.
    Device,
    /// The device cannot compute this.
    Unsupported,
    /// NaN or infinity came out of a network.
    NotFinite,
    /// Something that should not have happened.
    Internal,
}

impl ErrorKind {
    /// The name that JSON and other programs see.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Cancelled => "cancelled",
            ErrorKind::File => "file",
            ErrorKind::FileChanged => "file-changed",
            ErrorKind::Mismatch => "mismatch",
            ErrorKind::Request => "request",
            ErrorKind::OverBudget => "over-budget",
            ErrorKind::Busy => "busy",
            ErrorKind::OutOfMemory => "out-of-memory",
            ErrorKind::DeviceLost => "device-lost",
            ErrorKind::Device => "device",
            ErrorKind::Unsupported => "unsupported",
            ErrorKind::NotFinite => "not-finite",
            ErrorKind::Internal => "internal",
        }
    }
}

impl EngineError {
    /// What the error is about. Words about what to type are the host's.
    pub fn kind(&self) -> ErrorKind {
        match self {
            EngineError::Cancelled => ErrorKind::Cancelled,
            EngineError::Weights(_)
            | EngineError::CannotReplay { .. }
            | EngineError::NotAVae { .. }
            | EngineError::NoLatent { .. }
            | EngineError::LatentShape { .. }
            | EngineError::LatentTooLarge { .. }
            | EngineError::LatentNotFinite { .. }
            | EngineError::Misfits { .. }
            | EngineError::NoUnet { .. }
            | EngineError::NotAnEncoder { .. }
            | EngineError::NoVocabulary { .. }
            | EngineError::Blind { .. }
            | EngineError::NotAnImageEncoder { .. }
            | EngineError::NotAnAudioEncoder { .. }
            | EngineError::NotAnUpscaler { .. }
            | EngineError::NotAStyleModel { .. }
            | EngineError::OtherJournal { .. }
            | EngineError::Journal { .. }
            | EngineError::File(_)
            | EngineError::MissingVae { .. }
            | EngineError::UnknownFamily { .. }
            | EngineError::NoPart { .. }
            | EngineError::Media(_)
            | EngineError::Text(_) => ErrorKind::File,
            EngineError::FileChanged { .. } => ErrorKind::FileChanged,
            EngineError::Channels { .. }
            | EngineError::VideoLatent { .. }
            | EngineError::VideoFrames { .. }
            | EngineError::SeenSize { .. }
            | EngineError::SeenChannels { .. }
            | EngineError::ImageWidth { .. }
            | EngineError::AudioStates { .. }
            | EngineError::AudioFrames { .. }
            | EngineError::AudioTooShort { .. }
            | EngineError::MotionSize { .. }
            | EngineError::ReferenceFrames { .. }
            | EngineError::NoPictureInput { .. }
            | EngineError::NoClipInput { .. }
            | EngineError::NoCameraInput { .. }
            | EngineError::NoAudioInput { .. }
            | EngineError::NoAudioEncoder { .. }
            | EngineError::NoSkippedLayers { .. }
            | EngineError::NoStretch { .. }
            | EngineError::UnetOnly { .. }
            | EngineError::ShrinkAfterFreeU
            | EngineError::SelfAttention { .. }
            | EngineError::ThirdPrompt { .. }
            | EngineError::StepReuse { .. }
            | EngineError::KeptReferences { .. }
            | EngineError::UsoStates { .. }
            | EngineError::StyleBias { .. }
            | EngineError::TrackFrames { .. }
            | EngineError::FrameMask { .. }
            | EngineError::FramesForPictures { .. }
            | EngineError::FormatChannels { .. }
            | EngineError::Encoders { .. }
            | EngineError::EncoderWidth { .. }
            | EngineError::VaeMismatch { .. }
            | EngineError::VaeFormat { .. }
            | EngineError::LoraFamily { .. }
            | EngineError::NoControlNet { .. }
            | EngineError::ControlNetDifference { .. }
            | EngineError::Merge { .. }
            | EngineError::StyleStates { .. }
            | EngineError::NeedsGuidance { .. }
            | EngineError::StyleWidth { .. }
            | EngineError::ControlNetFamily { .. }
            | EngineError::ControlNetMode { .. }
            | EngineError::ConditioningWidth { .. } => ErrorKind::Mismatch,
            EngineError::UnknownSpec { .. }
            | EngineError::NoFrames
            | EngineError::FrameSize { .. }
            | EngineError::NoWeights { .. }
            | EngineError::NoFormat { .. }
            | EngineError::StartSize { .. }
            | EngineError::UpscaledSize { .. }
            | EngineError::ControlNetVae { .. }
            | EngineError::ControlNetBatch { .. }
            | EngineError::ControlNetArea { .. }
            | EngineError::MaskAlone
            | EngineError::NoReferences { .. }
            | EngineError::ReferencePlaces { .. }
            | EngineError::LatentBatch { .. }
            | EngineError::EditMask { .. }
            | EngineError::ConditioningLength { .. }
            | EngineError::InputNotFinite { .. }
            | EngineError::NoNegative { .. }
            | EngineError::NoPrompt
            | EngineError::AreaOutside { .. }
            | EngineError::PromptLength { .. }
            | EngineError::PromptChunks { .. }
            | EngineError::PromptTokens { .. }
            | EngineError::NoiseLength { .. }
            | EngineError::Sigmas { .. }
            | EngineError::Sample(_)
            | EngineError::Vae(_) => ErrorKind::Request,
            EngineError::Plan(PlanError::OverBudget { .. }) => ErrorKind::OverBudget,
            EngineError::Busy { .. } => ErrorKind::Busy,
            EngineError::Exec(
                ExecError::OutOfMemory { .. }
                | ExecError::HostMemory { .. }
                | ExecError::Disk { .. },
            ) => ErrorKind::OutOfMemory,
            EngineError::Exec(ExecError::DeviceLost { .. }) => ErrorKind::DeviceLost,
            EngineError::Plan(_)
            | EngineError::Exec(ExecError::Unsupported { .. })
            | EngineError::InputChannels { .. } => ErrorKind::Unsupported,
            EngineError::Exec(ExecError::Param(_)) => ErrorKind::File,
            EngineError::Device(_) => ErrorKind::Device,
            EngineError::NotFinite { .. } => ErrorKind::NotFinite,
            EngineError::Exec(_)
            | EngineError::Graph(_)
            | EngineError::Describe(_)
            | EngineError::Codec(_) => ErrorKind::Internal,
        }
    }
}
