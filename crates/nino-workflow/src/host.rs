//! What a graph needs of the program it runs in: files by name, and a place for what it makes.

use crate::value::{Clip, Latents};
use nino_engine::media::Stop;
use nino_engine::{Image, Latent, Mask, Reached};
use std::path::PathBuf;
use std::sync::Arc;

/// Where a name is looked for, by ComfyUI's folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Folder {
    Checkpoints,
    DiffusionModels,
    TextEncoders,
    Vae,
    Loras,
    ControlNets,
    ModelPatches,
    ClipVision,
    AudioEncoders,
    StyleModels,
    UpscaleModels,
    /// Pictures and masks to start from.
    InputImages,
    /// Clips to start from.
    InputVideos,
    /// Audio, alone or of clips.
    InputAudio,
    /// Latents to start from.
    InputLatents,
}

impl Folder {
    /// ComfyUI's name of the folder.
    pub fn name(self) -> &'static str {
        match self {
            Folder::Checkpoints => "checkpoints",
            Folder::DiffusionModels => "diffusion_models",
            Folder::TextEncoders => "text_encoders",
            Folder::Vae => "vae",
            Folder::Loras => "loras",
            Folder::ControlNets => "controlnet",
            Folder::ModelPatches => "model_patches",
            Folder::ClipVision => "clip_vision",
            Folder::AudioEncoders => "audio_encoders",
            Folder::StyleModels => "style_models",
            Folder::UpscaleModels => "upscale_models",
            Folder::InputImages
            | Folder::InputVideos
            | Folder::InputAudio
            | Folder::InputLatents => "input",
        }
    }

    /// Whether users put files there for a single graph, rather than models.
    pub fn is_input(self) -> bool {
        self.name() == "input"
    }
}

/// Why a host could not do what a node asked for, in a sentence. What the host itself calls the
/// error is inside.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct HostError(Box<dyn std::error::Error + Send + Sync>);

impl HostError {
    pub fn new(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> HostError {
        HostError(error.into())
    }
}

/// The program a graph runs in.
pub trait Host {
    /// The file that a name in a folder means.
    fn find(&self, folder: Folder, name: &str) -> Result<PathBuf, HostError>;

    /// The names in a folder, as a list to choose from. `None` where names mean more than a list
    /// can say; then [`Host::find`] decides whether one is right.
    fn list(&self, folder: Folder) -> Option<Vec<String>>;

    /// Folders with textual inversions.
    fn embeddings(&self) -> Vec<PathBuf>;

    /// Takes what an output node made, as soon as it is there. What is returned is what a host
    /// calls it, such as the names of files, or `null`, which is told to nobody; it is told again
    /// when a later run finds the node's result in the cache.
    fn output(&mut self, output: &Output<'_>) -> Result<serde_json::Value, HostError>;

    /// Whether what [`Host::output`] called a result is still there. If not, the node runs again.
    fn is_there(&self, _: &serde_json::Value) -> bool {
        true
    }

    /// Ends other programs that read or write files for a node.
    fn stop(&self) -> Stop {
        Stop::never()
    }

    /// Hears of every latent that a node sampled, also of one that stopped before its end. A host
    /// may keep it, should no picture come of it.
    fn sampled(&mut self, _: &SampledLatent<'_>) {}
}

/// A latent that a node sampled.
pub struct SampledLatent<'a> {
    /// The node's id.
    pub node: &'a str,
    /// The latent; of a run that stopped, the prediction of what it would have come to.
    pub latent: &'a Latent,
    /// Where a run stopped; `None` of one that came to its end.
    pub stopped: Option<&'a Reached>,
}

/// What an output node made.
pub struct Output<'a> {
    /// The node's id.
    pub node: &'a str,
    pub class: &'static str,
    pub made: Made,
    /// How opaque the pictures are, one for each; all of them when `None`.
    pub opacity: Option<Arc<Vec<Mask>>>,
    /// What its user wants the files to be called.
    pub prefix: Arc<str>,
}

/// The values of an output.
#[derive(Clone)]
pub enum Made {
    /// Pictures to keep.
    Images(Arc<Vec<Image>>),
    /// Pictures to look at.
    Previews(Arc<Vec<Image>>),
    /// Pictures for the program that sent the graph, and for no file.
    Sent(Arc<Vec<Image>>),
    Latent(Arc<Latents>),
    /// Frames to keep as a clip.
    Clip(Arc<Clip>),
    /// Texts to read in the node.
    Texts(Vec<String>),
}
