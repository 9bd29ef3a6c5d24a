//! The types of sockets, by ComfyUI's names.

/// What an output gives and an input takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Socket {
    Model,
    Clip,
    Vae,
    ControlNet,
    ModelPatch,
    Conditioning,
    Latent,
    Image,
    Mask,
    Sigmas,
    Sampler,
    Noise,
    Guider,
    ClipVision,
    ClipVisionOutput,
    /// A camera's path.
    Camera,
    /// Points that move through a clip.
    Tracks,
    StyleModel,
    UpscaleModel,
    Video,
    LatentOperation,
    Audio,
    AudioEncoder,
    AudioEncoderOutput,
    Int,
    Float,
    String,
    Boolean,
    /// A number of any of the three kinds.
    Number,
    /// A number of any of the three kinds, or a text.
    Scalar,
    /// One of a list of texts.
    Combo,
    /// Whatever is connected.
    Any,
}

impl Socket {
    pub fn name(self) -> &'static str {
        match self {
            Socket::Model => "MODEL",
            Socket::Clip => "CLIP",
            Socket::Vae => "VAE",
            Socket::ControlNet => "CONTROL_NET",
            Socket::ModelPatch => "MODEL_PATCH",
            Socket::Conditioning => "CONDITIONING",
            Socket::Latent => "LATENT",
            Socket::Image => "IMAGE",
            Socket::Mask => "MASK",
            Socket::Sigmas => "SIGMAS",
            Socket::Sampler => "SAMPLER",
            Socket::Noise => "NOISE",
            Socket::Guider => "GUIDER",
            Socket::ClipVision => "CLIP_VISION",
            Socket::ClipVisionOutput => "CLIP_VISION_OUTPUT",
            Socket::Camera => "WAN_CAMERA_EMBEDDING",
            Socket::Tracks => "TRACKS",
            Socket::StyleModel => "STYLE_MODEL",
            Socket::UpscaleModel => "UPSCALE_MODEL",
            Socket::Video => "VIDEO",
            Socket::LatentOperation => "LATENT_OPERATION",
            Socket::Audio => "AUDIO",
            Socket::AudioEncoder => "AUDIO_ENCODER",
            Socket::AudioEncoderOutput => "AUDIO_ENCODER_OUTPUT",
            Socket::Int => "INT",
            Socket::Float => "FLOAT",
            Socket::String => "STRING",
            Socket::Boolean => "BOOLEAN",
            Socket::Number => "FLOAT,INT,BOOLEAN",
            Socket::Scalar => "INT,FLOAT,STRING,BOOLEAN",
            Socket::Combo => "COMBO",
            Socket::Any => "*",
        }
    }

    /// Whether an output of this type may be linked to an input of type `input`.
    pub(crate) fn fits(self, input: Socket) -> bool {
        let is_number = matches!(self, Socket::Int | Socket::Float | Socket::Boolean);
        self == input
            || self == Socket::Any
            || input == Socket::Any
            || input == Socket::Number && is_number
            || input == Socket::Scalar && (is_number || self == Socket::String)
    }
}

impl std::fmt::Display for Socket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}
