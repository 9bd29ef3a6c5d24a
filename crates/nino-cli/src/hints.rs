//! What a person can type to get around an error. The engine itself knows no flags, and verbs have
//! different ones: a way is offered where the verb at hand has every flag that it names.

mod device;
#[cfg(test)]
mod tests;

use crate::args::VerbFlags;
use crate::pull::{self, HubError};
use nino_dtype::DType;
use nino_engine::media::MediaError;
use nino_engine::{
    DeviceError, Encoder, EngineError, LATENT_FORMATS, LibraryError, encoder_names, is_builtin,
};
use nino_suite::RunError;
use std::error::Error;

/// What the user can do about an error; `None` where the sentence says it all.
pub(crate) fn of(error: &(dyn Error + 'static), verb: &VerbFlags) -> Option<String> {
    let ways = ways(error).into_iter().filter(|way| verb.has_all(way));
    let ways: Vec<String> = ways.collect();
    (!ways.is_empty()).then(|| ways.join(", or "))
}

/// Ways around an error, best first, each a part of a sentence.
fn ways(error: &(dyn Error + 'static)) -> Vec<String> {
    if let Some(engine) = error.downcast_ref::<EngineError>() {
        return engine_ways(engine);
    }
    // Transparent errors hide their inner error from the chain.
    match error.downcast_ref() {
        Some(RunError::Plan(e)) => return device::plan_ways(e),
        Some(RunError::Exec(e)) => return device::exec_ways(e),
        _ => {}
    }
    if let Some(device) = error.downcast_ref::<DeviceError>() {
        return device::device_ways(device);
    }
    if let Some(e) = error.downcast_ref() {
        return device::exec_ways(e);
    }
    if let Some(e) = error.downcast_ref() {
        return device::plan_ways(e);
    }
    if let Some(media) = error.downcast_ref() {
        return media_ways(media);
    }
    let text = error.downcast_ref().and_then(HubError::hint);
    let text = text.map(str::to_owned);
    let text = text.or_else(|| error.downcast_ref().and_then(library_way));
    text.into_iter().collect()
}

fn engine_ways(error: &EngineError) -> Vec<String> {
    let way = match error {
        EngineError::Plan(e) => return device::plan_ways(e),
        EngineError::Exec(e) => return device::exec_ways(e),
        EngineError::Device(e) => return device::device_ways(e),
        EngineError::Media(e) => return media_ways(e),
        EngineError::Channels { found: 128, .. } => "128 channels are Flux.2: use that model's VAE",
        EngineError::Channels { found: 16, .. } => {
            "16 channels are Flux, SD3 or Wan: use that model's VAE"
        }
        EngineError::Channels { found: 4, .. } => {
            "4 channels are SD 1.x, 2.x or XL: use that model's VAE"
        }
        EngineError::NoFormat { .. } => "give --latent-format, such as sd15 or sdxl",
        EngineError::FormatChannels { channels, .. } => {
            let fits = LATENT_FORMATS.iter();
            let fits = fits.filter(|f| f.unpacked_channels() == *channels);
            let fits: Vec<&str> = fits.map(|f| f.name).collect();
            let way = || format!("give --latent-format {}", fits.join(" or "));
            return (!fits.is_empty()).then(way).into_iter().collect();
        }
        EngineError::Encoders { wanted, found, .. } => {
            let missing = wanted.iter().filter(|w| !found.contains(w));
            let missing: Vec<Encoder> = missing.copied().collect();
            return vec![match &missing[..] {
                [] => "leave out the --clip that does not belong to the model".to_owned(),
                _ => format!("give --clip FILE for {}", encoder_names(&missing)),
            }];
        }
        EngineError::NotAnEncoder { .. } => {
            "--clip takes CLIP-L, OpenCLIP-H, OpenCLIP-G, T5 or Qwen3; `nino inspect` shows what a \
             file is"
        }
        EngineError::MissingVae { family, .. } => {
            return vec![format!("give --vae FILE, a VAE of {family} or its TAESD")];
        }
        EngineError::Misfits(_) => {
            "the file is damaged or of a model that is not supported; `nino inspect` lists every \
             difference"
        }
        EngineError::NoUnet { .. } => {
            "`nino inspect` shows what a file is; generate runs SD 1.x, 2.x and XL, Flux.1, \
             Chroma, Z-Image, Flux.2, Qwen-Image, Krea 2 and Anima"
        }
        EngineError::NoPart { vae, .. } if is_builtin(vae) => {
            "the built-in model starts from latents, not from images: save one with --save-latent \
             and give it with --latent"
        }
        EngineError::NoPart { part, .. } => {
            return vec![format!(
                "give --vae a file that contains one, such as taesd_{part}.safetensors"
            )];
        }
        EngineError::LatentNotFinite { .. } => {
            "the sampling that made it failed; sample again, with `nino generate --precision fp32` \
             if it was f16"
        }
        EngineError::LoraFamily { .. } => "`nino inspect` shows which model a LoRA is for",
        EngineError::NotFinite { dtype } if *dtype != DType::F32 => {
            "store activations in f32: --precision fp32"
        }
        _ => return Vec::new(),
    };
    vec![way.to_owned()]
}

fn media_ways(error: &MediaError) -> Vec<String> {
    let way = match error {
        MediaError::NoFfmpeg { .. } => {
            "install ffmpeg, or use a format that does not need it: gif, webp, apng, y4m, or a \
             folder of frames"
        }
        _ => return Vec::new(),
    };
    vec![way.to_owned()]
}

fn library_way(error: &LibraryError) -> Option<String> {
    let LibraryError::Unknown { name, places, .. } = error else {
        return None;
    };
    if pull::is_short_name(name) {
        return Some(format!("`nino pull {name}` downloads it"));
    }
    let way = "set NINO_MODELS to a folder of models or NINO_COMFYUI to ComfyUI's folder, and \
               names are looked up there";
    places.is_empty().then(|| way.to_owned())
}
