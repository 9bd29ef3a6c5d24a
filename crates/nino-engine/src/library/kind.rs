//! What model files are for, which says in which of ComfyUI's folders they lie.

/// What a model file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ModelKind {
    Checkpoint,
    /// A denoiser alone.
    DiffusionModel,
    /// A folder in the layout of diffusers.
    Diffusers,
    Vae,
    TextEncoder,
    Lora,
    Embedding,
    UpscaleModel,
    ControlNet,
    ClipVision,
    AudioEncoder,
    StyleModel,
    Gligen,
    Hypernetwork,
}

impl ModelKind {
    pub const ALL: &[ModelKind] = &[
        ModelKind::Checkpoint,
        ModelKind::DiffusionModel,
        ModelKind::Diffusers,
        ModelKind::Vae,
        ModelKind::TextEncoder,
        ModelKind::Lora,
        ModelKind::Embedding,
        ModelKind::UpscaleModel,
        ModelKind::ControlNet,
        ModelKind::ClipVision,
        ModelKind::AudioEncoder,
        ModelKind::StyleModel,
        ModelKind::Gligen,
        ModelKind::Hypernetwork,
    ];

    /// What pictures can be made with.
    pub const MODELS: &[ModelKind] = &[
        ModelKind::Checkpoint,
        ModelKind::DiffusionModel,
        ModelKind::Diffusers,
    ];

    /// ComfyUI's names of the folders, best first.
    pub fn folders(self) -> &'static [&'static str] {
        match self {
            ModelKind::Checkpoint => &["checkpoints"],
            ModelKind::DiffusionModel => &["diffusion_models", "unet"],
            ModelKind::Diffusers => &["diffusers"],
            ModelKind::Vae => &["vae", "vae_approx"],
            ModelKind::TextEncoder => &["text_encoders", "clip"],
            ModelKind::Lora => &["loras"],
            ModelKind::Embedding => &["embeddings"],
            ModelKind::UpscaleModel => &["upscale_models"],
            ModelKind::ControlNet => &["controlnet", "t2i_adapter", "model_patches"],
            ModelKind::ClipVision => &["clip_vision"],
            ModelKind::AudioEncoder => &["audio_encoders"],
            ModelKind::StyleModel => &["style_models"],
            ModelKind::Gligen => &["gligen"],
            ModelKind::Hypernetwork => &["hypernetworks"],
        }
    }

    /// The kind that has a folder of this name.
    pub(super) fn of_folder(name: &str) -> Option<ModelKind> {
        let mut all = ModelKind::ALL.iter().copied();
        all.find(|kind| kind.folders().contains(&name))
    }

    /// What a message calls it.
    pub fn noun(self) -> &'static str {
        match self {
            ModelKind::Checkpoint => "checkpoint",
            ModelKind::DiffusionModel => "diffusion model",
            ModelKind::Diffusers => "diffusers folder",
            ModelKind::Vae => "VAE",
            ModelKind::TextEncoder => "text encoder",
            ModelKind::Lora => "LoRA",
            ModelKind::Embedding => "embedding",
            ModelKind::UpscaleModel => "upscale model",
            ModelKind::ControlNet => "ControlNet",
            ModelKind::ClipVision => "CLIP vision model",
            ModelKind::AudioEncoder => "audio encoder",
            ModelKind::StyleModel => "style model",
            ModelKind::Gligen => "GLIGEN model",
            ModelKind::Hypernetwork => "hypernetwork",
        }
    }

    /// What a message calls any of several.
    pub(super) fn noun_of(kinds: &[ModelKind]) -> &'static str {
        match kinds {
            [kind] => kind.noun(),
            _ if kinds == ModelKind::MODELS => "model",
            _ => "file",
        }
    }
}
