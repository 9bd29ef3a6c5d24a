//! A whole text-to-image model out of one file or folder: text encoders, UNet, VAE, and how it is
//! sampled.

use crate::{BUILTIN, EngineError, VaeFile};
use nino_dtype::DType;
use nino_graph::Device;
use nino_models::latent::LatentFormat;
use nino_models::{FileParams, clip, unet};
use nino_sample::{ModelSampling, Prediction};
use nino_text::Bpe;
use nino_weights::TensorReader;
use nino_weights::names::{self, Net};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Families that differ in how text becomes conditioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    Sd1,
    Sd2,
    Sdxl,
    SdxlRefiner,
    /// The model in the box.
    Emoji,
}

/// Settings a user who says nothing gets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defaults {
    pub steps: usize,
    pub cfg: f32,
    pub sampler: &'static str,
    pub scheduler: &'static str,
    /// Pixels of both sides.
    pub size: usize,
}

pub struct Checkpoint {
    pub name: String,
    pub path: PathBuf,
    pub family: Family,
    pub sampling: ModelSampling,
    pub vae: VaeFile,
    unet: (FileParams, unet::Config),
    text: Vec<TextEncoder>,
    pub(super) bpe: Bpe,
}

pub(super) struct TextEncoder {
    pub(super) params: FileParams,
    pub(super) config: clip::Config,
}

impl Checkpoint {
    /// Reads headers and recognizes the parts; `vae` replaces the file's own.
    pub fn open(path: &Path, vae: Option<&Path>) -> Result<Checkpoint, EngineError> {
        let reader = Arc::new(nino_weights::open(path)?);
        let (components, _) = names::canonical(reader.index())?;
        let missing = |part: &'static str| EngineError::MissingPart {
            path: path.to_owned(),
            part,
        };
        let mut unet = None;
        let mut text = Vec::new();
        for component in components {
            let params = FileParams::of(&reader, component.index);
            let find = |name: &str| params.find(name);
            match component.net {
                Net::Unet => unet = unet::Config::detect(&find).map(|config| (params, config)),
                Net::ClipText => {
                    if let Some(config) = clip::Config::detect(&find) {
                        text.push(TextEncoder { params, config });
                    }
                }
                _ => {}
            }
        }
        let mut unet = unet.ok_or_else(|| missing("UNet"))?;
        if text.is_empty() {
            return Err(missing("text encoder"));
        }
        // SDXL's narrow encoder comes first in the context.
        text.sort_by_key(|t| t.config.width);
        let own = Own::read(&reader);
        let family = family(&unet.1, own.is_some()).ok_or_else(|| EngineError::UnknownFamily {
            path: path.to_owned(),
            context: unet.1.context_dim,
            label: unet.1.adm_in,
        })?;
        let bpe = match &own {
            Some(own) => {
                unet.1.heads = unet::Heads::Width(own.head_width);
                Bpe::from_files(own.vocab.as_bytes(), own.merges.as_bytes())?
            }
            None => Bpe::clip(),
        };
        let sampling = match family {
            Family::Emoji => ModelSampling::flow(1.0, 1000.0),
            Family::Sd2 if predicts_v(path) => ModelSampling::stable_diffusion(Prediction::V),
            _ => ModelSampling::stable_diffusion(Prediction::Eps),
        };
        let file = path
            .file_name()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let name = if family == Family::Emoji {
            BUILTIN.to_owned()
        } else {
            file
        };
        let vae = VaeFile::open(vae.unwrap_or(path))?;
        Ok(Checkpoint {
            name,
            path: path.to_owned(),
            family,
            sampling,
            vae,
            unet,
            text,
            bpe,
        })
    }

    pub fn defaults(&self) -> Defaults {
        let base = Defaults {
            steps: 20,
            cfg: 7.0,
            sampler: "euler",
            scheduler: "normal",
            size: 512,
        };
        match self.family {
            Family::Sd1 => base,
            Family::Sd2 if self.sampling.prediction == Prediction::V => {
                Defaults { size: 768, ..base }
            }
            Family::Sd2 => base,
            Family::Sdxl | Family::SdxlRefiner => Defaults { size: 1024, ..base },
            Family::Emoji => Defaults {
                cfg: 4.0,
                scheduler: "simple",
                size: 256,
                ..base
            },
        }
    }

    /// The latent space the UNet works in.
    pub(super) fn latent_format(&self) -> Option<&'static LatentFormat> {
        match self.family {
            Family::Sd1 | Family::Sd2 => LatentFormat::by_name("sd15"),
            Family::Sdxl | Family::SdxlRefiner => LatentFormat::by_name("sdxl"),
            Family::Emoji => LatentFormat::by_name("nino"),
        }
    }

    /// How weights are held on a device: as stored, but a model too small for memory to matter is
    /// held in the type that is fastest and loses nothing there.
    pub(super) fn held(&self, stored: DType, device: &dyn Device) -> DType {
        match self.family {
            Family::Emoji => device.activation_dtype(),
            _ => stored,
        }
    }

    pub(super) fn unet(&self) -> &unet::Config {
        &self.unet.1
    }

    pub(super) fn unet_params(&self) -> FileParams {
        self.unet.0.clone()
    }

    pub(super) fn text(&self) -> &[TextEncoder] {
        &self.text
    }
}

fn family(config: &unet::Config, own: bool) -> Option<Family> {
    match (config.context_dim, config.adm_in) {
        _ if own => Some(Family::Emoji),
        (768, None) => Some(Family::Sd1),
        (1024, None) => Some(Family::Sd2),
        (2048, Some(2816)) => Some(Family::Sdxl),
        (1280, Some(2560)) => Some(Family::SdxlRefiner),
        _ => None,
    }
}

/// SD 2.x at 768 predicts v; files say so in their names, if at all.
fn predicts_v(path: &Path) -> bool {
    let name = path.to_string_lossy().to_ascii_lowercase();
    name.contains("768")
        || name.contains("v-pred")
        || name.contains("vpred")
        || name.contains("_v.")
}

/// What a model of our own carries in its header.
struct Own {
    vocab: String,
    merges: String,
    head_width: usize,
}

impl Own {
    fn read(reader: &TensorReader) -> Option<Own> {
        let text = |key: &str| Some(reader.index().metadata.get(key)?.as_str()?.to_owned());
        let config = text("config")?;
        let config: serde_json::Value = serde_json::from_str(&config).ok()?;
        let head_width = config["unet"]["num_head_channels"].as_u64()? as usize;
        Some(Own {
            vocab: text("vocab.json")?,
            merges: text("merges.txt")?,
            head_width,
        })
    }
}
