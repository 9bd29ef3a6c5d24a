//! What can go wrong with a request, in sentences with numbers, and what to try.

use crate::media::MediaError;
use nino_dtype::DType;
use nino_graph::{ExecError, GraphError, PlanError};
use nino_models::latent::{FORMATS, LatentFormat};
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error("stopped")]
    Cancelled,
    #[error(transparent)]
    Weights(#[from] nino_weights::Error),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    Exec(ExecError),
    #[error("{}: not a VAE this program knows; its tensors begin with {}", path.display(), found.join(", "))]
    NotAVae { path: PathBuf, found: Vec<String> },
    #[error("no built-in description is called {name:?}; known are {}", known.join(", "))]
    UnknownSpec { name: String, known: Vec<String> },
    #[error("{}: holds no latent: looked for latent_tensor, samples or latents, found {}", path.display(), listed(found))]
    NoLatent { path: PathBuf, found: Vec<String> },
    #[error("{}: a latent is [b, c, h, w] or [b, c, t, h, w], each at least 1; this one is {shape:?}", path.display())]
    LatentShape { path: PathBuf, shape: Vec<usize> },
    #[error("{}: {bad} of {all} values of the latent are NaN or infinite", path.display())]
    LatentNotFinite {
        path: PathBuf,
        bad: usize,
        all: usize,
    },
    #[error("the latent has {found} channels, the VAE takes {expected}")]
    Channels { expected: usize, found: usize },
    #[error("{frames} latent frames for {vae}, which decodes single pictures")]
    VideoLatent { frames: usize, vae: String },
    #[error("{vae} encodes single pictures, not clips: use a video VAE such as Wan's")]
    VideoFrames { vae: String },
    #[error("the clip has no frames")]
    NoFrames,
    #[error("frame {frame} is {}x{}, those before it {}x{}", found.0, found.1, expected.0, expected.1)]
    FrameSize {
        frame: usize,
        expected: (usize, usize),
        found: (usize, usize),
    },
    #[error("{vae}: {} not as its network wants: {}", tensors_are(misfits.len()), first_of(misfits))]
    Misfits { vae: String, misfits: Vec<String> },
    #[error("{name} is a description without weights: it can be planned with, not run")]
    NoWeights { name: String },
    #[error("{vae} takes scaled latents, and nothing says which scale: give --latent-format")]
    NoFormat { vae: String },
    #[error("latents of the {} format have {} channels, those of {vae} have {channels}", format.name, format.unpacked_channels())]
    FormatChannels {
        format: &'static LatentFormat,
        vae: String,
        channels: usize,
    },
    #[error("{}: no Stable Diffusion UNet in this file, which holds {}", path.display(), some(found))]
    NoUnet { path: PathBuf, found: Vec<String> },
    #[error("{}: {family} takes the text encoder {}; found {}", path.display(), encoders(wanted), encoders(found))]
    Encoders {
        path: PathBuf,
        family: &'static str,
        /// Widths.
        wanted: Vec<usize>,
        found: Vec<usize>,
    },
    #[error("{}: not a CLIP text encoder", path.display())]
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
    #[error("{}: a LoRA for {made_for}, and {model}: {misfits} of {all} updates have no place there, such as {example}", path.display())]
    LoraFamily {
        path: PathBuf,
        made_for: &'static str,
        model: String,
        misfits: usize,
        all: usize,
        example: String,
    },
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
    #[error("the latent holds {found} pictures, {wanted} are asked for")]
    LatentBatch { found: usize, wanted: usize },
    #[error(
        "{model} is {kind}: its UNet takes {more} channels beside the latent, where inpaint models with 5 and \
         instruct-pix2pix models with 4 are supported"
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
    #[error("what the VAE gave in {dtype} is NaN or infinite: its weights or its input are broken")]
    NotFinite { dtype: DType },
}

impl EngineError {
    /// What the user can do about it.
    pub fn hint(&self) -> Option<String> {
        match self {
            EngineError::Plan(PlanError::OverBudget { need, .. }) => {
                Some(format!("give --budget {}MiB or more; a decode can also be made in pieces: --tile fast", need.div_ceil(MIB)))
            }
            EngineError::Exec(ExecError::OutOfMemory { free, .. }) => {
                let free = free.map(|f| format!("{:.1}GiB", f as f64 / GIB));
                Some(format!("plan for less: --budget {}", free.unwrap_or_else(|| "2GiB".to_owned())))
            }
            EngineError::Exec(ExecError::HostMemory { .. }) => {
                Some("raise --budget if the device has more, or decode in pieces: --tile fast".to_owned())
            }
            EngineError::Exec(ExecError::Disk { .. }) => {
                Some("set TMPDIR to a folder with more room, raise --budget, or decode in pieces: --tile fast".to_owned())
            }
            EngineError::Exec(ExecError::Unsupported { .. })
            | EngineError::Plan(PlanError::BindingTooLarge { .. } | PlanError::ValueTooLarge { .. }) => {
                Some("--tile fast decodes in pieces, and --device cpu has no such limit".to_owned())
            }
            EngineError::Channels { found: 128, .. } => Some("128 channels are Flux.2: use that model's VAE".to_owned()),
            EngineError::Channels { found: 16, .. } => Some("16 channels are Flux, SD3 or Wan: use that model's VAE".to_owned()),
            EngineError::Channels { found: 4, .. } => Some("4 channels are SD 1.x, 2.x or XL: use that model's VAE".to_owned()),
            EngineError::FormatChannels { channels, .. } => {
                let fits = FORMATS.iter().filter(|f| f.unpacked_channels() == *channels);
                let fits: Vec<&str> = fits.map(|f| f.name).collect();
                (!fits.is_empty()).then(|| format!("give --latent-format {}", fits.join(" or ")))
            }
            EngineError::Encoders { wanted, found, .. } => {
                let missing: Vec<usize> = wanted.iter().filter(|w| !found.contains(w)).copied().collect();
                Some(match &missing[..] {
                    [] => "leave out the --clip that does not belong".to_owned(),
                    _ => format!("give --clip FILE for {}", encoders(&missing)),
                })
            }
            EngineError::NotAnEncoder { .. } => Some("--clip takes CLIP-L, OpenCLIP-H or OpenCLIP-G; `nino inspect` says what a file is".to_owned()),
            EngineError::MissingVae { family, .. } => Some(format!("give --vae FILE, a VAE of {family} or its TAESD")),
            EngineError::NoUnet { .. } => Some("`nino inspect` says what a file is; generate runs SD 1.x, 2.x and XL".to_owned()),
            EngineError::NoPart { part, .. } => {
                Some(format!("give --vae a file that holds one, such as taesd_{part}.safetensors"))
            }
            EngineError::LatentNotFinite { .. } => {
                Some("the sampling that made it failed; sample again, with --precision fp32 if it was f16".to_owned())
            }
            _ => None,
        }
    }
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

/// `CLIP-L and OpenCLIP-G`, by their widths.
fn encoders(widths: &[usize]) -> String {
    let name = |width: &usize| match width {
        768 => "CLIP-L".to_owned(),
        1024 => "OpenCLIP-H".to_owned(),
        1280 => "OpenCLIP-G".to_owned(),
        other => format!("one of width {other}"),
    };
    let names: Vec<String> = widths.iter().map(name).collect();
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(" and ")
    }
}

fn tensors_are(n: usize) -> String {
    match n {
        1 => "1 tensor is".to_owned(),
        _ => format!("{n} tensors are"),
    }
}

/// Not all of them: a file of another network would flood the terminal.
fn first_of(misfits: &[String]) -> String {
    const SHOWN: usize = 12;
    let shown = misfits[..misfits.len().min(SHOWN)].join("; ");
    match misfits.len().checked_sub(SHOWN) {
        None | Some(0) => shown,
        Some(more) => format!("{shown}; and {more} more"),
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

const GIB: f64 = (1u64 << 30) as f64;
const MIB: usize = 1 << 20;

#[cfg(test)]
mod tests;
